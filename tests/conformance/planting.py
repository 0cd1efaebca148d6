"""What proves that a suite can fail: faults planted in the runtime, each for a law to object to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import pytest
import trio
import trio.testing

from trouper.errors import TrouperError

Patch: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Catches: TypeAlias = Callable[[str, Callable[[], None], trio.testing.MockClock], Awaitable[None]]
Law: TypeAlias = Callable[..., Awaitable[None]]
P = TypeVar("P", bound=Patch)


class Faults:
    """Faults by the law that should object; called, a decorator that adds one."""

    def __init__(self) -> None:
        self.planted: list[tuple[str, Patch]] = []

    def __call__(self, law: str) -> Callable[[P], P]:
        def plant(patch: P) -> P:
            self.planted.append((law, patch))
            return patch

        return plant

    @property
    def laws(self) -> set[str]:
        """The names of the laws that some fault breaks."""
        return {law for law, _ in self.planted}

    @property
    def cases(self) -> list[Any]:
        """A parameter set ``law, plant`` for each."""
        return [pytest.param(*case, id=f"{case[1].__name__}-{case[0]}") for case in self.planted]


async def assert_caught(
    law: str, laws: Sequence[Law], make: Callable[[], Any], plant: Callable[[], None]
) -> None:
    """Assert that a law objects to a fault, and to nothing without it."""
    subject = {each.__name__: each for each in laws}[law]
    assert await objections(subject, make()) == [], "the law holds without the fault"
    plant()
    assert await objections(subject, make())


async def objections(law: Law, *bench: Any) -> list[BaseException]:
    """Run a law until it ends, or waits for ever for what the rule promises; return what it said.

    A fault that merely crashes would prove nothing, so nothing else may come out.
    """
    found: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_stuck, nursery.cancel_scope)
        try:
            await law(*bench)
        except BaseException as error:
            found += _leaves(error)
        nursery.cancel_scope.cancel()
    assert all(isinstance(e, AssertionError | TrouperError | trio.Cancelled) for e in found), found
    return found


async def _cancel_when_stuck(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)
    scope.cancel()


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]

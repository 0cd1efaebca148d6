"""What proves that the host suite can fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from trouper.errors import TrouperError
from trouper.store import MemoryStore
from trouper.testing.conformance import drain, host

Catches = Callable[[str, Callable[[], None], trio.testing.MockClock], Awaitable[None]]


@pytest.fixture
def catches() -> Catches:
    """Assert that a law of the host suite objects to a fault, and to nothing without it."""

    async def catch(law: str, plant: Callable[[], None], clock: trio.testing.MockClock) -> None:
        assert await objections(law, clock) == [], "the law holds without the fault"
        plant()
        broken = await objections(law, clock)
        # A fault that merely crashes would prove nothing: the law itself objects, or waits for ever
        # for what the rule promises.
        assert broken
        assert all(isinstance(e, AssertionError | TrouperError | trio.Cancelled) for e in broken)

    return catch


async def objections(law: str, clock: trio.testing.MockClock) -> list[BaseException]:
    store = MemoryStore()
    subject = {each.__name__: each for each in (*host.LAWS, *drain.LAWS)}[law]
    found: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when_stuck, nursery.cancel_scope)
        try:
            await subject(host.EmbeddedBench(lambda: store, clock))
        except BaseException as error:
            found.extend(leaves(error))
        nursery.cancel_scope.cancel()
    return found


async def cancel_when_stuck(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)
    scope.cancel()


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]

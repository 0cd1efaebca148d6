"""The durable side under a gate: where its tasks begin, and how whoever waits for it wakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, final

from ...mailbox import Named
from ._alarms import DAEMONS

if TYPE_CHECKING:
    import trio

    from ._gate import Gate


START: Final = 1_767_225_600.0
"""2026, the first of January."""


@final
class GatedTasks:
    """Where a host starts its tasks: each begins by an event, save those that run for ever."""

    def __init__(self, gate: Gate, nursery: trio.Nursery) -> None:
        self._gate = gate
        self._nursery = nursery

    def start_soon(
        self, fn: Callable[..., Awaitable[Any]], /, *args: Any, name: object = None
    ) -> None:
        """Offer to let a task begin."""
        called = str(name)
        if called.startswith(DAEMONS):
            with self._gate.owners.naming(called):
                self._nursery.start_soon(fn, *args, name=called)
        else:
            self._gate.take_task(self._nursery, called, fn, args, counts=True)


@final
class GatedNews:
    """What a writer sets when there is news of it. Each of those who wait wakes by an event."""

    def __init__(self, gate: Gate, of: Named) -> None:
        self._gate = gate
        self._of = of
        self._is_set = False

    def set(self) -> None:
        """Offer to wake everybody who waits."""
        self._is_set = True
        self._gate.let_go(self)

    async def wait(self) -> None:
        """Wait until it is set, and for the event that follows."""
        if not self._is_set:
            await self._gate.hold(self, self._of.name, "news")


@final
class GatedClock:
    """Journaled time that begins on the same day in every schedule."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        self._gate.step.arms = True  # it reads the clock
        return START + self._gate.alarms.now

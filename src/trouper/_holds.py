"""Virtual time waits for real work: the seam between threads and a test's clock.

Under trio's `MockClock` with autojump a run that only waits for a thread looks idle, and the clock
jumps past every deadline (trio #456). Each door to a thread therefore holds the clock while its
work is out. On any other clock there is nothing to hold: `holds_of_run` gives None.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack, final

import outcome
import trio

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

INFINITY = float("inf")


class JumpingClock(Protocol):
    """What is needed of trio's MockClock, which is not imported outside of tests."""

    autojump_threshold: float


@final
class Holds:
    """How much work is outside the loop now; while there is any, the clock does not jump.

    Loop-owned: `take` and `drop` are called from a task or a ``run_sync_soon`` callback.
    """

    __slots__ = ("_clock", "_lot", "_threshold", "calls", "count", "landing")

    def __init__(self, clock: JumpingClock) -> None:
        self.count = 0
        self.calls = 0  # of `run_in_thread` under way; trio counts those of its own door as well
        # What who called a thread waits for when it is done, by the name of what that did: a
        # schedule says when the result arrives. Then nothing cancels that wait.
        self.landing: Callable[[str], Awaitable[None]] | None = None
        self._clock = clock
        self._threshold = INFINITY  # what to give back to the clock after the last hold
        self._lot = trio.lowlevel.ParkingLot()

    def take(self) -> None:
        """Hold the clock until the matching `drop`."""
        if not self.count:
            self._threshold = self._clock.autojump_threshold
            self._clock.autojump_threshold = INFINITY
        self.count += 1

    def drop(self, count: int = 1) -> None:
        """Give back this many holds; with the last one the clock goes on as before."""
        if count > self.count:
            raise RuntimeError(f"{count} holds of the clock were dropped, {self.count} are taken")
        self.count -= count
        if not self.count:
            self._clock.autojump_threshold = self._threshold
            self._lot.unpark_all()

    async def dropped(self) -> None:
        """Wait until nothing holds the clock."""
        while self.count:
            await self._lot.park()


_OF_RUN: trio.lowlevel.RunVar[Holds | None] = trio.lowlevel.RunVar("trouper clock holds")


def holds_of_run() -> Holds | None:
    """Return the holds on this run's clock; None unless it is a `MockClock`."""
    try:
        return _OF_RUN.get()
    except LookupError:
        # A clock of that class cannot be there unless somebody imported it.
        testing = sys.modules.get("trio.testing")
        clock: Any = trio.lowlevel.current_clock()
        holds = None
        if testing is not None and isinstance(clock, testing.MockClock):
            holds = Holds(clock)
        _OF_RUN.set(holds)
        return holds


def hold_run(holds: Holds) -> Holds:
    """Let these be the holds on the clock of this run, whatever that is made of."""
    _OF_RUN.set(holds)
    return holds


@contextmanager
def clock_held() -> Generator[None]:
    """Hold this run's clock, if it can be held, for the time of a block."""
    holds = holds_of_run()
    if holds is None:
        yield
        return
    holds.take()
    try:
        yield
    finally:
        holds.drop()


async def run_in_thread(
    fn: Callable[[Unpack[Ts]], T],
    /,
    *args: *Ts,
    limiter: trio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> T:
    """Run ``fn(*args)`` in one of trio's threads, with the clock held for that long."""

    def run() -> Coroutine[Any, Any, T]:
        return trio.to_thread.run_sync(
            fn, *args, limiter=limiter, abandon_on_cancel=abandon_on_cancel
        )

    holds = holds_of_run()
    if holds is None:
        return await run()
    holds.calls += 1
    try:
        with clock_held():
            result = await outcome.acapture(run)
    finally:
        holds.calls -= 1
    if holds.landing is not None:
        await holds.landing(getattr(fn, "__name__", "call"))
    return result.unwrap()

"""Virtual time that a test moves by hand."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import final

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from .._holds import clock_held, holds_of_run


@final
class ManualClock:
    """Moves trio's `MockClock` from deadline to deadline, and waits for threads on the way.

    Give ``clock`` to ``trio.run(clock=...)``, or wrap the one that pytest-trio made
    (``ManualClock(mock_clock)``). While `ctx.to_thread`, a plain effect, a flush of an `LmdbStore`
    or a guest is out, time stands still; that also holds for a clock with an autojump threshold
    under which nobody made a `ManualClock`. A thread that itself waits for virtual time to pass
    would therefore wait for ever.

    Args:
        clock: The clock of the run; a fresh one that stands still by default.
    """

    __slots__ = ("clock",)

    def __init__(self, clock: MockClock | None = None) -> None:
        self.clock = MockClock() if clock is None else clock

    @property
    def now(self) -> float:
        """Seconds of virtual time, from 0."""
        return self.clock.current_time()

    @property
    def holds(self) -> int:
        """How many threads, flushes and guests are out now."""
        self._check()
        holds = holds_of_run()
        return 0 if holds is None else holds.count

    def hold(self) -> AbstractContextManager[None]:
        """Let time stand still for the time of a ``with`` block: for work of the test's own."""
        self._check()
        return clock_held()

    async def settle(self) -> None:
        """Wait until every task waits and nothing is out; time does not move."""
        self._check()
        await wait_all_tasks_blocked()
        holds = holds_of_run()
        while holds is not None and holds.count:
            await holds.dropped()
            await wait_all_tasks_blocked()

    async def advance(self, seconds: float) -> None:
        """Let this much time pass, stopping at each deadline until all that it wakes has settled.

        Raises:
            ValueError: ``seconds`` is negative, or no number.
        """
        if not seconds >= 0:
            raise ValueError(f"time goes forward: 0 seconds or more, not {seconds}")
        goal = self.now + seconds
        await self.settle()
        while (step := _to_next_deadline()) <= goal - self.now:
            self.clock.jump(step)
            await self.settle()
        self.clock.jump(max(0.0, goal - self.now))
        await self.settle()

    async def advance_to_next(self) -> float:
        """Settle, jump to the next deadline, settle again; return the seconds of the jump.

        Raises:
            RuntimeError: Nobody waits for a deadline.
        """
        await self.settle()
        step = _to_next_deadline()
        if step == float("inf"):
            raise RuntimeError("no task waits for a deadline: there is no next one to jump to")
        self.clock.jump(step)
        await self.settle()
        return step

    def _check(self) -> None:
        if trio.lowlevel.current_clock() is not self.clock:
            raise RuntimeError(
                "this run has another clock; pass this one's .clock to trio.run(clock=), or wrap "
                "the run's own: ManualClock(mock_clock)"
            )


def _to_next_deadline() -> float:
    return max(0.0, trio.lowlevel.current_statistics().seconds_to_next_deadline)

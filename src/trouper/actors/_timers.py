"""Timers: one heap and one task for a whole system, however many actors have timers."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final, final

import trio

from ..errors import TimersFull
from ..mailbox import Owed, order

if TYPE_CHECKING:
    from ._local import LocalRef

# Cancelled timers stay in the heap until they are most of it; below this size nobody looks.
SWEEP_AT: Final = 64


@final
class Timer:
    """A message that comes once, or on a grid of due times: start + n * period."""

    __slots__ = ("due", "is_listed", "key", "message", "owed", "period", "ref")

    def __init__(
        self, ref: LocalRef, key: Hashable, message: Any, due: float, period: float | None
    ) -> None:
        self.ref: LocalRef | None = ref  # None once it is cancelled
        self.key = key
        self.message = message
        self.due = due
        self.period = period
        self.is_listed = True  # in the heap
        self.owed: Owed | None = None  # its last message

    def cancel(self) -> None:
        """Make sure that it does not come, also when its message waits in the mailbox already."""
        self.ref = None
        if self.owed is not None:
            self.owed.is_off = True

    def ring(self, now: float) -> bool:
        """Let the message come. Return whether there is another due time, and set that."""
        ref = self.ref
        assert ref is not None
        if self.period is None:
            self.is_listed = False
            # it keeps its key until it is handled: so long it can be cancelled
            self.owed = Owed(self.message, partial(ref.need_belongings().timers.pop, self.key))
            order(ref, self.owed)
            return False
        # A tick that the actor has not taken yet stands for this one too: a slow actor finds one
        # message of each timer, not a pile of them.
        if self.owed is None or self.owed.is_taken:
            self.owed = Owed(self.message)
            order(ref, self.owed)
        # The grid stays where it was put: a late wake-up delays one tick, not all that follow, and
        # ticks that lie in the past by now are left out.
        self.due += self.period * (1 + (now - self.due) // self.period)
        if self.due <= now:  # rounding, or a period too small to be added to this time
            self.due = max(now + self.period, math.nextafter(now, math.inf))
        return True


class TimerHeap:
    """Fires timers in the order they fall due, and of one due time in the order they were set."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._heap: list[tuple[float, int, Timer]] = []
        self._serial = count()
        self._cancelled = 0
        self._scope: trio.CancelScope | None = None
        self._nap = trio.CancelScope()

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def add(self, timer: Timer) -> None:
        """Let a timer run."""
        heappush(self._heap, (timer.due, next(self._serial), timer))
        if self._scope is None:
            self._scope = trio.CancelScope(shield=True)
            self._nursery.start_soon(self._run, self._scope, name="trouper timers")
        elif self._heap[0][2] is timer:
            self._nap.deadline = timer.due

    def cancel(self, timer: Timer) -> None:
        """Take a timer out."""
        timer.cancel()
        if not timer.is_listed:
            return
        self._cancelled += 1
        if len(self._heap) >= SWEEP_AT and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].ref is not None]
            heapify(self._heap)
            self._cancelled = 0

    def close(self) -> None:
        """End the task."""
        if self._scope is not None:
            self._scope.cancel()

    @trio.lowlevel.enable_ki_protection
    async def _run(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                self._fire(trio.current_time())
                due = self._heap[0][0] if self._heap else math.inf
                with trio.CancelScope(deadline=due) as self._nap:
                    await trio.sleep_forever()

    def _fire(self, now: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, timer = heappop(heap)
            if timer.ref is None:
                self._cancelled -= 1
            elif timer.ring(now):
                heappush(heap, (timer.due, next(self._serial), timer))


def set_timer(
    ref: LocalRef, seconds: float, message: Any, key: Hashable | None, *, repeats: bool
) -> Hashable:
    """Set a timer of an actor in place of the one that has this key; return the key."""
    if not (math.isfinite(seconds) and (seconds > 0 if repeats else seconds >= 0)):
        raise ValueError(f"a timer takes a finite number of seconds, not {seconds}")
    ref.find(message)
    timers = ref.need_belongings().timers
    if key is None:
        key = object()
    if ref.starts_nothing:
        return key  # it would be cancelled by the end of this very turn
    if key not in timers and len(timers) >= ref.capacity:
        raise TimersFull(
            f"{ref.path} has {len(timers)} timers; cancel some, or give it a larger mailbox=",
            target=ref.path,
            capacity=ref.capacity,
        )
    cancel_timer(ref, key)
    due = trio.current_time() + seconds
    parcel = ref.parcel("every" if repeats else "after", message)
    timer = timers[key] = Timer(ref, key, parcel, due, seconds if repeats else None)
    ref.system.timers.add(timer)
    return key


def cancel_timer(ref: LocalRef, key: Hashable) -> bool:
    """Cancel the timer of this key; return whether there was one."""
    timer = ref.need_belongings().timers.pop(key, None)
    if timer is None:
        return False
    ref.system.timers.cancel(timer)
    return True

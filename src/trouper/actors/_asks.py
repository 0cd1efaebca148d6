"""The safety net under every ask: one queue of deadlines per system, no cancel scope per ask.

All asks of a system have the same limit, so the order in which they begin is the order in which
they fall due, and a dict in insertion order is the timer queue.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, final

import trio
from trio.lowlevel import ParkingLot, enable_ki_protection

from ..errors import AskUnknown
from ..mailbox import Ask, bare

if TYPE_CHECKING:
    from ._local import LocalRef


# So often, in the time of one limit, the task looks for asks that are due. Each look passes all
# that left the queue since it was last filled: unbounded, asks that hang would cost their square.
LOOKS: Final = 1000


@final
class AskNet:
    """Ends asks that waited ``limit`` seconds, and a thousandth more where many do.

    Its task sleeps only while asks are pending.
    """

    def __init__(self, nursery: trio.Nursery, limit: float) -> None:
        self.limit = limit
        # Written by the asks themselves: when they are due; taken out when they are over.
        self.pending: dict[Ask, float] = {}
        self.forget = self.pending.pop
        self.now = trio.lowlevel.current_clock().current_time
        self.asleep = True  # its task does not know that asks are pending
        self._again = -math.inf  # when to look again at the earliest
        self._nursery = nursery
        self._scope: trio.CancelScope | None = None
        self._lot = ParkingLot()

    def wake(self) -> None:
        """Let the task look at what is pending; the first time, start it."""
        self.asleep = False
        if self._scope is None:
            self._scope = trio.CancelScope(shield=True)
            self._nursery.start_soon(self._watch, self._scope, name="trouper asks")
        else:
            self._lot.unpark()

    def close(self) -> None:
        """End the task."""
        if self._scope is not None:
            self._scope.cancel()

    @enable_ki_protection
    async def _watch(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                while self.pending:
                    due = next(iter(self.pending.values()))
                    await trio.sleep_until(max(due, self._again))
                    now = trio.current_time()
                    self._expire(now)
                    self._again = now + self.limit / LOOKS
                self.asleep = True
                await self._lot.park()

    def _expire(self, now: float) -> None:
        late: list[Ask] = []
        for ask, due in self.pending.items():
            if due > now:
                break
            late.append(ask)
        for ask in late:
            del self.pending[ask]
            target: LocalRef = ask.target
            target.forget_ask(ask)
            ask.fail(
                AskUnknown(
                    f"{target.path} did not answer {type(bare(ask.message)).__qualname__} within "
                    f"{self.limit} s. Outcome unknown: it may have been handled, or may yet be; "
                    "re-read, or retry under the same key. Use a cancel scope for a deadline of "
                    "your own, ask_safety= for another limit",
                    target=target.path,
                )
            )

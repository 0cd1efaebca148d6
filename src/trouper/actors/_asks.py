"""The safety net under every ask: one queue of deadlines per system, no cancel scope per ask.

All asks of a system have the same limit, so the order in which they begin is the order in which
they fall due, and a dict in insertion order is the timer queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio

from ..errors import AskUnknown
from ..mailbox import Ask

if TYPE_CHECKING:
    from ._local import LocalRef


@final
class AskNet:
    """Ends asks that waited ``limit`` seconds. Its task sleeps only while asks are pending."""

    def __init__(self, nursery: trio.Nursery, limit: float) -> None:
        self.limit = limit
        self._nursery = nursery
        self._pending: dict[Ask, tuple[float, LocalRef]] = {}
        self._scope: trio.CancelScope | None = None
        self._wanted = trio.Event()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, ask: Ask, target: LocalRef) -> None:
        """Watch an ask until `remove`."""
        if not self._pending:
            if self._scope is None:
                self._scope = trio.CancelScope(shield=True)
                self._nursery.start_soon(self._watch, self._scope, name="trouper asks")
            self._wanted.set()
        self._pending[ask] = (trio.current_time() + self.limit, target)

    def remove(self, ask: Ask) -> None:
        """Watch this ask no more."""
        self._pending.pop(ask, None)

    def close(self) -> None:
        """End the task."""
        if self._scope is not None:
            self._scope.cancel()

    async def _watch(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                while self._pending:
                    due, _ = next(iter(self._pending.values()))
                    await trio.sleep_until(due)
                    self._expire(trio.current_time())

    def _expire(self, now: float) -> None:
        for ask, (due, target) in list(self._pending.items()):
            if due > now:
                break
            del self._pending[ask]
            target.forget_ask(ask)
            ask.fail(
                AskUnknown(
                    f"{target.path} did not answer {type(ask.message).__qualname__} within "
                    f"{self.limit} s. Outcome unknown: it may have been handled, or may yet be; "
                    "re-read, or retry under the same key. Use a cancel scope for a deadline of "
                    "your own, ask_safety= for another limit",
                    target=target.path,
                )
            )

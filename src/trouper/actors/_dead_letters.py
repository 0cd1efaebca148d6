"""Messages that never had their turn, and why."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

log = logging.getLogger("trouper.dead_letters")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message, whom it was for, whose turn sent it (if that is known), and the reason."""

    message: Any
    target: str
    sender: str | None
    reason: str


@final
class DeadLetters:
    """The last ``limit`` dead letters of a system, oldest first; ``total`` counts all of them.

    Logged at WARNING, at most ``log_rate`` lines a second; what was held back is counted in the
    next line.
    """

    def __init__(
        self,
        *,
        limit: int = 1000,
        log_rate: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = 0
        self._ring: deque[DeadLetter] = deque(maxlen=limit)
        self._subscribers: list[Callable[[DeadLetter], object]] = []
        self._log_rate = log_rate
        self._clock = clock
        self._second = -1
        self._lines = 0
        self._held_back = 0

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(list(self._ring))

    def __len__(self) -> int:
        return len(self._ring)

    def subscribe(self, fn: Callable[[DeadLetter], object]) -> Callable[[], None]:
        """Call ``fn`` with every dead letter from now on; return what ends that.

        ``fn`` is called in the middle of accounting: it must be short. What it raises is logged.
        """
        self._subscribers.append(fn)

        def unsubscribe() -> None:
            if fn in self._subscribers:
                self._subscribers.remove(fn)

        return unsubscribe

    def add(self, letter: DeadLetter) -> None:
        """Keep one more. Never raises: it is called from a worker's accounting."""
        self.total += 1
        self._ring.append(letter)
        self._log(letter)
        for fn in list(self._subscribers):
            try:
                fn(letter)
            except Exception:
                log.exception("a subscriber of dead letters failed")

    def _log(self, letter: DeadLetter) -> None:
        second = int(self._clock())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= self._log_rate:
            self._held_back += 1
            return
        self._lines += 1
        more, self._held_back = self._held_back, 0
        log.warning(
            "dead letter: %s for %s: %s%s",
            type(letter.message).__qualname__,
            letter.target,
            letter.reason,
            f" ({more} more not logged)" if more else "",
            extra={"actor": letter.target, "sender": letter.sender, "reason": letter.reason},
        )

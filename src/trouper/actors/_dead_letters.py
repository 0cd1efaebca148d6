"""Messages that never had their turn, and why."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, final
from weakref import WeakSet

from trio.lowlevel import Task, checkpoint, reschedule

from ..mailbox import wait_in
from ._callables import require_plain

log = logging.getLogger("trouper.dead_letters")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message, whom it was for, whose turn sent it (if that is known), and the reason."""

    message: Any
    target: str
    sender: str | None
    reason: str


@final
class LetterStream:
    """The dead letters of a system from now on, one at a time: ``async for letter in stream``.

    It keeps at most ``limit`` of them for a reader that is behind; then the oldest gives way, and
    ``missed`` counts it. It ends with the system, or when its ``async with`` block is left. One
    that nobody holds any more costs nothing.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.missed = 0
        self.is_open = True
        self._letters: deque[DeadLetter] = deque()
        self._readers: dict[Task, None] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DeadLetter:
        if self._letters:
            await checkpoint()
        while not self._letters:
            if not self.is_open:
                raise StopAsyncIteration
            await wait_in(self._readers)
        return self._letters.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take no further letters; a reader still gets those that are here."""
        self.is_open = False
        self._wake()

    def add(self, letter: DeadLetter) -> None:
        """Take one more; called by the ring."""
        if not self.is_open:
            return
        if len(self._letters) >= self.limit:
            self._letters.popleft()
            self.missed += 1
        self._letters.append(letter)
        self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, {}
        for task in readers:
            reschedule(task)


@final
class DeadLetters:
    """The last ``limit`` dead letters of a system, oldest first; ``total`` counts all of them.

    Iterate it for those that are here, ``async for`` for those to come.
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
        self._subscribers: dict[object, Callable[[DeadLetter], object]] = {}
        self._streams: WeakSet[LetterStream] = WeakSet()
        self._log_rate = log_rate
        self._clock = clock
        self._second = -1
        self._lines = 0
        self._held_back = 0

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(list(self._ring))

    def __aiter__(self) -> LetterStream:
        return self.stream()

    def __len__(self) -> int:
        return len(self._ring)

    def subscribe(self, fn: Callable[[DeadLetter], object]) -> Callable[[], None]:
        """Call ``fn`` with every dead letter from now on; return what ends that.

        ``fn`` is called in the middle of accounting: it must be short. What it raises is logged.
        """
        order = object()  # one function may be subscribed twice
        self._subscribers[order] = require_plain("a subscriber of dead letters", fn)

        def unsubscribe() -> None:
            self._subscribers.pop(order, None)

        return unsubscribe

    def stream(self, *, limit: int = 1000) -> LetterStream:
        """Return the dead letters from now on as a stream that keeps at most ``limit`` of them.

        Raises:
            ValueError: ``limit`` is not 1 or more.
        """
        if limit < 1:
            raise ValueError(f"limit must be 1 letter or more, not {limit}")
        stream = LetterStream(limit)
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        """End every stream; called when the system has ended."""
        for stream in list(self._streams):
            stream.close()

    def add(self, letter: DeadLetter) -> None:
        """Keep one more. Never raises: it is called from a worker's accounting."""
        self.total += 1
        self._ring.append(letter)
        self._log(letter)
        if self._streams:
            for stream in list(self._streams):
                stream.add(letter)
        for fn in list(self._subscribers.values()):
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

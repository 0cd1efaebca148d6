"""The writer thread: one per open store, and the only one that touches a write transaction.

Units come in through a queue, verdicts go out with one wake-up of the loop per batch, in
submission order. A batch is whatever queued while the previous one was flushed: no timer, no
window. Nobody is told before the commit returned.

An engine error is one of two things: `StoreFull` (this batch was not written, life goes on) or the
end (`StoreLost`: the outcome of this batch is unknown, everything after it is refused).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol, final

import trio
from outcome import Error, Outcome, Value

from .._holds import holds_of_run
from ..errors import StoreFull, StoreLost
from ._base import MAX_BATCH_BYTES
from ._bell import Bell
from ._protocol import Bundle, Submission, Unit
from ._sealed import SealedUnit

Tell = Callable[[Outcome[int]], None]
Item = Submission | Bundle


class Batch(Protocol):
    """One write transaction with the units that ran in it."""

    @property
    def size(self) -> int:
        """Bytes written so far."""
        ...

    def run(self, unit: Unit[Any]) -> Outcome[Any]:
        """Run a unit on what the units before it left; keep its writes unless it raised."""
        ...

    def run_all(self, units: Sequence[SealedUnit]) -> list[BaseException | None]:
        """Run them one after the other, or as if; return the errors of as many as had room."""
        ...

    def commit(self) -> None:
        """Make it durable; returning means that it is."""
        ...

    def abort(self) -> None:
        """Drop it; safe after any failure."""
        ...


class Engine(Protocol):
    """What the writer drives; every method but `fail` runs on the writer thread only."""

    @property
    def name(self) -> str:
        """What to call the store in error texts."""
        ...

    def open(self) -> int:
        """Open the environment and return its new epoch, committed."""
        ...

    def begin(self) -> Batch:
        """Begin a batch."""
        ...

    def fail(self, error: StoreLost) -> None:
        """Refuse reads from now on."""
        ...

    def close(self, *, clean: bool) -> None:
        """Close the environment and give up ownership."""
        ...


@final
class Writer:
    """Runs an engine on a daemon thread, so that a hung flush cannot hold the interpreter.

    Args:
        engine: What to drive.
        token: Of the loop that is told.
        max_units: Most units in one batch.
        on_open: Told the epoch, or why the engine did not open (then the thread has ended).
        on_close: Told once the engine is closed, with how that went.
    """

    def __init__(
        self,
        engine: Engine,
        token: trio.lowlevel.TrioToken,
        max_units: int,
        on_open: Tell,
        on_close: Tell,
    ) -> None:
        self._engine = engine
        self._token = token
        self._max_units = max_units
        self._on_open = on_open
        self._on_close = on_close
        self._queue: SimpleQueue[Item | None] = SimpleQueue()  # None: close
        self._next: Item | None = None  # the thread's: what found no room in the last batch
        self._lost: StoreLost | None = None  # written by the thread, once
        self._closing = False  # written by the thread, once
        self._holds = holds_of_run()  # None outside of tests on virtual time
        self._held = 0  # loop-owned, as is the next one
        self._ended = False  # the thread has, or will have in a moment
        self.submit = self._queue.put if self._holds is None else self._submit_held
        self._bell = Bell(token, is_plain=self._holds is not None)
        self._thread = threading.Thread(
            target=self._main, name=f"trouper-store {engine.name}", daemon=True
        )
        self._hold()
        try:
            self._thread.start()
        except BaseException:
            self._bell.close()
            raise

    def _submit_held(self, item: Item) -> None:
        self._hold()
        self._queue.put(item)

    def _hold(self) -> None:
        if self._holds is not None and not self._ended:
            self._held += 1
            self._holds.take()

    def _drop(self, count: int) -> None:
        if self._holds is not None:
            self._held -= count
            self._holds.drop(count)

    def _end(self, tell: Tell, verdict: Outcome[int]) -> None:
        tell(verdict)
        self._ended = True
        self._drop(self._held)

    def close(self) -> None:
        """Ask for the end, after all that is queued; returns at once."""
        self._hold()
        self._queue.put(None)

    def tell(self, call: Callable[..., None], *args: Any) -> None:
        """Run `call` on the loop, from another thread than the writer's own."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(call, *args)

    def _main(self) -> None:
        try:
            epoch = self._engine.open()
        except BaseException as error:
            self._bell.ring_last(self._end, self._on_open, Error(error))
            return
        self._bell.ring(self._on_open, Value(epoch))
        self._bell.ring(self._drop, 1)
        while not self._closing:
            rest, self._next = self._next, None
            self._serve(rest or self._queue.get())
        closed: Outcome[int] = Value(epoch)
        try:
            self._engine.close(clean=self._lost is None)
        except BaseException as error:
            closed = Error(error)
        self._bell.ring_last(self._end, self._on_close, closed)

    def _serve(self, first: Item | None) -> None:
        """Run one batch and tell its verdicts."""
        taken: list[Item] = []
        results: list[Any] = []  # of those, in order: an outcome, or the errors of a bundle
        batch: Batch | None = None
        pulled = 0
        try:
            for item in self._pull(first):
                pulled += 1
                picked = item.take()
                if picked is None:
                    continue
                taken.append(item)
                if self._lost is not None:
                    continue
                if batch is None:
                    batch = self._engine.begin()
                if isinstance(picked, Bundle):
                    errors = batch.run_all(picked.units)
                    self._next = picked.cut(len(errors))
                    pulled -= self._next is not None  # the rest will be pulled once more
                    results.append(errors)
                else:
                    results.append(batch.run(picked))
                if batch.size >= MAX_BATCH_BYTES:
                    break
            if batch is not None:
                batch.commit()
        except BaseException as error:
            if batch is not None:
                batch.abort()
            results = self._verdicts(error, taken)
        if self._lost is not None and len(results) < len(taken):
            results = self._verdicts(self._lost, taken)
        if taken:
            self._bell.ring(_deliver, taken, results)
        if self._holds is not None:
            self._bell.ring(self._drop, pulled)

    def _pull(self, first: Item | None) -> Iterator[Item]:
        """Give out `first` and what is queued behind it now, up to the cap."""
        item, room, waiting = first, self._max_units, self._queue.qsize()
        while item is not None:
            if item.count > room:
                self._next = item
                return
            yield item
            room -= item.count
            if not room or not waiting:
                return
            waiting -= 1
            item = self._queue.get()
        self._closing = True

    def _verdicts(self, error: BaseException, taken: list[Item]) -> list[Any]:
        """Return one fresh error per waiter: a raised exception belongs to one task."""
        if not isinstance(error, StoreFull):
            if self._lost is None:
                self._lost = _lost(self._engine.name, error)
                self._engine.fail(self._lost)
            error = self._lost
        return [
            [_again(error) for _ in item.units]
            if isinstance(item, Bundle)
            else Error(_again(error))
            for item in taken
        ]


def _deliver(taken: list[Item], results: list[Any]) -> None:
    for item, result in zip(taken, results, strict=True):
        item.done(result)


def _again(error: StoreFull | StoreLost) -> StoreFull | StoreLost:
    copy = type(error).revive(str(error), error.facts)
    copy.__cause__ = error.__cause__
    return copy


def _lost(name: str, error: BaseException) -> StoreLost:
    if isinstance(error, StoreLost):
        return error
    lost = StoreLost(
        f"a commit to store {name!r} failed ({type(error).__name__}: {error}): outcome unknown. "
        f"Reopen the store; what it holds then decides.",
        store=name,
    )
    lost.__cause__ = error
    return lost

"""The in-memory twin: the same units, batches and verdicts, without a thread or a disk.

Rows live in the `MemoryStore` object, as the same frames that LMDB would hold, so reopening the
object is reopening the store. A batch is what was submitted in one tick of the loop; it runs in
the next one. Crash points let a test end the world between any two steps of a commit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, final

import trio
from outcome import Outcome, Value

from ..errors import CorruptRecord
from ._base import MAX_BATCH_UNITS, BaseStore
from ._codec import MAX_BYTES
from ._keys import TABLES, check_key, check_table
from ._overlay import OverlayTx, Writes, run_unit, sealed_writes
from ._protocol import Submission, Unit
from ._records import from_frame, from_frames, require_upcasters

T = TypeVar("T")

CrashPoint = Literal["before_commit", "committed", "acknowledged"]
Undo = list[tuple[str, bytes, bytes | None]]


class _Table:
    """Rows with their keys in order."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []

    def write(self, key: bytes, frame: bytes | None) -> bytes | None:
        """Set or delete a row and return what was there."""
        before = self.rows.get(key)
        if frame is not None:
            if before is None:
                insort(self.keys, key)
            self.rows[key] = frame
        elif before is not None:
            del self.rows[key]
            del self.keys[bisect_left(self.keys, key)]
        return before

    def under(self, prefix: bytes, after: bytes, limit: int | None) -> list[bytes]:
        """Return the keys under a prefix and behind another key, in order, up to a limit."""
        first = bisect_left(self.keys, prefix)
        if after >= prefix:
            first = bisect_right(self.keys, after)
        last = len(self.keys) if limit is None else min(first + limit, len(self.keys))
        found: list[bytes] = []
        for index in range(first, last):
            if not self.keys[index].startswith(prefix):
                break
            found.append(self.keys[index])
        return found


@final
class MemoryState:
    """All tables; the view that units run on. Written by the running batch only."""

    def __init__(self) -> None:
        self.tables: dict[str, _Table] = {table: _Table() for table in TABLES}
        self.head = 0

    def read(self, table: str, key: bytes) -> bytes | None:
        return self.tables[table].rows.get(key)

    def items(
        self, table: str, prefix: bytes, after: bytes = b"", limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        held = self.tables[table]
        return [(key, held.rows[key]) for key in held.under(prefix, after, limit)]

    def keys(self, table: str, prefix: bytes, limit: int | None) -> list[bytes]:
        return self.tables[table].under(prefix, b"", limit)

    def apply(self, writes: Writes, undo: Undo) -> None:
        for table, rows in writes.items():
            held = self.tables[table]
            for key, frame in rows.items():
                before = held.write(key, frame)
                # A delete of nothing is no write; in the log it is one, of the head.
                if table == "log" or before is not None or frame is not None:
                    undo.append((table, key, before))

    def revert(self, undo: Undo, head: int) -> None:
        for table, key, frame in reversed(undo):
            self.tables[table].write(key, frame)
        self.head = head


@final
class MemoryStore(BaseStore):
    """A `Store` that lives as long as the object: the test default, and the twin of `LmdbStore`.

    Args:
        level: ``"relaxed"`` makes `power_cut` lose the last commit, as it may on disk.
        max_value: Largest size of one row in bytes; beyond it `TooLarge`.
        max_batch: Most units in one batch.
        debug: Run every unit twice and refuse one that is not pure.
        probe: Called at each step of each batch; it may call `crash` or `power_cut`.
    """

    def __init__(
        self,
        *,
        level: Literal["durable", "relaxed"] = "durable",
        max_value: int = MAX_BYTES,
        max_batch: int = MAX_BATCH_UNITS,
        debug: bool = False,
        probe: Callable[[CrashPoint], None] | None = None,
    ) -> None:
        if level not in ("durable", "relaxed"):
            raise ValueError(f"level is 'durable' or 'relaxed', got {level!r}")
        self.probe = probe
        self._level: Final = level
        self.max_value = max_value
        self._max_batch: Final = max_batch
        self._debug: Final = debug
        self._state: Final = MemoryState()
        self._unsynced: tuple[Undo, int] = ([], 0)  # how to undo what a power cut would take
        self._running: tuple[Undo, int] | None = None  # how to undo the batch that runs right now
        self._queue: deque[Submission] = deque()  # new at each opening and crash
        self._token: trio.lowlevel.TrioToken | None = None  # None while closed

    @property
    def name(self) -> str:
        """See `Store.name`."""
        return "memory"

    @property
    def is_open(self) -> bool:
        """See `Store.is_open`."""
        return self._token is not None

    async def __aenter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("this MemoryStore is open already; one store, one owner")
        require_upcasters()
        await trio.lowlevel.checkpoint()
        self._token = self._loop = trio.lowlevel.current_trio_token()
        self._queue = deque()
        self._unsynced = ([], self._state.head)  # opening writes the epoch, and flushes
        self._owners = 0
        self.epoch += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        queue = self._queue
        while queue and self._queue is queue:
            self._batch(queue)
        if self._queue is queue:
            self._token = None
            self._unsynced = ([], self._state.head)
        await trio.lowlevel.cancel_shielded_checkpoint()

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Store.get`."""
        if self._token is None:
            raise self._closed()
        check_table(table)
        check_key(key)
        frame = self._state.read(table, key)
        return None if frame is None else from_frame(table, key, frame, kind)

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[T],
        *,
        after: bytes = b"",
        limit: int | None = None,
        damaged: Callable[[CorruptRecord], None] | None = None,
    ) -> list[tuple[bytes, T]]:
        """See `Store.scan`."""
        if self._token is None:
            raise self._closed()
        check_table(table)
        return from_frames(table, self._state.items(table, prefix, after, limit), kind, damaged)

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """See `Store.submit`."""
        if self._token is None:
            raise self._closed()
        submission = Submission(unit, done)
        queue = self._queue
        if not queue:
            self._token.run_sync_soon(self._tick, queue)
        queue.append(submission)
        return submission

    def crash(self) -> None:
        """End this opening as ``kill -9`` would: what is not committed is gone, nobody is told."""
        self._token = None
        self._queue = deque()
        if self._running is not None:
            self._state.revert(*self._running)
            self._running = None

    def power_cut(self) -> None:
        """Crash, and at level ``relaxed`` also lose the last commit, acknowledged or not."""
        self.crash()
        self._state.revert(*self._unsynced)
        self._unsynced = ([], self._state.head)

    def _tick(self, queue: deque[Submission]) -> None:
        if self._queue is queue and queue:
            self._batch(queue)
            if queue and self._queue is queue and self._token is not None:
                self._token.run_sync_soon(self._tick, queue)

    def _batch(self, queue: deque[Submission]) -> None:
        """Run one batch; a crash replaces the queue, and then nothing more happens in here."""
        state = self._state
        head = state.head
        undo: Undo = []
        self._running = (undo, head)
        taken: list[tuple[Submission, Unit[Any], Outcome[Any]]] = []

        def begin() -> OverlayTx:
            return OverlayTx(state, state.head, self.max_value)

        for _ in range(min(len(queue), self._max_batch)):
            submission = queue.popleft()
            unit = submission.take()
            if unit is None:
                continue
            sealed = None if self._debug else sealed_writes(unit, state)
            if sealed is not None:
                state.apply(sealed[0], undo)
                taken.append((submission, unit, Value(None)))
                continue
            result, writes, tx = run_unit(unit, begin, twice=self._debug)
            if writes:
                state.apply(writes, undo)
                state.head = tx.head
            taken.append((submission, unit, result))
        if self._passed("before_commit", queue):
            self._running = None
            if undo:  # a commit of nothing writes nothing, and flushes nothing
                self._unsynced = (undo, head) if self._level == "relaxed" else ([], state.head)
            if self._passed("committed", queue):
                for submission, _, result in taken:
                    submission.done(result)
                self._passed("acknowledged", queue)
                return
        for submission, unit, _ in taken:
            submission.orphan(unit)

    def _passed(self, point: CrashPoint, queue: deque[Submission]) -> bool:
        if self.probe is not None:
            self.probe(point)
        return self._queue is queue

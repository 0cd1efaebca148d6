"""The journal under a schedule: its commits are events, and a crash is one of them.

The rows live in a `Journal`, the same frames that every store holds, and outlive the lives of the
system: each life has a store of its own. A crash fences that store. Whoever still holds it reads
and writes nothing any more, in a ``finally`` block either, so nothing has to be cleaned up before
the next life begins.

What is read and written is reported by name, for that is what tells which orders matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeVar, final

import trio
from outcome import Outcome, Value

from ..._ids import Incarnation
from ...errors import CorruptRecord, SimulatedCrash
from ...store import Finding, Recorded, Submission, Unit, read_head, read_records
from ...store._base import BaseStore
from ...store._codec import MAX_BYTES
from ...store._keys import check_key, check_table
from ...store._memory import MemoryState, Undo
from ...store._overlay import OverlayTx, Writes, run_unit, sealed_writes
from ...store._records import from_frame, from_frames, require_upcasters
from ._event import Event, Kind
from ._mirror import MIRROR
from ._names import key_name, range_name, ranges_of
from ._rows import WatchedState, findings

T = TypeVar("T")

_LOG_HEAD: Final = "log head"


class Gate(Protocol):
    """What decides when a commit takes place, and hears what was touched."""

    def owner(self) -> str:
        """Return the name of whoever acts now."""
        ...

    def mint(self, kind: Kind, target: str, sender: str, what: str) -> Event:
        """Name an event that is born now."""
        ...

    def offer(self, event: Event, run: Callable[[], None]) -> None:
        """Take an event that can take place; ``run`` lets it."""
        ...

    def withdraw(self, event: Event) -> None:
        """Take an event back: it never takes place."""
        ...

    def note(
        self,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        scans: Iterable[str] = (),
        fills: Iterable[str] = (),
    ) -> None:
        """Take in what the step under way touched; see `Footprint`."""
        ...


@final
class Journal:
    """Rows that outlive crashes, and the store of the life that there is now.

    Reading here reports nothing: it is for whoever checks how a schedule ended.

    Args:
        gate: Decides when commits take place. By default each does in the next tick, in the order
            of submission.
        level: ``"relaxed"`` lets a crash lose what was acknowledged, as a power cut may on disk.
        debug: Run every unit twice and refuse one that is not pure.
        late: The verdict on a unit is an event of its own: others see what is written before those
            hear of it who wrote it.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        level: Literal["durable", "relaxed"] = "durable",
        debug: bool = False,
        late: bool = False,
    ) -> None:
        if level not in ("durable", "relaxed"):
            raise ValueError(f"level is 'durable' or 'relaxed', got {level!r}")
        self.state: Final = MemoryState()
        self.level: Final = level
        self.debug: Final = debug
        self.late: Final = late
        self.epoch = 0  # writer: the store that opens
        self.life = 0  # crashes so far
        self.written: list[tuple[Undo, int]] = []  # how to undo each commit of this life
        self.mirror: Final = MIRROR.get()
        self._gate: Final = _Fifo() if gate is None else gate
        self._store = JournalStore(self, self._gate)

    def store(self) -> JournalStore:
        """Return the store of this life."""
        return self._store

    def crash(self, *, keep: int = 0, lose: int = 0) -> None:
        """End this life as ``kill -9`` would: its store is fenced, and what was pending is gone.

        Args:
            keep: So many of the pending units were written all the same, oldest first; nobody was
                told.
            lose: So many of the last commits are lost, acknowledged or not: a power cut.

        Raises:
            ValueError: There are not so many, or a durable journal should lose what it wrote.
        """
        pending = len(self._store.pending)
        if not 0 <= keep <= pending:
            raise ValueError(f"keep is 0 to {pending}, the number of pending units, not {keep}")
        most = 0 if self.level == "durable" or keep else len(self.written)
        if not 0 <= lose <= most:
            raise ValueError(
                f"lose is 0 to {most} here, not {lose}; a durable journal loses nothing, nor does "
                "one that wrote something after it"
            )
        self._store.fence(keep)
        if self.mirror is not None:
            self.mirror.crashed(self.state, self.life)
        for undo, head in reversed(self.written[len(self.written) - lose :]):
            self.state.revert(undo, head)
        self.written.clear()
        self.life += 1
        self._store = JournalStore(self, self._gate)

    # --- for checks -------------------------------------------------------------------------------

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return a row, or None. See `Store.get`."""
        check_table(table)
        check_key(key)
        frame = self.state.read(table, key)
        return None if frame is None else from_frame(table, key, frame, kind)

    def scan(self, table: str, prefix: bytes, kind: type[T]) -> list[tuple[bytes, T]]:
        """Return the rows under a prefix, in key order. See `Store.scan`."""
        check_table(table)
        return from_frames(table, self.state.items(table, prefix), kind, None)

    def history(self, key: str) -> list[Recorded]:
        """Return what the durable actor under a key recorded. See `Store.records`."""
        head = read_head(self, key)
        values = () if head is None else read_records(self, head, 1, head.records)
        return [Recorded(number, value) for number, value in enumerate(values, 1)]

    def findings(self) -> list[Finding]:
        """Return where rows contradict one another: ``trouper store check`` would find the same."""
        return findings(self.state)


@final
class JournalStore(BaseStore):
    """The store of one life. It may be closed and opened again, as any store, until it crashes."""

    def __init__(self, journal: Journal, gate: Gate) -> None:
        self._journal = journal
        self._gate = gate
        self._life = journal.life
        self._fenced = False
        self._open = False
        self.max_value = MAX_BYTES
        self.pending: dict[Event, _Pending] = {}  # in the order of submission
        # What is written, and its verdict on the way.
        self._written: dict[Event, tuple[_Pending, Unit[Any], Outcome[Any]]] = {}

    @property
    def name(self) -> str:
        """See `Store.name`."""
        return "journal"

    @property
    def is_open(self) -> bool:
        """See `Store.is_open`. Whoever survived a crash learns of it when he reads or writes."""
        return self._open

    async def __aenter__(self) -> Self:
        if self._open:
            raise RuntimeError("this journal is open already; one store, one owner")
        self._require_life()
        require_upcasters()
        await trio.lowlevel.checkpoint()
        self._loop = trio.lowlevel.current_trio_token()
        self._open = True
        self._owners = 0
        self._journal.epoch += 1
        self.epoch = self._journal.epoch
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pending in [] if self._fenced else list(self.pending.values()):
            self._gate.withdraw(pending.event)
            self._commit(pending)
        for event in list(self._written):
            self._gate.withdraw(event)
            self._tell(event)
        self._open = False
        await trio.lowlevel.cancel_shielded_checkpoint()

    def next_owner(self) -> Incarnation:
        """See `Store.next_owner`."""
        self._require_life()
        return super().next_owner()

    # --- reading ----------------------------------------------------------------------------------

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Store.get`."""
        self._require_open()
        found = self._journal.get(table, key, kind)
        self._gate.note(reads=(key_name(table, key),))
        return found

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
        self._require_open()
        check_table(table)
        self._gate.note(scans=(range_name(table, prefix),))
        rows = self._journal.state.items(table, prefix, after, limit)
        return from_frames(table, rows, kind, damaged)

    # --- writing ----------------------------------------------------------------------------------

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """See `Store.submit`."""
        self._require_open()
        event = self._gate.mint("commit", self._gate.owner(), "journal", "unit")
        pending = self.pending[event] = _Pending(self, event, unit, done)
        self._gate.offer(event, partial(self._commit, pending))
        return pending

    def withdrawn(self, pending: _Pending) -> None:
        """Forget a unit that was taken back."""
        del self.pending[pending.event]
        self._gate.withdraw(pending.event)

    def fence(self, keep: int) -> None:
        """End this store: write the oldest pending units, forget the others, refuse everybody."""
        for place, pending in enumerate(list(self.pending.values())):
            self._gate.withdraw(pending.event)
            unit = pending.take()
            if unit is not None:
                if place < keep:
                    self._write(unit)
                pending.orphan(unit)  # nobody is told: its caller may leave
        for event, (pending, unit, _) in self._written.items():
            self._gate.withdraw(event)
            pending.orphan(unit)
        self.pending.clear()
        self._written.clear()
        self._fenced = True

    def _commit(self, pending: _Pending) -> None:
        if self.pending.pop(pending.event, None) is None:
            return  # crashed, or closed, meanwhile
        unit = pending.take()
        if unit is not None:
            self._answer(pending, unit, self._write(unit))

    def _answer(self, pending: _Pending, unit: Unit[Any], verdict: Outcome[Any]) -> None:
        if not self._journal.late:
            pending.done(verdict)
            return
        event = self._gate.mint("reply", pending.event.target, "journal", "unit")
        self._written[event] = pending, unit, verdict
        self._gate.offer(event, partial(self._tell, event))

    def _tell(self, event: Event) -> None:
        if event in self._written:
            pending, _, verdict = self._written.pop(event)
            pending.done(verdict)

    def _write(self, unit: Unit[Any]) -> Outcome[Any]:
        journal = self._journal
        state, head, undo = journal.state, journal.state.head, Undo()
        view = WatchedState(state)

        def begin() -> OverlayTx:
            return OverlayTx(view, state.head, self.max_value)

        result: Outcome[Any]
        sealed = None if journal.debug else sealed_writes(unit, view)
        if sealed is not None:
            result, writes = Value(None), sealed[0]
        else:
            result, writes, tx = run_unit(unit, begin, twice=journal.debug)
            if tx.head != head:
                view.reads.add(_LOG_HEAD)
            if writes:
                state.head = tx.head
        if writes:
            state.apply(writes, undo)
            journal.written.append((undo, head))
            if journal.mirror is not None:
                journal.mirror.wrote(writes, state.head)
        self._report(view, writes, moved=state.head != head)
        return result

    def _report(self, view: WatchedState, writes: Writes, *, moved: bool) -> None:
        written = [(table, key) for table, rows in writes.items() for key in rows]
        names = {key_name(table, key) for table, key in written}
        fills = {name for table, key in written for name in ranges_of(table, key)}
        if moved:
            names.add(_LOG_HEAD)
        self._gate.note(reads=view.reads, writes=names, scans=view.scans, fills=fills)

    # --- refusals ---------------------------------------------------------------------------------

    def _require_life(self) -> None:
        if self._fenced:
            raise SimulatedCrash(
                f"life {self._life} of this system crashed, and this is left of it: the journal "
                "neither shows it anything nor takes anything from it",
                life=self._life,
            )

    def _require_open(self) -> None:
        self._require_life()
        if not self._open:
            raise self._closed()


@final
class _Pending(Submission):
    """A unit that waits for its event."""

    __slots__ = ("_store", "event")

    def __init__(
        self,
        store: JournalStore,
        event: Event,
        unit: Unit[Any],
        done: Callable[[Outcome[Any]], None],
    ) -> None:
        super().__init__(unit, done)
        self._store = store
        self.event = event

    def withdraw(self) -> bool:
        """See `Submission.withdraw`."""
        is_withdrawn = super().withdraw()
        if is_withdrawn and self.event in self._store.pending:
            self._store.withdrawn(self)
        return is_withdrawn


@final
class _Fifo:
    """A gate without a schedule: each event takes place in the next tick, in the order of birth."""

    def __init__(self) -> None:
        self._numbers = 0

    def owner(self) -> str:
        return "anybody"

    def mint(self, kind: Kind, target: str, sender: str, what: str) -> Event:
        self._numbers += 1
        return Event(kind, target, sender, what, self._numbers)

    def offer(self, event: Event, run: Callable[[], None]) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(run)

    def withdraw(self, event: Event) -> None:
        pass

    def note(self, **touched: Iterable[str]) -> None:
        pass

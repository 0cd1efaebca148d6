"""What a store is, for those who use one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar, final

from outcome import Outcome

from .._ids import Incarnation
from ..errors import CorruptRecord
from ._history import Recorded
from ._sealed import SealedRow, SealedUnit

T = TypeVar("T")


class Tx(Protocol):
    """What a unit reads and writes through. Valid only while the unit runs.

    A unit sees the writes of the units before it, and its own. If it raises, nothing of it is
    written.
    """

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return the row under `key`, or None.

        Raises:
            CorruptRecord: The row is damaged or of another kind.
            FormatTooNew: The row was written by a newer version.
        """
        ...

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[T],
        *,
        after: bytes = b"",
        limit: int | None = None,
    ) -> list[tuple[bytes, T]]:
        """Return the rows whose keys start with `prefix`, in key order. Raises as `get`.

        Args:
            table: The table.
            prefix: What the keys start with.
            kind: The record type of the rows.
            after: Only keys behind this one.
            limit: At most so many rows.
        """
        ...

    def keys(self, table: str, prefix: bytes, *, limit: int | None = None) -> list[bytes]:
        """Return the keys under `prefix`, in order; no row is read, so a damaged one is no harm."""
        ...

    def put(self, table: str, key: bytes, value: object) -> None:
        """Write a registered record, or a sealed one, under `key`.

        Raises:
            ValueRefused: It is not a registered record, or a field is outside the profile.
            TooLarge: It is larger than the store's limit for one value.
        """
        ...

    def delete(self, table: str, key: bytes) -> None:
        """Remove the row under `key`, if there is one."""
        ...

    def append(self, value: object) -> int:
        """Write a registered record to ``log`` and return its global sequence number, from 1.

        Numbers grow in commit order and have no gaps: a unit that raises burns none.
        """
        ...


Unit = Callable[[Tx], T]


class Submission:
    """A unit on its way to the writer."""

    __slots__ = ("_unit", "done")
    count: ClassVar[int] = 1

    def __init__(self, unit: Unit[Any], done: Callable[[Outcome[Any]], None]) -> None:
        # A list because pop() is atomic: writer and loop race for the unit, and one of them wins.
        self._unit: list[Unit[Any]] = [unit]
        self.done = done

    def withdraw(self) -> bool:
        """Take the unit back; True if the writer had not picked it up. Then `done` stays silent."""
        return self.take() is not None

    def take(self) -> Unit[Any] | None:
        """Pick the unit up, for the writer; None if it was withdrawn."""
        try:
            return self._unit.pop()
        except IndexError:
            return None

    def orphan(self, unit: Unit[Any]) -> None:
        """Give a picked-up unit back: nobody will answer, so its caller may leave."""
        self._unit.append(unit)


U = TypeVar("U", bound=SealedUnit)
Told = Callable[[Sequence[U], Sequence[BaseException | None]], None]


@final
class Bundle:
    """Sealed units on their way to the writer, handed over at once; they are not withdrawn."""

    __slots__ = ("_tell", "units")

    def __init__(self, units: Sequence[SealedUnit], done: Told[Any]) -> None:
        self.units = units
        self._tell = done

    def done(self, errors: Sequence[BaseException | None]) -> None:
        """Tell what became of them."""
        self._tell(self.units, errors)

    @property
    def count(self) -> int:
        """Return how many units these are."""
        return len(self.units)

    def take(self) -> Bundle:
        """Pick the units up, for the writer."""
        return self

    def cut(self, count: int) -> Bundle | None:
        """Keep so many units; return a bundle of the others, if there are any."""
        rest = self.units[count:]
        if not rest:
            return None
        self.units = self.units[:count]
        return Bundle(rest, self._tell)


class Store(Protocol):
    """A journal of records that commits units one after the other.

    ``async with store:`` opens and closes it. All methods are called on the thread of the trio
    loop that opened it.
    """

    epoch: int
    """How often the store was opened, this time included; the fence generation of its owners."""

    max_value: int
    """Largest size of one encoded record in bytes; beyond it `TooLarge`."""

    @property
    def name(self) -> str:
        """What to call it in error texts: the path, or ``memory``."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether units are accepted."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return a committed row, or None; inline, about a microsecond. Raises as `Tx.get`."""
        ...

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
        """Return committed rows in key order; inline, and the loop waits for all of them.

        ``after`` and ``limit`` as for `Tx.scan`. With ``damaged`` a corrupt row is handed to it and
        left out, where without it the scan raises: for readers to whom each row is a matter of its
        own.
        """
        ...

    def seal(self, key: bytes, value: object) -> SealedRow:
        """Encode a registered record now, to be put under `key` by a unit later.

        With its key it is a row of a `SealedUnit`, or put by ``tx.put(table, key, Sealed(*row))``.

        Raises:
            ValueRefused, TooLarge: As `Tx.put` would, but here and not in the unit.
        """
        ...

    def records(self, key: str, *, after: int = 0) -> AsyncIterator[Recorded]:
        """Stream the history of a durable actor: ``async for number, record in ...``.

        It begins behind record ``after`` and ends with what is committed when it gets there; a
        reader that comes back later goes on with the last number it saw. The actor need not live.

        Raises:
            CorruptRecord: A record is damaged or missing.
            FormatTooNew: A record was written by a newer version, or its class is not imported.
        """
        ...

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """Hand a unit to the writer and return at once.

        `done` is called on the loop thread with the unit's value or error after the commit that
        makes it durable, in submission order. It must be short and must not raise.

        Raises:
            StoreClosed: The store is not open.
        """
        ...

    def submit_all(self, units: Sequence[U], done: Told[U]) -> None:
        """Hand many sealed units to the writer at once; for who gathers them.

        The same as to `submit` them in order, for a fraction of the cost. `done` is called with
        units and what each came to, None or an error: all of them at once, or in parts where they
        took more than one commit.

        Raises:
            StoreClosed: The store is not open.
        """
        ...

    async def commit(self, unit: Unit[T]) -> T:
        """Run a unit and return its value once it is durable.

        A cancel before the writer picks the unit up withdraws it; after that the call waits for
        the verdict. No answer does not mean not done: re-read after a reopen.

        Raises:
            StoreFull: Nothing of the unit was written; retry when there is room.
            StoreLost: Outcome unknown; reopen the store and read.
            StoreClosed: The store is not open.
        """
        ...

    def next_owner(self) -> Incarnation:
        """Return a fresh owner identity: this opening's epoch and a number within it."""
        ...

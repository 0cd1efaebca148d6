"""Histories: the numbered records of one key, and the row that says where they lie.

A durable actor writes one history. Its records are numbered from 1 without a gap, and written once:
a unit writes what is new and never what was there before. The records of one unit share a row, or
a few. An owner puts the rows of all its histories one behind the other, in the order in which they
are written: a thousand actors that commit together fill a few pages, where a place of its own for
each history would make them touch a thousand (ADR 0014). Where the rows of one history lie is
written in its head, for the last few, and in blocks for those before. The head also holds the very
last records, until they fill a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from trio.lowlevel import checkpoint

from .._ids import Incarnation
from ..errors import CorruptRecord, FormatTooNew, UpcastFailed, ValueRefused
from ._frame import corrupt
from ._keys import row_key
from ._records import decode_record, record

T = TypeVar("T")
HISTORY: Final = "record"
"""The table in which histories lie."""

READ_AT_ONCE: Final = 64  # records read between two checkpoints, about 0.3 ms of work

ROWS: Final = b"E"
"""What the keys of the rows of records begin with."""


class Recorded(NamedTuple):
    """One record of a history and its number, from 1."""

    number: int
    value: Any


@record("records", version=1)
@dataclass(frozen=True, slots=True)
class RecordsRow:
    """Some records of one unit, each with its kind and version, and the number of the first."""

    first: int
    records: list[bytes]


@record("history", version=1)
@dataclass(frozen=True, slots=True)
class HeadRow:
    """The head of one history.

    ``units`` counts the commits of its owners and is the fence: who commits says how many he knows.
    ``records`` is the number of the last record, ``snapshot`` that of the record up to which the
    latest snapshot goes, ``replies`` that of the last reply recorded under an idempotency id.
    ``blocks`` counts the blocks, and ``edge`` is the last record to which one leads; ``places`` are
    those of the rows behind it, which its last owner wrote, as in a `BlockRow`. ``tail`` are the
    last records, which lie in no row yet.
    """

    key: str
    actor: str
    units: int
    records: int
    snapshot: int
    replies: int
    owner_epoch: int
    owner_number: int
    blocks: int
    edge: int
    places: list[int]
    tail: list[bytes]

    @property
    def owner(self) -> Incarnation:
        """Return who committed last."""
        return Incarnation(self.owner_epoch, self.owner_number)


@record("history.block", version=1)
@dataclass(frozen=True, slots=True)
class BlockRow:
    """Where some rows of a history lie, all of one owner, and the number of the first record.

    ``places`` are the place of the first row, and then the steps from each to the next.
    """

    first: int
    owner_epoch: int
    owner_number: int
    places: list[int]

    @property
    def owner(self) -> Incarnation:
        """Return who wrote the rows."""
        return Incarnation(self.owner_epoch, self.owner_number)


# --- keys -----------------------------------------------------------------------------------------


def head_key(key: str) -> bytes:
    """Return the row key of the head of a history."""
    return row_key(b"H", key)


def block_key(key: str, number: int) -> bytes:
    """Return the row key of a block of a history, from 0."""
    return block_key_of(head_key(key)[1:], number)


def records_key(key: str, owner: Incarnation, place: int) -> bytes:
    """Return the row key of records: where their owner put them, and whose history they are."""
    return prefix_of(owner) + place.to_bytes(8, "big") + head_key(key)[1:]


def ident_of(records: bytes) -> bytes:
    """Return the hash in the row key of records, which their head has behind the tag."""
    return records[17:]


def block_key_of(ident: bytes, number: int) -> bytes:
    """Return the row key of a block, by the hash of its history."""
    return b"B" + ident + number.to_bytes(8, "big")


def prefix_of(owner: Incarnation) -> bytes:
    """Return what the row keys of the records of an owner begin with."""
    return ROWS + owner.epoch.to_bytes(4, "big") + owner.number.to_bytes(4, "big")


# --- reading --------------------------------------------------------------------------------------


class Source(Protocol):
    """What reading a history takes: a store, or a transaction."""

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return a row, or None."""
        ...


def read_head(source: Source, key: str) -> HeadRow | None:
    """Return the head of a history, or None if nothing was recorded under this key.

    Raises:
        CorruptRecord: The row is damaged, or belongs to another key of the same hash.
    """
    head = source.get(HISTORY, head_key(key), HeadRow)
    if head is not None and head.key != key:
        raise CorruptRecord(
            f"the history of {key!r} lies where that of {head.key!r} does; use another key",
            table=HISTORY,
            key=head_key(key).hex(),
        )
    return head


def read_rows(source: Source, head: HeadRow, first: int) -> Iterator[tuple[bytes, RecordsRow]]:
    """Yield the rows of a history and their keys, from one that does not begin behind a record.

    The last one may be what the head holds of it, and then has the key of that.

    Raises:
        CorruptRecord: One is damaged, not there, or not the next one.
    """
    number, where = 1, head_key(head.key)
    for number, owner, places in _stretches(source, head, first):
        prefix, ident = prefix_of(owner), where[1:]
        for place in accumulate(places):
            key = prefix + place.to_bytes(8, "big") + ident
            row = source.get(HISTORY, key, RecordsRow)
            if row is None:
                raise _missing(head, number, key)
            if row.first != number:
                raise corrupt(HISTORY, key, f"it holds record {row.first}, and not {number}")
            yield key, row
            number += len(row.records)
    if number + len(head.tail) <= head.records:
        raise _missing(head, number, where)
    if head.tail:
        yield where, RecordsRow(number, head.tail)


def _stretches(
    source: Source, head: HeadRow, first: int
) -> Iterator[tuple[int, Incarnation, Sequence[int]]]:
    """Yield from which number on records lie together, whose rows they are, and where those are."""

    def block(number: int) -> BlockRow:
        key = block_key(head.key, number)
        row = source.get(HISTORY, key, BlockRow)
        if row is None:
            raise corrupt(HISTORY, key, f"it has to say where records of {head.key!r} lie")
        return row

    if first <= head.edge:
        blocks = range(head.blocks)
        for number in blocks[
            max(bisect_right(blocks, first, key=lambda n: block(n).first) - 1, 0) :
        ]:
            row = block(number)
            yield row.first, row.owner, row.places
    yield head.edge + 1, head.owner, head.places


def read_records(source: Source, head: HeadRow, first: int, last: int) -> Iterator[Any]:
    """Yield some records of a history, both ends included.

    Raises:
        CorruptRecord: One is damaged, or not there.
        FormatTooNew: One was written by a newer version, or is of a kind that is not known here.
        UpcastFailed: One could not be read by what this version knows of older ones.
    """
    if first > last:
        return
    following = first
    for key, row in read_rows(source, head, first):
        for body in row.records[max(first - row.first, 0) : last + 1 - row.first]:
            yield rebuild(body, key)
        following = row.first + len(row.records)
        if following > last:
            return
    raise _missing(head, following, head_key(head.key))


def rebuild(body: bytes, key: bytes = b"") -> Any:
    """Return an encoded record of a history as whoever reads it will find it.

    Args:
        body: What it is encoded to.
        key: The row key of what holds it, if anything does.

    Raises:
        CorruptRecord: Nobody could: its class refuses what it was encoded to.
        FormatTooNew, UpcastFailed: As `read_records`.
    """
    try:
        return decode_record(body, object)
    except ValueRefused as error:
        raise corrupt(HISTORY, key, error.reason) from error
    except (FormatTooNew, UpcastFailed) as error:
        raise type(error)(
            f"row {key.hex()} of table {HISTORY!r}: {error}",
            **error.facts,
            table=HISTORY,
            key=key.hex(),
        ) from error


def _missing(head: HeadRow, number: int, where: bytes) -> CorruptRecord:
    return CorruptRecord(
        f"record {number} of the history of {head.key!r} is missing; restore the store from a "
        "backup",
        table=HISTORY,
        key=where.hex(),
    )


async def stream(source: Source, key: str, after: int) -> AsyncIterator[Recorded]:
    """Yield the records of a history behind ``after``, up to what is committed when it gets there.

    See `Store.records`.
    """
    read = after
    while True:
        await checkpoint()
        head = read_head(source, key)
        last = 0 if head is None else min(read + READ_AT_ONCE, head.records)
        if head is None or read >= last:
            return
        for number, value in enumerate(read_records(source, head, read + 1, last), read + 1):
            yield Recorded(number, value)
        read = last

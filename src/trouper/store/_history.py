"""Histories: the numbered records of one key, and the row that says how many there are.

A durable actor writes one history. Its records are rows of their own, numbered from 1 without a
gap, so that a unit writes what is new and never what was there before. The head carries the full
key; its records lie under the same hash and belong to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from trio.lowlevel import checkpoint

from .._ids import Incarnation
from ..errors import CorruptRecord
from ._frame import pack
from ._keys import row_key
from ._records import encode_record, from_frame, record
from ._sealed import SealedRow
from ._short import int_code

T = TypeVar("T")
HISTORY: Final = "record"
"""The table in which histories lie."""

READ_AT_ONCE: Final = 64  # records read between two checkpoints, about 0.3 ms of work


class Recorded(NamedTuple):
    """One record of a history and its number, from 1."""

    number: int
    value: Any


@record("history", version=1)
@dataclass(frozen=True, slots=True)
class HeadRow:
    """The head of one history.

    ``units`` counts the commits of its owners and is the fence: who commits says how many he knows.
    ``records`` is the number of the last record, ``snapshot`` that of the record up to which the
    latest snapshot goes, ``replies`` that of the last reply recorded under an idempotency id.
    """

    key: str
    actor: str
    units: int
    records: int
    snapshot: int
    replies: int
    owner_epoch: int
    owner_number: int

    @property
    def owner(self) -> Incarnation:
        """Return who committed last."""
        return Incarnation(self.owner_epoch, self.owner_number)


class HeadSealer:
    """Seals the heads of one history: what is the same in all of them is encoded once."""

    __slots__ = ("_fixed", "_owner", "_owner_codes", "key")

    def __init__(self, key: str, actor: str) -> None:
        self.key = head_key(key)
        nothing = encode_record(HeadRow(key, actor, 0, 0, 0, 0, 0, 0))
        self._fixed = nothing.removesuffix(b"\0" * 6)  # its numbers, a byte each
        self._owner: Incarnation | None = None
        self._owner_codes = b""

    def seal(
        self, units: int, records: int, snapshot: int, replies: int, owner: Incarnation
    ) -> SealedRow:
        """Return the head with these numbers, as sealing a `HeadRow` would."""
        if owner is not self._owner:
            self._owner = owner
            self._owner_codes = int_code(owner.epoch) + int_code(owner.number)
        numbers = int_code(units) + int_code(records) + int_code(snapshot) + int_code(replies)
        return self.key, pack(self.key, self._fixed + numbers + self._owner_codes)


class Source(Protocol):
    """What reading a history takes: a store, or a transaction."""

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return a row, or None."""
        ...


def head_key(key: str) -> bytes:
    """Return the row key of the head of a history."""
    return row_key(b"H", key)


def record_key(key: str, number: int) -> bytes:
    """Return the row key of one record of a history."""
    return row_key(b"E", key, number.to_bytes(8, "big"))


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


def read_record(source: Source, key: str, number: int) -> Any:
    """Return one record of a history.

    Raises:
        CorruptRecord: It is damaged, or not there.
    """
    where = record_key(key, number)
    value = source.get(HISTORY, where, object)
    if value is None:
        raise CorruptRecord(
            f"record {number} of the history of {key!r} is missing; restore the store from a "
            "backup",
            table=HISTORY,
            key=where.hex(),
        )
    return value


def rebuild(row: SealedRow) -> Any:
    """Return the record in a sealed row of a history, as whoever reads that will find it.

    Raises:
        CorruptRecord: Nobody could: its class refuses what it was encoded to.
    """
    return from_frame(HISTORY, *row, object)


async def stream(source: Source, key: str, after: int) -> AsyncIterator[Recorded]:
    """Yield the records of a history behind ``after``, up to what is committed when it gets there.

    See `Store.records`.
    """
    read = after
    while True:
        await checkpoint()
        head = read_head(source, key)
        last = min(read + READ_AT_ONCE, 0 if head is None else head.records)
        if read >= last:
            return
        for number in range(read + 1, last + 1):
            yield Recorded(number, read_record(source, key, number))
        read = last

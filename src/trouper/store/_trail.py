"""Writing a history: its owner seals records, blocks and heads, on the loop.

What it writes is what the encoder would make of the rows in `._history`, put together from parts
that are encoded once; a property test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, final

from .._ids import Incarnation
from ._frame import pack
from ._history import BlockRow, HeadRow, RecordsRow, block_key_of, head_key, prefix_of
from ._records import encode_record
from ._sealed import SealedRow
from ._short import ARRAYS, BYTES, INTS, LONGEST, SHORT_BYTES, array_head, bytes_code, int_code

ROW_RECORDS: Final = 32
ROW_BYTES: Final = 1500
"""So many records share a row, and no second one that makes it longer: a third of a page."""

TAIL_RECORDS: Final = 8
TAIL_BYTES: Final = 512
"""So much of a history lies in its head: a unit of one record writes one row, as a rule."""

BLOCK: Final = 8
"""Places in a block. Heads are written all the time: the fewer places in them, the fewer pages."""


def _fixed(nothing: RecordsRow | HeadRow | BlockRow, numbers: int, arrays: int = 1) -> bytes:
    """Encode what all rows of a kind begin with; behind it come numbers and arrays."""
    return encode_record(nothing).removesuffix(b"\0" * numbers + array_head(0) * arrays)


_RECORDS: Final = _fixed(RecordsRow(0, []), 1)
_ONE: Final = array_head(1)
_BLOCK: Final = _fixed(BlockRow(0, 0, 0, []), 3)


@final
class Places:
    """Where one owner puts the records of all its histories: one row behind the other."""

    __slots__ = ("owner", "prefix", "take")

    def __init__(self, owner: Incarnation) -> None:
        self.owner = owner
        self.prefix = prefix_of(owner)
        self.take = count(1).__next__


@final
class Trail:
    """Seals what an owner writes of one history: its records, and the head that leads to them.

    What is the same in all heads is encoded once, and a place when it is taken.

    Args:
        key: Of the history.
        actor: Whose it is.
        places: Where its owner puts records.
        head: The head that is there, if one is.
    """

    __slots__ = (
        "_blocks",
        "_codes",
        "_count",
        "_edge",
        "_fixed",
        "_held",
        "_ident",
        "_last",
        "_left",
        "_owner",
        "_prefix",
        "_rest",
        "_same",
        "_tail",
        "_take",
        "key",
        "records",
    )

    def __init__(self, key: str, actor: str, places: Places, head: HeadRow | None = None) -> None:
        self.key = head_key(key)
        self._ident = self.key[1:]
        self._prefix, self._take = places.prefix, places.take
        self._fixed = _fixed(HeadRow(key, actor, 0, 0, 0, 0, 0, 0, 0, 0, [], []), 8, 2)
        self._owner = int_code(places.owner.epoch) + int_code(places.owner.number)
        self._left: SealedRow | None = None  # the block of a former owner; nobody adds to it
        self.records = self._blocks = self._edge = self._count = self._last = 0
        self._codes = self._tail = b""
        self._held = 0  # records in the tail
        if head is not None:
            self.records, self._blocks, self._edge = head.records, head.blocks, head.edge
            self._codes = b"".join(map(int_code, head.places))
            self._count, self._last = len(head.places), sum(head.places)
            self._tail, self._held = b"".join(map(bytes_code, head.tail)), len(head.tail)
            if self._count and head.owner != places.owner:
                owner = int_code(head.owner_epoch) + int_code(head.owner_number)
                self._left = self._close(owner)
        # What stays the same in most heads: the numbers behind the first two, up to the places.
        self._rest = b""
        self._same = (-1, -1, -1)  # what that is made of

    def add(self, bodies: Sequence[bytes], rows: list[SealedRow]) -> None:
        """Append the rows that hold the next records, and the blocks that are full with them."""
        if self._left is not None:
            rows.append(self._left)
            self._left = None
        if len(bodies) > TAIL_RECORDS:
            if self._held:
                self._spill(rows)
            self._add_all(bodies, rows)
            return
        for body in bodies:
            code = BYTES[len(body)] + body if len(body) < SHORT_BYTES else bytes_code(body)
            if self._held == TAIL_RECORDS or len(self._tail) + len(code) > TAIL_BYTES:
                if self._held:
                    self._spill(rows)
                if len(code) > TAIL_BYTES:
                    self._add(_ONE + code, 1, rows)
                    continue
            self._tail += code
            self._held += 1
            self.records += 1

    def _add_all(self, bodies: Sequence[bytes], rows: list[SealedRow]) -> None:
        start = size = 0
        for at, body in enumerate(bodies):
            size += len(body)
            if at > start and (size > ROW_BYTES or at - start == ROW_RECORDS):
                self._add_some(bodies[start:at], rows)
                start, size = at, len(body)
        self._add_some(bodies[start:], rows)

    def _add_some(self, bodies: Sequence[bytes], rows: list[SealedRow]) -> None:
        self._add(array_head(len(bodies)) + b"".join(map(bytes_code, bodies)), len(bodies), rows)

    def _spill(self, rows: list[SealedRow]) -> None:
        """Put what lies in the head into a row."""
        array, held = array_head(self._held) + self._tail, self._held
        self._tail, self._held = b"", 0
        self.records -= held
        self._add(array, held, rows)

    def _add(self, array: bytes, count: int, rows: list[SealedRow]) -> None:
        place = self._take()
        key = self._prefix + place.to_bytes(8, "big") + self._ident
        rows.append((key, pack(key, _RECORDS + int_code(self.records + 1) + array)))
        self.records += count
        self._codes += int_code(place - self._last)
        self._last = place
        self._count += 1
        if self._count == BLOCK:
            rows.append(self._close(self._owner))

    def _close(self, owner: bytes) -> SealedRow:
        """Seal the block that ends with the last row, and begin the next."""
        key = block_key_of(self._ident, self._blocks)
        body = _BLOCK + int_code(self._edge + 1) + owner + array_head(self._count) + self._codes
        self._blocks += 1
        self._edge = self.records - self._held
        self._codes, self._count, self._last = b"", 0, 0
        return key, pack(key, body)

    def seal(self, units: int, snapshot: int, replies: int) -> SealedRow:
        """Return the head with these numbers, as sealing a `HeadRow` would."""
        if self._same != (same := (snapshot, replies, self._blocks)):
            self._same = same
            block = int_code(self._blocks) + int_code(self._edge)
            self._rest = int_code(snapshot) + int_code(replies) + self._owner + block
        records, count = self.records, self._count
        body = b"".join(
            (
                self._fixed,
                INTS.get(units) or int_code(units),
                INTS.get(records) or int_code(records),
                self._rest,
                ARRAYS[count] if count <= LONGEST else array_head(count),
                self._codes,
                ARRAYS[self._held],
                self._tail,
            )
        )
        key = self.key
        return key, pack(key, body)

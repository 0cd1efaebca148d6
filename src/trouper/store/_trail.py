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
from ._short import array_head, bytes_code, int_code

ROW_RECORDS: Final = 32
ROW_BYTES: Final = 1500
"""So many records share a row, and no second one that makes it longer: a third of a page."""

BLOCK: Final = 32
"""Places in a block. A head with as many takes no more than a hundred bytes, as a rule."""


def _fixed(nothing: RecordsRow | HeadRow | BlockRow, numbers: int) -> bytes:
    """Encode what all rows of a kind begin with; behind it come numbers and an array."""
    return encode_record(nothing).removesuffix(b"\0" * numbers + array_head(0))


_RECORDS: Final = _fixed(RecordsRow(0, []), 1)
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
        "_block",
        "_blocks",
        "_codes",
        "_count",
        "_edge",
        "_fixed",
        "_ident",
        "_last",
        "_left",
        "_owner",
        "_places",
        "key",
        "records",
    )

    def __init__(self, key: str, actor: str, places: Places, head: HeadRow | None = None) -> None:
        self.key = head_key(key)
        self._ident = self.key[1:]
        self._places = places
        self._fixed = _fixed(HeadRow(key, actor, 0, 0, 0, 0, 0, 0, 0, 0, []), 8)
        self._owner = int_code(places.owner.epoch) + int_code(places.owner.number)
        self._left: SealedRow | None = None  # the block of a former owner; nobody adds to it
        self.records = self._blocks = self._edge = self._count = self._last = 0
        self._codes = b""
        if head is not None:
            self.records, self._blocks, self._edge = head.records, head.blocks, head.edge
            self._codes = b"".join(map(int_code, head.places))
            self._count, self._last = len(head.places), sum(head.places)
            if self._count and head.owner != places.owner:
                owner = int_code(head.owner_epoch) + int_code(head.owner_number)
                self._left = self._close(owner)
        # What stays the same until the next block.
        self._block = int_code(self._blocks) + int_code(self._edge)

    def add(self, bodies: Sequence[bytes]) -> list[SealedRow]:
        """Return the rows that hold the next records, and the blocks that are full with them."""
        rows: list[SealedRow] = []
        if self._left is not None:
            rows.append(self._left)
            self._left = None
        if len(bodies) < 2:
            if bodies:  # a unit may hold nothing but replies
                self._add(bodies, rows)
            return rows
        start = size = 0
        for at, body in enumerate(bodies):
            size += len(body)
            if at > start and (size > ROW_BYTES or at - start == ROW_RECORDS):
                self._add(bodies[start:at], rows)
                start, size = at, len(body)
        self._add(bodies[start:], rows)
        return rows

    def _add(self, bodies: Sequence[bytes], rows: list[SealedRow]) -> None:
        place = self._places.take()
        key = self._places.prefix + place.to_bytes(8, "big") + self._ident
        head = _RECORDS + int_code(self.records + 1) + array_head(len(bodies))
        rows.append((key, pack(key, head + b"".join(map(bytes_code, bodies)))))
        self.records += len(bodies)
        self._codes += int_code(place - self._last)
        self._last = place
        self._count += 1
        if self._count == BLOCK:
            rows.append(self._close(self._owner))
            self._block = int_code(self._blocks) + int_code(self._edge)

    def _close(self, owner: bytes) -> SealedRow:
        """Seal the block that ends with the last row, and begin the next."""
        key = block_key_of(self._ident, self._blocks)
        body = _BLOCK + int_code(self._edge + 1) + owner + array_head(self._count) + self._codes
        self._blocks += 1
        self._edge = self.records
        self._codes, self._count, self._last = b"", 0, 0
        return key, pack(key, body)

    def seal(self, units: int, snapshot: int, replies: int) -> SealedRow:
        """Return the head with these numbers, as sealing a `HeadRow` would."""
        numbers = int_code(units) + int_code(self.records) + int_code(snapshot) + int_code(replies)
        body = self._fixed + numbers + self._owner + self._block + array_head(self._count)
        return self.key, pack(self.key, body + self._codes)

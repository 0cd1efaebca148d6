"""Rows that are encoded before their unit runs.

A unit runs on the writer's thread, together with others. What is encoded by whom it comes from,
where it comes from, is refused there too: a value outside the profile fails its message and not the
unit of many messages that it would have been part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from ._protocol import Tx


SealedRow: TypeAlias = tuple[bytes, bytes]
"""A row key and the frame under it: what `Store.seal` makes, and what LMDB takes many of."""


@final
class Sealed:
    """The frame of one record, ready to be put under one key by a `Tx`: ``Sealed(*row)``."""

    __slots__ = ("frame", "key")

    def __init__(self, key: bytes, frame: bytes) -> None:
        self.key = key
        self.frame = frame

    def __len__(self) -> int:
        return len(self.frame)

    def under(self, key: bytes) -> bytes:
        """Return the frame. Its checksum covers the key, so it is good under that one only."""
        if key != self.key:
            raise ValueError(f"sealed for key {self.key.hex()}, put under {key.hex()}")
        return self.frame


class SealedUnit:
    """A unit of sealed rows, which a store may write without running it.

    While the row of its fence lies in the table exactly as sealed, nothing is left to decide. Else
    the unit runs as any other does, and says what is wrong; so does one without a fence.
    """

    __slots__ = ("fence", "forgotten", "rows", "table")

    def __init__(self, table: str) -> None:
        self.table = table
        self.fence: SealedRow | None = None
        self.rows: list[SealedRow] = []
        self.forgotten: list[bytes] | None = None  # keys to delete, if there are any

    def __call__(self, tx: Tx) -> None:
        """Write it, or raise: the same rows as without running it."""
        raise NotImplementedError

"""The rows of a journal, as whoever looks for contradictions between them reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, final

from ...actors.inspect import INVARIANTS
from ...errors import StoreError
from ...store import Finding
from ...store._memory import MemoryState
from ...store._records import from_frame

T = TypeVar("T")


def findings(state: MemoryState) -> list[Finding]:
    """Return each place where rows contradict one another, as ``trouper store check`` finds it."""
    rows = ReadableRows(state)
    return [finding for invariant in INVARIANTS for finding in invariant(rows)]


@final
class ReadableRows:
    """The readable rows of one state; see `trouper.store.Rows`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Rows.get`."""
        frame = self._state.read(table, key)
        return None if frame is None else _readable(table, key, frame, kind)

    def scan(self, table: str, prefix: bytes, kind: type[T]) -> Iterator[tuple[bytes, T]]:
        """See `Rows.scan`."""
        for key, frame in self._state.items(table, prefix):
            value = _readable(table, key, frame, kind)
            if value is not None:
                yield key, value

    def keys(self, table: str, prefix: bytes) -> Iterator[bytes]:
        """See `Rows.keys`."""
        yield from self._state.keys(table, prefix, None)


def _readable(table: str, key: bytes, frame: bytes, kind: type[T]) -> T | None:
    try:
        return from_frame(table, key, frame, kind)
    except StoreError:
        return None

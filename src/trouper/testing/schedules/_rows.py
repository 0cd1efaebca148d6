"""The rows of a journal, as checks read them, and as units do whose reading is watched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, final

from ...actors.inspect import INVARIANTS
from ...errors import StoreError
from ...store import Finding
from ...store._memory import MemoryState
from ...store._records import from_frame
from ._names import key_name, range_name

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


@final
class WatchedState:
    """The committed state, as a unit reads it: what it read is noted."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self.reads: set[str] = set()
        self.scans: set[str] = set()

    def read(self, table: str, key: bytes) -> bytes | None:
        """See `View.read`."""
        self.reads.add(key_name(table, key))
        return self._state.read(table, key)

    def items(
        self, table: str, prefix: bytes, after: bytes, limit: int | None
    ) -> list[tuple[bytes, bytes]]:
        """See `View.items`."""
        self.scans.add(range_name(table, prefix))
        return self._state.items(table, prefix, after, limit)

    def keys(self, table: str, prefix: bytes, limit: int | None) -> list[bytes]:
        """See `View.keys`."""
        self.scans.add(range_name(table, prefix))
        return self._state.keys(table, prefix, limit)


def _readable(table: str, key: bytes, frame: bytes, kind: type[T]) -> T | None:
    try:
        return from_frame(table, key, frame, kind)
    except StoreError:
        return None

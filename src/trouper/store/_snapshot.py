"""One consistent state of a store's data file, mapped to be read: what the tools read through.

A snapshot is one read transaction, held until the snapshot is closed. While it lives, a store that
is in use cannot recycle the pages it sees, so its file grows; tools keep it short.

Mapping a damaged file kills the process. Whoever opens a snapshot has verified the file, or reads
beside a live owner, who has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, cast, final

from ..errors import StoreDamaged, StoreError, StoreFull, StoreOwned
from ._lmdb import LmdbError, MapResized, map_readonly
from ._meaning import at_open, at_read
from ._place import MAP_LOCK_FILE
from ._readers import Reader, readers_in


class Room(NamedTuple):
    """How a data file is used, in pages."""

    page_size: int
    pages: int  # that the file has ever used
    tables: int  # that hold rows
    map_size: int  # bytes


@final
class Snapshot:
    """A mapped data file and one read transaction on it.

    Args:
        data: The data file.
        shared: A live owner may commit meanwhile.

    Raises:
        StoreDamaged, StoreFull, PathRefused: LMDB could not map it.
        StoreOwned: This process has it mapped already.
        StoreError: A file of the store was exchanged right now.
    """

    def __init__(self, data: Path, *, shared: bool) -> None:
        self.name = str(data.parent)
        names = [data, data.with_name(MAP_LOCK_FILE)] if shared else [data]
        before = _inodes(names)
        try:
            self._env = map_readonly(data, shared=shared)
        except LmdbError as error:
            if "already open in this process" in str(error):
                raise StoreOwned(
                    f"this process reads store {self.name!r} right now; wait until it is done",
                    pid=os.getpid(),
                    path=self.name,
                ) from None
            raise at_open(data.parent, error) from error
        try:
            if _inodes(names) != before:  # a compaction, or a restore, got between them
                raise StoreError(
                    f"the files of store {self.name!r} were exchanged just now; try again",
                    store=self.name,
                )
            self._txn = self._begin()
            self._dbs: dict[str, Any] = {
                name.decode(): self._env.open_db(name, txn=self._txn, create=False)
                for name in cast("Sequence[bytes]", self._env.dbs(self._txn))
            }
        except LmdbError as error:
            self._env.close()
            raise at_read(self.name, error) from error
        except BaseException:
            self._env.close()
            raise

    def _begin(self) -> Any:
        while True:
            try:
                return self._env.begin()
            except MapResized:
                self._env.set_mapsize(0)  # its owner let it grow: take the new size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._txn.abort()
        self._env.close()

    @property
    def commit(self) -> int:
        """Number of the commit that is seen."""
        return int(self._txn.id())

    @property
    def tables(self) -> dict[str, int]:
        """The tables, and how many rows each has."""
        return {name: self._stat(name)["entries"] for name in sorted(self._dbs)}

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the frame under a key, or None."""
        if table not in self._dbs:
            return None
        try:
            frame: bytes | None = self._txn.get(key, db=self._dbs[table])
        except LmdbError as error:
            raise self._damaged(error) from error
        return frame

    def items(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Give out keys and frames under a prefix, in key order."""
        if table not in self._dbs:
            return
        try:
            with self._txn.cursor(db=self._dbs[table]) as cursor:
                if not (cursor.set_range(prefix) if prefix else cursor.first()):
                    return
                for key, frame in cursor.iternext(keys=True, values=True):
                    if not key.startswith(prefix):
                        return
                    yield key, frame
        except LmdbError as error:
            raise self._damaged(error) from error

    def copy(self, fd: int) -> None:
        """Write what is committed now, without free pages, to a file or pipe; on any thread."""
        try:
            self._env.copyfd(fd, compact=True)
        except LmdbError as error:
            raise self._damaged(error) from error

    def room(self) -> Room:
        """Return how the file is used."""
        info = self._env.info()
        whole = cast("dict[str, int]", self._env.stat())
        stats = [whole, *map(self._stat, self._dbs)]
        used = sum(s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"] for s in stats)
        return Room(whole["psize"], info["last_pgno"] + 1, used, info["map_size"])

    def readers(self) -> list[Reader]:
        """Return who reads the store now, this process left out; of a live store only."""
        return readers_in(self._env.readers())

    def _stat(self, table: str) -> dict[str, int]:
        return cast("dict[str, int]", self._txn.stat(self._dbs[table]))

    def _damaged(self, error: Exception) -> StoreDamaged | StoreFull:
        return at_read(self.name, error)


def _inodes(names: Sequence[Path]) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for name in names:
        try:
            seen = os.stat(name)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((seen.st_dev, seen.st_ino))
    return found

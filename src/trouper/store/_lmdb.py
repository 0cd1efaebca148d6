"""The one door to LMDB: a mapped environment, and a write transaction in it.

What a naive use of LMDB meets, and what is done about it here:

* Growing or unmapping under a reader is a crash: reads, growth and close take the gate.
* A write transaction must begin and end on one thread, and two on one thread hang; so does opening
  a table beside one: all of it is the writer thread's, and tables are opened once.
* A full map also shows at commit, and even deletes need room: `MapFull`, to grow and replay.
* A fork must not touch the environment: the pid is checked on every call.
* No error of LMDB leaves this module: each means something to a caller, or ends the store.
* Keys and values are copied out (``buffers=False``): a view into an ended transaction is a crash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from pathlib import Path
from threading import Condition, Lock
from typing import Any, Final, cast, final

import lmdb
import lmdb.verify

from ..errors import ForeignFork, StoreClosed, StoreFull, StoreLost
from ._meaning import as_lost, at_commit, at_open, at_read
from ._overlay import Writes
from ._readers import hint
from ._sealed import SealedRow
from ._shortage import is_shortage

MIN_MAP: Final = 1024 * 1024
MAX_READERS: Final = 126
MAX_TABLES: Final = 16

LmdbError = lmdb.Error
MapResized = lmdb.MapResizedError


class MapFull(Exception):
    """The map has no room for this transaction, which is dead now: grow and replay."""


def problems_of(data: Path) -> list[str]:
    """Walk a whole data file without mapping it and say what is wrong with it.

    Opening a damaged file raises nothing, it kills the process; this cannot.
    """
    verify = cast("Callable[..., list[str]]", getattr(lmdb.verify, "verify"))  # noqa: B009
    try:
        return verify(str(data), subdir=False)
    except Exception as error:  # hostile bytes may trip the verifier itself
        if isinstance(error, OSError) and is_shortage(error.errno):
            raise
        return [str(error) or type(error).__name__]


def map_readonly(data: Path, *, shared: bool) -> lmdb.Environment:
    """Map a data file to read it.

    Args:
        data: The data file; its owner has verified it, or the caller has.
        shared: Its owner may commit meanwhile: take part in LMDB's locking.
    """
    return lmdb.open(
        os.fsencode(data.parent if shared else data),
        subdir=shared,
        readonly=True,
        create=False,
        lock=shared,
        max_dbs=MAX_TABLES,
        map_size=0,
    )


@final
class Env:
    """A mapped environment. `read` and `scan` run on the loop, the rest on the writer thread."""

    def __init__(self, name: str, env: lmdb.Environment) -> None:
        self.name = name
        self.failed: StoreLost | None = None  # written by the writer thread, once
        self._env: lmdb.Environment | None = env  # set to None under the gate
        self._gate = Lock()
        self._copied = Condition(self._gate)
        self._copies = 0  # that run now, on threads of their own; under the gate
        self._dbs: dict[str, Any] = {}
        self._pid = os.getpid()

    @classmethod
    def open(cls, directory: Path, *, map_size: int, durable: bool, fresh: bool) -> Env:
        """Map the environment; where address space is limited, with the largest map that fits.

        Raises:
            StoreFull, PathRefused, StoreDamaged: LMDB could not.
        """
        # A new file's format is pinned, an environment variable may say otherwise; an existing
        # file says itself which format it has.
        pinned: dict[str, Any] = {"lib_version": 0} if fresh else {"create": False}
        while True:
            try:
                env = lmdb.open(
                    os.fsencode(directory),  # a name need not be text
                    map_size=map_size,
                    metasync=durable,
                    mode=0o700,
                    max_readers=MAX_READERS,
                    max_dbs=MAX_TABLES,
                    max_spare_txns=2,
                    **pinned,
                )
            except (lmdb.MemoryError, MemoryError) as error:
                map_size //= 2
                if map_size < MIN_MAP:
                    raise StoreFull(
                        f"no address space to map store {str(directory)!r}; raise the limit",
                        store=str(directory),
                    ) from error
            except lmdb.Error as error:
                raise at_open(directory, error) from error
            else:
                env.reader_check()  # readers that were killed would keep old pages for ever
                return cls(str(directory), env)

    @property
    def data_format(self) -> tuple[int, int]:
        """Version of the LMDB engine that the file needs."""
        return self._live().lib_version()[:2]

    def peek(self, table: str, key: bytes) -> bytes | None:
        """Read before the tables are opened; None if table or row is missing."""
        env = self._live()
        try:
            db = env.open_db(table.encode(), create=False)
            with env.begin() as txn:
                return txn.get(key, db=db)
        except lmdb.NotFoundError:
            return None
        except lmdb.Error as error:
            raise at_read(self.name, error) from error

    def is_blank(self) -> bool:
        """Tell whether nothing was ever committed to it."""
        try:
            with self._live().begin() as txn:
                return txn.stat()["entries"] == 0
        except lmdb.Error as error:
            raise at_read(self.name, error) from error

    def open_tables(self, names: Iterable[str]) -> WriteTxn:
        """Open, and make, the tables; return the transaction that must be committed for it.

        Raises:
            MapFull: There is no room for them; grow and try again.
        """
        env = self._live()
        try:
            raw = env.begin(write=True)
            try:
                for name in names:
                    self._dbs[name] = env.open_db(name.encode(), txn=raw)
            except BaseException:
                raw.abort()
                raise
        except lmdb.MapFullError as error:
            raise MapFull from error
        except lmdb.Error as error:
            raise at_read(self.name, error) from error
        return WriteTxn(self.name, raw, self._dbs)

    def read(self, table: str, key: bytes) -> bytes | None:
        """Return a committed frame, or None."""
        try:
            with self._gate, self._live().begin() as txn:
                return txn.get(key, db=self._dbs[table])
        except lmdb.Error as error:
            raise at_read(self.name, error) from error

    def scan(
        self, table: str, prefix: bytes, after: bytes, limit: int | None
    ) -> list[tuple[bytes, bytes]]:
        """Return committed keys and frames, as `View.items`."""
        try:
            with self._gate, self._live().begin() as txn:
                return _items(txn, self._dbs[table], prefix, after, limit)
        except lmdb.Error as error:
            raise at_read(self.name, error) from error

    def begin(self) -> WriteTxn:
        """Begin a write transaction."""
        try:
            return WriteTxn(self.name, self._live().begin(write=True), self._dbs)
        except lmdb.Error as error:
            raise as_lost(self.name, error) from error

    def grow(self, limit: int) -> None:
        """Make room, with no transaction open: what dead readers held, or a map of twice the size.

        Raises:
            StoreFull: It is at its limit.
        """
        env = self._live()
        if env.reader_check():
            return
        size = env.info()["map_size"]
        wanted = min(size * 2, limit)
        if wanted <= size:
            raise StoreFull(
                f"store {self.name!r} is at its map limit of {size} bytes: nothing of this unit "
                f"was written. Delete rows, or open it with a larger map_limit."
                f"{hint(env.readers())}",
                store=self.name,
            )
        with self._copied:
            self._copied.wait_for(self._uncopied)
            env.set_mapsize(wanted)

    def clear_readers(self) -> None:
        """Free what readers hold that were killed: it would never be used again."""
        self._live().reader_check()

    def sync(self) -> None:
        """Flush what level ``relaxed`` may have left in flight."""
        try:
            self._live().sync(True)
        except lmdb.Error as error:
            raise as_lost(self.name, error) from error

    def close(self) -> None:
        """Unmap it; a second call does nothing."""
        with self._copied:
            env, self._env = self._env, None
            self._copied.wait_for(self._uncopied)
            if env is not None:
                env.close()

    def copy(self, fd: int) -> None:
        """Write what is committed now, without free pages, to a file or pipe; on any thread.

        Reads and commits go on; growth and close wait for it.
        """
        with self._gate:
            env = self._live()
            self._copies += 1
        try:
            env.copyfd(fd, compact=True)
        except lmdb.Error as error:
            raise at_read(self.name, error) from error
        finally:
            with self._copied:
                self._copies -= 1
                self._copied.notify_all()

    def _uncopied(self) -> bool:
        return not self._copies

    def check_process(self) -> None:
        """Refuse to work in a fork of the process that opened the store.

        Raises:
            ForeignFork: This is another process.
        """
        if os.getpid() != self._pid:
            raise ForeignFork(
                f"store {self.name!r} was opened by process {self._pid}; this fork of it must not "
                f"touch it. Talk to the owner, or start a fresh process.",
                store=self.name,
                pid=self._pid,
            )

    def _live(self) -> lmdb.Environment:
        if os.getpid() != self._pid:
            self.check_process()
        if self.failed is not None:
            raise StoreLost(str(self.failed), **self.failed.facts)
        if self._env is None:
            raise StoreClosed(f"store {self.name!r} is not open", store=self.name)
        return self._env


@final
class WriteTxn:
    """One write transaction, also the view that the units in it run on."""

    __slots__ = ("_dbs", "_name", "raw")

    def __init__(self, name: str, txn: lmdb.Transaction[bytes], dbs: dict[str, Any]) -> None:
        self._name = name
        self._dbs = dbs
        self.raw = txn

    def read(self, table: str, key: bytes) -> bytes | None:
        """See `View.read`."""
        try:
            return self.raw.get(key, db=self._dbs[table])
        except lmdb.Error as error:
            raise at_read(self._name, error) from error

    def holds(self, table: str, rows: list[SealedRow]) -> bool:
        """Tell whether these rows, of as many keys, all lie in the table as they are."""
        try:
            with self.raw.cursor(db=self._dbs[table]) as cursor:
                # In the order of the keys that were asked for; without those that are not there.
                return list(cursor.getmulti([key for key, _ in rows])) == rows
        except lmdb.Error as error:
            raise at_read(self._name, error) from error

    def items(
        self, table: str, prefix: bytes, after: bytes, limit: int | None
    ) -> list[tuple[bytes, bytes]]:
        """See `View.items`."""
        try:
            return _items(self.raw, self._dbs[table], prefix, after, limit)
        except lmdb.Error as error:
            raise at_read(self._name, error) from error

    def keys(self, table: str, prefix: bytes, limit: int | None) -> list[bytes]:
        """See `View.keys`."""
        try:
            return _keys(self.raw, self._dbs[table], prefix, limit)
        except lmdb.Error as error:
            raise at_read(self._name, error) from error

    def last_key(self, table: str) -> bytes | None:
        """Return the last key of a table, or None."""
        try:
            with self.raw.cursor(db=self._dbs[table]) as cursor:
                return cursor.key() if cursor.last() else None
        except lmdb.Error as error:
            raise at_read(self._name, error) from error

    def write(self, writes: Writes) -> None:
        """Write what a unit wrote.

        Raises:
            MapFull: The transaction is dead; grow and replay.
            StoreFull, StoreLost: As `commit`.
        """
        txn = self.raw
        try:
            for table, rows in writes.items():
                put = cast("dict[bytes, bytes]", rows)
                if None in rows.values():
                    put = {key: frame for key, frame in rows.items() if frame is not None}
                for key in rows.keys() - put.keys() if len(put) < len(rows) else ():
                    txn.delete(key, db=self._dbs[table])
                with txn.cursor(db=self._dbs[table]) as cursor:
                    # One call for all of them; a refusal is a count, not an exception.
                    if cursor.putmulti(put.items()) != (len(put), len(put)):
                        raise lmdb.Error(f"a put into {table!r} was refused")
        except lmdb.Error as error:
            raise self._meaning(error) from error

    def commit(self) -> None:
        """Make it durable.

        Raises:
            MapFull: Nothing was written; grow and replay.
            StoreFull: The disk is full; nothing was written.
            StoreLost: Outcome unknown.
        """
        try:
            self.raw.commit()
        except lmdb.Error as error:
            raise self._meaning(error) from error

    def abort(self) -> None:
        """Drop it; harmless after it ended."""
        self.raw.abort()

    def _meaning(self, error: lmdb.Error) -> MapFull | StoreFull | StoreLost:
        if isinstance(error, lmdb.MapFullError):
            return MapFull()
        return at_commit(self._name, error)


def _items(
    txn: lmdb.Transaction[bytes], db: Any, prefix: bytes, after: bytes, limit: int | None
) -> list[tuple[bytes, bytes]]:
    with txn.cursor(db=db) as cursor:
        # No key lies between one and itself with a zero byte behind it.
        if not cursor.set_range(max(prefix, after + b"\0") if after else prefix):
            return []
        rows = cast("Iterable[tuple[bytes, bytes]]", cursor.iternext(keys=True, values=True))
        return list(takewhile(lambda row: row[0].startswith(prefix), islice(rows, limit)))


def _keys(txn: lmdb.Transaction[bytes], db: Any, prefix: bytes, limit: int | None) -> list[bytes]:
    with txn.cursor(db=db) as cursor:
        if not cursor.set_range(prefix):
            return []
        keys = cast("Iterable[bytes]", cursor.iternext(keys=True, values=False))
        return list(takewhile(lambda key: key.startswith(prefix), islice(keys, limit)))

"""The durable engine: opens a store step by step, commits batches, closes it.

The order of opening is the point. Everything that can be refused is refused before the file is
mapped, since a mapped damaged file kills the process; the lock is taken before anything is read
that another owner may change; the first commit bumps the epoch, which outdates every owner of an
earlier opening.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, final
from uuid import uuid4

from outcome import Error, Outcome, Value

from .._version import __version__
from ..errors import CorruptRecord, PathRefused, StoreFull, StoreLost
from ._base import MAX_BATCH_BYTES
from ._keys import TABLES, log_sequence
from ._lmdb import Env, MapFull, problems_of
from ._names import Inode, Names
from ._overlay import OverlayTx, Writes, bundled_writes, run_unit, sealed_writes
from ._owner import LOCK_FILE, Owner, stamp_of
from ._place import (
    DATA_FILE,
    FORMAT,
    MAP_LOCK_FILE,
    Identity,
    check_format,
    damaged,
    has_data,
    prepare,
    read_identity,
    write_identity,
    wrong_engine,
)
from ._protocol import Unit
from ._records import from_frame, to_frame
from ._sealed import SealedRow, SealedUnit
from ._shortage import cannot_open
from ._state import OWN_KEY, OWN_TABLE, StoreState

_DATA_FORMAT: Final = (0, 9)
READER_CHECKS: Final = 100  # commits between two looks for dead readers
KNOWN_FENCES: Final = 10_000  # rows, of a few hundred bytes


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to open an environment; `LmdbStore` documents them."""

    level: Literal["durable", "relaxed"]
    map_size: int
    map_limit: int
    create: bool
    max_value: int
    verify: Literal["unclean", "always"]
    debug: bool


@final
class LmdbEngine:
    """The `Engine` on LMDB. Everything here is the writer thread's.

    Args:
        directory: Where the store lives, an absolute path.
        options: How to open it.
    """

    def __init__(self, directory: Path, options: EngineOptions) -> None:
        self.directory = directory
        self.options = options
        self.name = str(directory)
        self.head = 0  # last log sequence that is committed
        self._data = directory / DATA_FILE
        self._opened: tuple[Env, Owner, StoreState] | None = None
        self._names: Names | None = None
        self._commits = 0
        self._short = False  # whether the last commit found no room
        # Fences as the last bundles left them, by table: what this engine wrote itself, and nobody
        # else can have changed, need not be read again.
        self.fences: dict[str, dict[bytes, bytes]] = {}

    @property
    def env(self) -> Env:
        """The open environment; the loop reads through it."""
        return self._parts()[0]

    def open(self) -> int:
        """See `Engine.open`.

        Raises:
            PathRefused, StoreOwned, StoreDamaged, FormatTooNew, WrongEngine, StoreFull: See there.
        """
        try:
            return self._open()
        except OSError as error:
            reason = error.strerror or str(error)
            raise cannot_open(self.directory, error.errno, reason) from error

    def _open(self) -> int:
        prepare(self.directory, create=self.options.create)
        identity = read_identity(self.directory)
        if identity is None and not self.options.create and not self._data.exists():
            raise PathRefused(
                f"there is no store in {self.name!r}; check the path (create=True would make one)",
                path=self.name,
                reason="there is no store",
            )
        owner = Owner.acquire(self.directory)
        try:
            env = self._map(owner, identity)
            try:
                state = self._boot(env, identity)
                if identity is None:
                    write_identity(self.directory, Identity(state.format, state.uuid))
                self._names = Names(self.directory, self._named_inodes(owner))
            except BaseException:
                env.close()
                raise
        except BaseException:
            owner.release()
            raise
        self._opened = (env, owner, state)
        return state.epoch

    def begin(self) -> LmdbBatch:
        """See `Engine.begin`."""
        return LmdbBatch(self, self.env)

    def fail(self, error: StoreLost) -> None:
        """See `Engine.fail`."""
        self.env.failed = error

    def close(self, *, clean: bool) -> None:
        """See `Engine.close`."""
        env, owner, _ = self._parts()
        try:
            try:
                if clean:
                    env.sync()
            finally:
                env.close()
            if clean and self._names_hold():
                with suppress(OSError):  # unmarked, it is verified when it is opened next
                    owner.mark(stamp_of(self._data))
        finally:
            owner.release()

    def found_full(self, env: Env) -> None:
        """Note that a commit found no room, and make sure that only its data did not.

        Raises:
            StoreLost: It was the meta page, so nobody knows what is on the disk. LMDB begins
                nothing any more then, which is the one sign it gives.
        """
        env.begin().abort()
        self._short = True

    def found_room(self, env: Env) -> None:
        """Flush once more if the commit before this one found no room.

        The failed flush may have dropped the meta page that level ``relaxed`` left in flight, and
        the kernel counts it as written. Two commits on, its page would be the only one to fall
        back on.
        """
        if self._short:
            env.sync()
            self._short = False

    def count_commit(self, env: Env) -> None:
        """Look for dead readers once in a while: a killed tool must not make the file grow."""
        self._commits += 1
        if self._commits % READER_CHECKS == 0:
            env.clear_readers()

    def check_names(self) -> None:
        """Refuse to go on if a file of the store was renamed, replaced or removed meanwhile.

        Raises:
            StoreLost: The commit went into a file that the path no longer names.
        """
        if not self._names_hold():
            raise StoreLost(
                f"a file of store {self.name!r} was replaced or removed while it was open: what "
                f"was committed just now may be lost. Put it back, reopen, and read.",
                store=self.name,
            )

    def head_row(self, head: int) -> Writes:
        """Return the write of the log's head, for a commit that deletes from the log.

        The head is the last key of the log otherwise. Written down, no number is given out twice
        even when the last rows of the log are deleted.
        """
        return _own_row(replace(self._parts()[2], head=head))

    def _parts(self) -> tuple[Env, Owner, StoreState]:
        assert self._opened is not None
        return self._opened

    def _map(self, owner: Owner, identity: Identity | None) -> Env:
        """Verify the file, unless its last owner closed it as it is now; then map it."""
        exists = has_data(self.directory, identity)
        clean = exists and owner.clean == stamp_of(self._data)
        if exists and (self.options.verify == "always" or not clean):
            problems = problems_of(self._data)
            if problems:
                more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
                raise damaged(self.directory, DATA_FILE, f"{problems[0]}{more}")
        owner.mark(None)
        if not exists:
            self._data.unlink(missing_ok=True)  # of a creation that was cut short
        env = Env.open(
            self.directory,
            map_size=self.options.map_size,
            durable=self.options.level == "durable",
            fresh=not exists,
        )
        if env.data_format != _DATA_FORMAT:
            env.close()
            raise wrong_engine(self.directory)
        return env

    def _boot(self, env: Env, identity: Identity | None) -> StoreState:
        """Read or make the store's own row, bump the epoch, find the log's head: one commit."""
        found = None if env.is_blank() else self._read_own(env)
        if found is None:
            env.sync()  # LMDB does not flush what it makes: a power cut could leave rows alone
            uuid = str(uuid4()) if identity is None else identity.uuid
            state = StoreState(FORMAT, uuid, f"trouper {__version__}", 1, 0)
        else:
            check_format(self.directory, found.format)
            if identity is not None and identity.uuid != found.uuid:
                raise damaged(
                    self.directory,
                    DATA_FILE,
                    f"it holds store {found.uuid}, but {identity.uuid} lives in this directory",
                )
            state = replace(found, epoch=found.epoch + 1)
        self._commit_state(env, state)
        return state

    def _commit_state(self, env: Env, state: StoreState) -> None:
        while True:
            try:
                txn = env.open_tables((*TABLES, OWN_TABLE))
                try:
                    txn.write(_own_row(state))
                    self.head = max(state.head, log_sequence(txn.last_key("log") or b""))
                    txn.commit()
                except BaseException:
                    txn.abort()
                    raise
            except MapFull:
                env.grow(self.options.map_limit)
            else:
                break
        env.sync()

    def _read_own(self, env: Env) -> StoreState:
        frame = env.peek(OWN_TABLE, OWN_KEY)
        if frame is None:
            raise damaged(self.directory, DATA_FILE, "an LMDB file, but not one of a trouper store")
        try:
            return from_frame(OWN_TABLE, OWN_KEY, frame, StoreState)
        except CorruptRecord as error:
            raise damaged(self.directory, "the store's own row", str(error)) from error

    def _named_inodes(self, owner: Owner) -> dict[str, Inode]:
        found = {LOCK_FILE: owner.inode()}
        for name in (DATA_FILE, MAP_LOCK_FILE):
            seen = (self.directory / name).stat()
            found[name] = (seen.st_dev, seen.st_ino)
        return found

    def _names_hold(self) -> bool:
        assert self._names is not None
        return self._names.hold()


@final
class LmdbBatch:
    """One write transaction; it keeps the batch's writes, to replay them into a larger map."""

    def __init__(self, engine: LmdbEngine, env: Env) -> None:
        self.size = 0
        self._engine = engine
        self._env = env
        self._head = engine.head
        self._kept: list[Writes] = []
        self._txn = env.begin()

    def run(self, unit: Unit[Any]) -> Outcome[Any]:
        """See `Batch.run`."""
        debug = self._engine.options.debug
        sealed = None if debug else sealed_writes(unit, self._txn)
        if sealed is not None:
            self.size += sealed[1]
            self._forget(sealed[0])
            self._keep(sealed[0])
            return Value(None)
        result, writes, tx = run_unit(unit, self._begin, twice=debug)
        if writes:
            self._forget(writes)
            self._head = tx.head
            self.size += tx.size
            self._keep(writes)
            if None in writes.get("log", {}).values():
                self._keep(self._engine.head_row(tx.head))
        return result

    def run_all(self, units: Sequence[SealedUnit]) -> list[BaseException | None]:
        """See `Batch.run_all`."""
        is_debug = self._engine.options.debug
        together = None if is_debug else bundled_writes(units, self._holds)
        if together is not None and self.size + together[1] < MAX_BATCH_BYTES:
            self.size += together[1]
            self._keep(together[0])
            known = self._engine.fences.setdefault(units[0].table, {})
            known.update([unit.rows[-1] for unit in units])  # each replaces its fence
            if len(known) > KNOWN_FENCES:
                known.clear()
            return [None] * len(units)
        errors: list[BaseException | None] = []
        for unit in units:
            verdict = self.run(unit)
            errors.append(verdict.error if isinstance(verdict, Error) else None)
            if self.size >= MAX_BATCH_BYTES:
                break
        return errors

    def commit(self) -> None:
        """See `Batch.commit`."""
        while True:
            try:
                self._txn.commit()
            except MapFull:
                self._regrow()
            except StoreFull:
                self._engine.found_full(self._env)
                raise
            else:
                break
        if self._kept:
            self._engine.found_room(self._env)
            self._engine.check_names()
            self._engine.count_commit(self._env)
        self._engine.head = self._head

    def abort(self) -> None:
        """See `Batch.abort`."""
        self._engine.fences.clear()
        self._txn.abort()

    def _holds(self, table: str, rows: list[SealedRow]) -> bool:
        known = self._engine.fences.get(table, {})
        others = [row for row in rows if known.get(row[0]) != row[1]]
        return not others or self._txn.holds(table, others)

    def _begin(self) -> OverlayTx:
        return OverlayTx(self._txn, self._head, self._engine.options.max_value)

    def _forget(self, writes: Writes) -> None:
        for table, known in self._engine.fences.items():
            for key in writes.get(table, ()):
                known.pop(key, None)

    def _keep(self, writes: Writes) -> None:
        self._kept.append(writes)
        try:
            self._txn.write(writes)
        except MapFull:
            self._regrow()

    def _regrow(self) -> None:
        """Abort, grow and replay what the batch wrote so far, in order, until it fits."""
        while True:
            self._txn.abort()
            self._env.grow(self._engine.options.map_limit)
            self._txn = self._env.begin()
            try:
                for writes in self._kept:
                    self._txn.write(writes)
            except MapFull:
                continue
            return


def _own_row(state: StoreState) -> Writes:
    writes = Writes()
    writes[OWN_TABLE] = {OWN_KEY: to_frame(OWN_KEY, state)}
    return writes

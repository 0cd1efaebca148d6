"""Compaction: exchange a store's data file for a copy without free pages, while nobody has it."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import StoreOwned
from ._copying import cannot_write, silent, sync_directory, write_copy
from ._owner import Owner, stamp_of
from ._place import DATA_FILE, MAP_LOCK_FILE, Identity, place_of, prepare
from ._reading import require_sound, require_store, state_in
from ._shortage import cannot_open
from ._snapshot import Snapshot
from ._verify import Progress

DRAFT: Final = "compact.partial"
_FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: sizes of the data file in bytes, and how many rows it holds."""

    path: str
    before: int
    after: int
    rows: int


def compact(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Compacted:
    """Give the free pages of a store back to the file system.

    The copy is verified, then takes the old file's name in one step. Killed at any point, the store
    is either as it was or compacted; what is left over is removed by the next compaction.

    Args:
        path: The store's directory.
        progress: Told how many bytes are written, of about how many. What it raises ends the
            compaction, and the store is as it was.

    Raises:
        StoreOwned: A process has it open, or reads it.
        PathRefused: There is no store, or no way to write there.
        StoreFull: No room for the copy beside the old file.
        StoreDamaged, WrongEngine, FormatTooNew: There is no sound store to be compacted.
    """
    directory = place_of(path)
    prepare(directory, create=False)
    try:
        require_store(directory)  # before anything is written there
        owner = Owner.acquire(directory)
        try:
            return _compact(directory, owner, progress or silent)
        finally:
            owner.release()
    except OSError as error:
        raise cannot_open(directory, error.errno, error.strerror or str(error)) from error


def _compact(directory: Path, owner: Owner, progress: Progress) -> Compacted:
    data, draft = directory / DATA_FILE, directory / DRAFT
    require_store(directory)  # again: an owner may have come and gone
    _require_unread(directory)
    require_sound(data)
    before = data.stat().st_size
    try:
        shutil.rmtree(draft, ignore_errors=True)  # of a compaction that was killed
        draft.mkdir(0o700)
    except OSError as error:
        raise cannot_write(draft, error) from error
    try:
        with Snapshot(data, shared=False) as snapshot:
            state = state_in(snapshot, directory)
            identity = Identity(state.format, state.uuid)
            report = write_copy(snapshot.copy, draft, identity, before, progress)
        owner.mark(None)
        # Pages that a reader saw are recycled by commit numbers, and the copy counts from 1: who
        # still had the old lock file mapped must never meet the new data. So that goes first.
        (directory / MAP_LOCK_FILE).unlink(missing_ok=True)
        (draft / DATA_FILE).replace(data)
        sync_directory(directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    stamp = stamp_of(data)
    owner.mark(stamp)
    return Compacted(str(directory), before, stamp.size, sum(count for _, count in report.rows))


def _require_unread(directory: Path) -> None:
    """Refuse while a process has the file mapped, be it to read.

    Raises:
        StoreOwned: It has; ``pid`` names it.
    """
    try:
        fd = os.open(directory / MAP_LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # LMDB holds a shared lock on the first byte of its lock file for as long as it maps a store
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    finally:
        os.close(fd)
    if kind != fcntl.F_UNLCK:
        raise StoreOwned(
            f"store {str(directory)!r} is being read by process {pid}; wait until it is done, and "
            f"retry",
            pid=pid,
            path=str(directory),
        )

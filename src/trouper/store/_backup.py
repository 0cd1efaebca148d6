"""Backup: a verified copy of a store that may be in use, under its name only once it is whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import PathRefused
from ._copying import Copy, cannot_write, silent, sync_directory, write_copy
from ._place import DATA_FILE, Identity, place_of
from ._reading import snapshot_of
from ._verify import Progress

_SUFFIX: Final = ".partial"
_LOCK: Final = "partial.lock"


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made.

    Attributes:
        path: Its directory: a store, to be opened as one or to be copied where one is missing.
        uuid: Of the store it was made from.
        epoch: How often that had been opened.
        bytes: Size of its data file.
        rows: How many rows it holds.
    """

    path: str
    uuid: str
    epoch: int
    bytes: int
    rows: int


def backup(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> Backup:
    """Copy a store as its last commit left it, whether or not a process has it open.

    The copy is one state, without free pages, verified, readable by its owner only, and appears
    under its name whole or not at all. A process that has the store open goes on meanwhile; in
    that process use `LmdbStore.backup`.

    Args:
        path: The store's directory.
        target: Where to; must not exist.
        progress: Told how many bytes are written, of about how many. What it raises ends the
            backup, and nothing is left of it.

    Raises:
        PathRefused: There is no store, or something at `target`, or no way to write there.
        StoreOwned: This process has the store open.
        StoreFull: No room for the copy.
        StoreDamaged, WrongEngine, FormatTooNew: There is no sound store to be copied.
    """
    with snapshot_of(path) as source:
        return back_up(source.snapshot.copy, source.identity, source.data, target, progress)


def back_up(
    copy: Copy,
    identity: Identity,
    data: Path,
    target: str | os.PathLike[str],
    progress: Progress | None,
) -> Backup:
    """Make a backup of what `copy` writes; see `backup`."""
    goal = place_of(target)
    if goal.resolve().is_relative_to(data.parent.resolve()):
        raise PathRefused(
            f"a backup does not lie in its store, {str(data.parent)!r}; give another path",
            path=str(goal),
            reason="it lies in the store",
        )
    with _draft(goal) as draft:
        report = write_copy(copy, draft, identity, data.stat().st_size, progress or silent)
        size = (draft / DATA_FILE).stat().st_size
        try:
            (draft / _LOCK).unlink()
            sync_directory(draft)
            draft.rename(goal)
            sync_directory(goal.parent)
        except OSError as error:
            raise cannot_write(goal, error) from error
    return Backup(str(goal), report.uuid, report.epoch, size, sum(n for _, n in report.rows))


@contextmanager
def _draft(goal: Path) -> Generator[Path]:
    """Make a directory beside `goal` that is gone afterwards, unless it was given that name."""
    if os.path.lexists(goal):
        raise PathRefused(
            f"there is something at {str(goal)!r} already, and a backup overwrites nothing; give "
            f"another path",
            path=str(goal),
            reason="it exists",
        )
    try:
        _sweep(goal)
        draft = Path(tempfile.mkdtemp(_SUFFIX, f".{goal.name}.", goal.parent))
    except OSError as error:
        raise cannot_write(goal, error) from error
    fd = -1
    try:
        try:
            fd = os.open(draft / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with suppress(OSError):  # a file system without flock: then no draft is ever swept
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise cannot_write(goal, error) from error
        yield draft
    finally:
        if fd >= 0:
            os.close(fd)
        shutil.rmtree(draft, ignore_errors=True)


def _sweep(goal: Path) -> None:
    """Remove what killed backups to the same path left; a live one holds its lock."""
    for draft in goal.parent.glob(f".{_escaped(goal.name)}.*{_SUFFIX}"):
        with suppress(OSError):
            fd = os.open(draft / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(draft, ignore_errors=True)
            finally:
                os.close(fd)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)

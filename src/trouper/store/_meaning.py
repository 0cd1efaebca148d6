"""What an error of LMDB means to a caller: pure rules from its number to one of ours."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from ..errors import PathRefused, StoreDamaged, StoreFull, StoreLost
from ._shortage import cannot_open, is_full, is_shortage

NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_READERS_FULL: Final = -30790  # of LMDB
NO_ACCESS: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


def at_open(directory: Path, error: Exception) -> StoreFull | PathRefused | StoreDamaged:
    """Return what an error at open means to the one who opens."""
    name = str(directory)
    code = _code(error)
    if code in NO_ROOM:
        return StoreFull(
            f"no room on the disk to open store {name!r}; make room and retry", store=name
        )
    if code in NO_ACCESS:
        return PathRefused(
            f"store {name!r} cannot be written ({error}); check owner and mode of its files, and "
            f"that the file system is not read-only",
            path=name,
            reason=str(error),
        )
    if code == _READERS_FULL:
        return _crowded(name)
    if is_shortage(code):
        return cannot_open(directory, code, os.strerror(code))
    return as_damaged(name, error)


def at_commit(name: str, error: Exception) -> StoreFull | StoreLost:
    """Return what an error of a write or a commit means: room is wanting, or outcome unknown."""
    code = _code(error)
    # The call that fills a disk writes what still fits: LMDB calls that an I/O error.
    if code in NO_ROOM or (code == errno.EIO and is_full(Path(name))):
        return StoreFull(
            f"no room on the disk of store {name!r}: nothing of this unit was written. "
            f"Reads go on; make room and retry.",
            store=name,
        )
    return as_lost(name, error)


def at_read(name: str, error: Exception) -> StoreFull | StoreDamaged:
    """Return what an error of a read means: too many read it, or it cannot be read."""
    return _crowded(name) if _code(error) == _READERS_FULL else as_damaged(name, error)


def as_damaged(name: str, error: Exception) -> StoreDamaged:
    """Return the error of a read that LMDB could not do."""
    return StoreDamaged(
        f"store {name!r} cannot be read ({error}). Nothing was changed; restore a backup, or move "
        f"the directory away to start anew.",
        path=name,
        where="data.mdb",
    )


def as_lost(name: str, error: Exception) -> StoreLost:
    """Return the error of a commit whose outcome nobody knows."""
    return StoreLost(
        f"a commit to store {name!r} failed ({error}): outcome unknown. Reopen the store; what it "
        f"holds then decides.",
        store=name,
    )


def _crowded(name: str) -> StoreFull:
    return StoreFull(
        f"store {name!r} has as many readers as it can have. Let some of the processes that read "
        f"it end, and retry.",
        store=name,
    )


def _code(error: Exception) -> int:
    return getattr(error, "code", 0) or 0

"""A shortage is no damage: a machine out of descriptors or memory says nothing about a file.

Who reads "damaged" restores a backup over a sound store, so everything that opens one asks here
first.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Final

from ..errors import PathRefused

_ADVICE: Final = {
    errno.EMFILE: "close files, or raise the limit of open files (ulimit -n), and retry",
    errno.ENFILE: "close files of any process, and retry",
    errno.ENOMEM: "free memory, or raise its limit (ulimit -v), and retry",
    errno.EAGAIN: "retry when there is room",
}

_LITTLE: Final = 64 * 1024  # less is no room: a commit takes some pages


def is_shortage(code: int | None) -> bool:
    """Tell whether an error number means that the machine ran out of something."""
    return code in _ADVICE


def is_full(directory: Path) -> bool:
    """Tell whether files in a directory can grow no more, for want of disk or by a limit."""
    try:
        disk = os.statvfs(directory)
        size = max(file.stat().st_size for file in directory.iterdir())
    except (OSError, ValueError):
        return False  # gone, or empty: whatever failed, it was not for want of room
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = min(disk.f_bavail * disk.f_frsize, limit - size if limit >= 0 else _LITTLE)
    return room < _LITTLE


def cannot_open(directory: Path, code: int | None, reason: str) -> PathRefused:
    """Return the refusal of a store that the system did not let us open, with what helps."""
    advice = _ADVICE.get(code or 0, "the store was left as it is; mend that, and retry")
    return PathRefused(
        f"no store can be opened at {str(directory)!r}: {reason}; {advice}",
        path=str(directory),
        reason=reason,
    )

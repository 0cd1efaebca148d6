"""Whether the path of a store still names the files that are open."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, final

Inode: TypeAlias = tuple[int, int]  # device and number

FINE: Final = 0.1
"""Seconds in which a file system's clock has certainly moved on."""

COARSE: Final = 5.0
"""The same for one whose times are whole seconds."""

TRUST: Final = 1.0
"""Seconds until every name is looked up again all the same: not every file system keeps times."""


@final
class Names:
    """The files of an open store by their names, looked up after each commit.

    Making, renaming and removing a file changes the time of its directory. While that stands, the
    names in it are what they were, and one look will do. The time comes from a clock that ticks: it
    is trusted when it has stood for longer than a tick, since what happens from then on shows.
    Where a name is a symbolic link, another directory decides, and every name is looked up each
    time. A mount over a file changes no directory, and shows after `TRUST`.

    Args:
        directory: The store's directory, by its full path.
        inodes: What each name in it has to be.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        directory: Path,
        inodes: Mapping[str, Inode],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = str(directory)
        self._inodes = {str(directory / name): inode for name, inode in inodes.items()}
        self._clock = clock
        self._seen: tuple[int, ...] = ()  # the directory's times at the last look into it
        self._since = 0.0  # it was first seen like that before this
        self._trusted_until = 0.0  # while they stand

    def hold(self) -> bool:
        """Tell whether every name still leads to its file."""
        begin = self._clock()
        try:
            found = os.stat(self._directory)
            seen = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
            if seen == self._seen and begin < self._trusted_until:
                return True
            is_plain = True
            for path, inode in self._inodes.items():
                found = os.lstat(path)
                if stat.S_ISLNK(found.st_mode):
                    is_plain, found = False, os.stat(path)
                if (found.st_dev, found.st_ino) != inode:
                    return False
        except OSError:
            return False
        if seen != self._seen:
            self._seen, self._since, self._trusted_until = seen, self._clock(), 0.0
        elif is_plain and begin - self._since > (FINE if seen[0] % 1_000_000_000 else COARSE):
            self._trusted_until = begin + TRUST
        return True

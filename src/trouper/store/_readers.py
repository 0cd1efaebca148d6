"""Who reads a store: each reader keeps the pages that it can see from being used again."""

from __future__ import annotations

import os
from typing import NamedTuple


class Reader(NamedTuple):
    """Somebody who reads a store right now, and at which commit."""

    pid: int
    commit: int


def readers_in(listing: str) -> list[Reader]:
    """Return the readers in LMDB's own listing, this process left out."""
    found: list[Reader] = []
    for line in listing.splitlines():
        match line.split():
            # a slot with "-" for its commit is only kept for the next read
            case [pid, _, commit] if pid.isdigit() and commit.isdigit():
                if int(pid) != os.getpid():
                    found.append(Reader(int(pid), int(commit)))
            case _:
                pass
    return found


def hint(listing: str) -> str:
    """Return what to say of readers to one whose store is full; nothing if there are none."""
    pids = sorted({reader.pid for reader in readers_in(listing)})
    if not pids:
        return ""
    return f" Process {', '.join(map(str, pids))} reads it, which keeps old pages: let it end."

"""Read a store from outside: beside its owner if there is one, else with owners kept away."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from ..errors import CorruptRecord, PathRefused, StoreOwned
from ._lmdb import problems_of
from ._owner import unowned, was_closed
from ._place import (
    DATA_FILE,
    Identity,
    check_directory,
    damaged,
    has_data,
    place_of,
    read_identity,
)
from ._records import from_frame
from ._shortage import cannot_open
from ._snapshot import Snapshot
from ._state import OWN_KEY, OWN_TABLE, StoreState


class Source(NamedTuple):
    """A store that is being read.

    Attributes:
        data: Its data file.
        state: The store's own row.
        owner: Process that has it open meanwhile; None: nobody has, or may.
        snapshot: What is read.
    """

    data: Path
    state: StoreState
    owner: int | None
    snapshot: Snapshot

    @property
    def identity(self) -> Identity:
        """Return which store it is."""
        return Identity(self.state.format, self.state.uuid)


def require_store(directory: Path) -> Path:
    """Return the data file of the store in a directory; nothing is mapped or written for it.

    Raises:
        PathRefused: There is none.
        StoreDamaged, WrongEngine, FormatTooNew: What is there is none for us.
    """
    check_directory(directory, create=False)
    if not has_data(directory, read_identity(directory), writable=False):
        raise PathRefused(
            f"there is no store in {str(directory)!r}; check the path",
            path=str(directory),
            reason="there is no store",
        )
    return directory / DATA_FILE


@contextmanager
def snapshot_of(path: str | os.PathLike[str]) -> Generator[Source]:
    """Open a snapshot of a store.

    Without a live owner its pages are verified first, unless it was closed as it is now.

    Raises:
        PathRefused: There is no store that could be read.
        StoreOwned: This process has it open itself, and LMDB maps a file once per process.
        StoreDamaged, WrongEngine, FormatTooNew: There is none that can be mapped safely.
    """
    directory = place_of(path)
    with ExitStack() as stack:
        try:
            data = require_store(directory)
            owner = owner_of(directory, stack)
            if owner is None and not was_closed(directory, data):
                require_sound(data)
            snapshot = stack.enter_context(Snapshot(data, shared=owner is not None))
            state = state_in(snapshot, directory)
        except OSError as error:
            reason = error.strerror or str(error)
            raise cannot_open(directory, error.errno, reason) from error
        yield Source(data, state, owner, snapshot)


def require_sound(data: Path) -> None:
    """Refuse a data file that must not be mapped.

    Raises:
        StoreDamaged: See there.
    """
    if problems := problems_of(data):
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise damaged(data.parent, DATA_FILE, f"{problems[0]}{more}")


def state_in(snapshot: Snapshot, directory: Path) -> StoreState:
    """Return the store's own row.

    Raises:
        StoreDamaged: It is missing or unreadable.
        FormatTooNew: See there.
    """
    frame = snapshot.get(OWN_TABLE, OWN_KEY)
    if frame is None:
        raise damaged(directory, DATA_FILE, "an LMDB file, but not one of a trouper store")
    try:
        return from_frame(OWN_TABLE, OWN_KEY, frame, StoreState)
    except CorruptRecord as error:
        raise damaged(directory, "the store's own row", str(error)) from error


def owner_of(directory: Path, stack: ExitStack) -> int | None:
    """Return the live owner's pid (0 if unknown); None: there is none, nor while `stack` lasts."""
    try:
        stack.enter_context(unowned(directory))
    except StoreOwned as error:
        if error.pid == os.getpid():
            raise
        return error.pid
    return None

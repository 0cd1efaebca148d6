"""Read the rows of a store from outside, also of one that another process has open."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import StoreError
from ._check import Rows, SnapshotRows
from ._reading import snapshot_of


@dataclass(frozen=True, slots=True)
class Reading:
    """One committed state of a store.

    Attributes:
        rows: Its rows.
        owner: Process that has it open; 0 if that cannot be told, None if nobody has.
        commit: Number of the commit that is seen.
    """

    rows: Rows
    owner: int | None
    commit: int


@contextmanager
def read(
    path: str | os.PathLike[str], *, broken: Callable[[StoreError], None] = lambda error: None
) -> Generator[Reading]:
    """Open one committed state of a store to be read; nothing is written, and nobody has to close.

    Keep it short beside an owner: as long as it is open, the pages that it sees cannot be used for
    new rows.

    Args:
        path: The store's directory.
        broken: Told of each row that cannot be read and is left out.

    Raises:
        PathRefused: There is no store.
        StoreOwned: This process has it open itself: read from that store.
        StoreDamaged, WrongEngine, FormatTooNew: There is none that can be read.
    """
    with snapshot_of(path) as source:
        rows = SnapshotRows(source.snapshot, broken)
        yield Reading(rows, source.owner, source.snapshot.commit)

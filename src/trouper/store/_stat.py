"""What there is to know about a store without reading its rows."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ._readers import Reader
from ._reading import snapshot_of


@dataclass(frozen=True, slots=True)
class Stat:
    """A store in numbers; sizes are bytes.

    Attributes:
        path: Its directory.
        uuid: Which store it is.
        format: Version of its layout.
        created_by: The program version that made it.
        epoch: How often it was opened.
        commit: Number of the last commit.
        owner: Process that has it open; 0 if that cannot be told, None if nobody has.
        rows: By table, how many rows.
        file: Size of the data file.
        used: Of it, what holds rows; the rest is free for rows to come.
        map: Address space it was given; see `LmdbStore`.
        readers: Processes that read it now, this one left out, and from which commit on; what they
            can see is not free for new rows. Known only while it has an owner.
    """

    path: str
    uuid: str
    format: int
    created_by: str
    epoch: int
    commit: int
    owner: int | None
    rows: dict[str, int]
    file: int
    used: int
    map: int
    readers: tuple[Reader, ...]


def stat(path: str | os.PathLike[str]) -> Stat:
    """Return what there is to know about a store, whether or not a process has it open.

    Raises:
        PathRefused: There is no store.
        StoreOwned: This process has it open itself.
        StoreDamaged, WrongEngine, FormatTooNew: There is none that can be read.
    """
    with snapshot_of(path) as source:
        snapshot, state = source.snapshot, source.state
        room = snapshot.room()
        return Stat(
            path=str(source.data.parent),
            uuid=state.uuid,
            format=state.format,
            created_by=state.created_by,
            epoch=state.epoch,
            commit=snapshot.commit,
            owner=source.owner,
            rows=snapshot.tables,
            file=source.data.stat().st_size,
            used=(room.tables + 2) * room.page_size,  # two pages of LMDB's own
            map=room.map_size,
            readers=tuple(snapshot.readers()) if source.owner is not None else (),
        )

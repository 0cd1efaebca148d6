"""trouper's store without groups: records that are committed at once share a flush."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trouper import LmdbStore
from trouper.store import Store, Tx, record

from .disk import VALUE, WARM, Marked, Sample, place, row_key
from .gate import on_trio


@record("bench.bare")
@dataclass(frozen=True, slots=True)
class Entry:
    value: bytes


async def _commit(store: Store, number: int) -> None:
    def unit(tx: Tx) -> None:
        tx.put("record", row_key("bench", number), Entry(VALUE))

    await store.commit(unit)


async def together(ops: int, records: int) -> Sample:
    """Commit so many records, each from a task of its own, and wait for all of them."""

    async def all_of(first: int) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(first, first + records):
                nursery.start_soon(_commit, store, number)

    with place() as where:
        async with LmdbStore(where) as store:
            for number in range(WARM):
                await all_of(number * records)
            with Marked() as watch:
                for number in range(WARM, WARM + ops):
                    await all_of(number * records)
    return watch.sample(ops)


BENCHES = {"group": on_trio(together)}

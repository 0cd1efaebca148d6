"""Units of sealed rows: written without being run while their fence stands, run otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from outcome import Outcome

from trouper.errors import FenceMoved, StoreDamaged
from trouper.store import LmdbStore, MemoryStore, Sealed, SealedUnit, Store, Tx
from trouper.store._overlay import OverlayTx, run_unit, sealed_writes


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path)


class Counts(SealedUnit):
    """Writes the next number under ``head``, and a row beside it."""

    __slots__ = ("runs",)

    def __init__(self, store: Store, row: Any, number: int, fence: int | None) -> None:
        super().__init__("record")
        self.runs = 0
        self.rows = [
            store.seal(b"head", row("head", number)),
            store.seal(b"r%d" % number, row("r")),
        ]
        self.fence = None if fence is None else store.seal(b"head", row("head", fence))

    def __call__(self, tx: Tx) -> None:
        self.runs += 1
        found: Any = tx.get("record", b"head", object)
        if found is not None and found.number != self.rows_before():
            raise FenceMoved(f"head is at {found.number}")
        for row in self.rows:
            tx.put("record", row[0], Sealed(*row))
        for key in self.forgotten or ():
            tx.delete("record", key)

    def rows_before(self) -> int:
        return int(self.rows[1][0][1:]) - 1


def keys(store: Store, row: Any) -> list[bytes]:
    return [key for key, _ in store.scan("record", b"", row)]


async def test_behind_a_fence_that_stands_it_is_written_without_being_run(
    store: Store, row: Any
) -> None:
    async with store:
        await store.commit(first := Counts(store, row, 1, None))
        await store.commit(second := Counts(store, row, 2, 1))
        assert (first.runs, second.runs) == (1, 0)
        assert keys(store, row) == [b"head", b"r1", b"r2"]
        assert store.get("record", b"head", row) == row("head", 2)


async def test_behind_a_fence_that_moved_it_runs_and_says_so(store: Store, row: Any) -> None:
    async with store:
        await store.commit(Counts(store, row, 1, None))
        await store.commit(Counts(store, row, 2, 1))
        late = Counts(store, row, 2, 1)
        with pytest.raises(FenceMoved):
            await store.commit(late)
        assert late.runs == 1
        assert store.get("record", b"head", row) == row("head", 2)


async def test_it_sees_the_units_before_it_in_its_batch(store: Store, row: Any) -> None:
    verdicts: list[Outcome[Any]] = []
    done = trio.Event()

    def last(verdict: Outcome[Any]) -> None:
        verdicts.append(verdict)
        done.set()

    async with store:
        await store.commit(Counts(store, row, 1, None))
        units = [Counts(store, row, 2, 1), Counts(store, row, 3, 2), Counts(store, row, 3, 2)]
        for unit in units[:-1]:
            store.submit(unit, verdicts.append)
        store.submit(units[-1], last)
        await done.wait()
        assert [unit.runs for unit in units] == [0, 0, 1]
        with pytest.raises(FenceMoved):
            verdicts[-1].unwrap()
        assert keys(store, row) == [b"head", b"r1", b"r2", b"r3"]


class Unreadable:
    """A view that LMDB cannot read."""

    def read(self, table: str, key: bytes) -> bytes | None:
        raise StoreDamaged("page 7 is not there")

    def items(self, *_: object) -> list[tuple[bytes, bytes]]:
        raise NotImplementedError

    def keys(self, *_: object) -> list[bytes]:
        raise NotImplementedError


def test_a_fence_that_cannot_be_read_is_an_error_of_its_unit_alone(row: Any) -> None:
    unit = Counts(MemoryStore(), row, 2, 1)
    view = Unreadable()
    assert sealed_writes(unit, view) is None
    result, writes, _ = run_unit(unit, lambda: OverlayTx(view, 0, 1000), twice=False)
    assert writes == {}
    with pytest.raises(StoreDamaged):
        result.unwrap()


async def test_what_it_forgets_is_deleted(store: Store, row: Any) -> None:
    async with store:
        await store.commit(Counts(store, row, 1, None))
        unit = Counts(store, row, 2, 1)
        unit.forgotten = [b"r1"]
        await store.commit(unit)
        assert unit.runs == 0
        assert keys(store, row) == [b"head", b"r2"]


async def test_in_debug_mode_it_runs_twice_as_any_unit(tmp_path: Path, row: Any) -> None:
    async with LmdbStore(tmp_path, debug=True) as store:
        await store.commit(Counts(store, row, 1, None))
        await store.commit(unit := Counts(store, row, 2, 1))
        assert unit.runs == 2


async def test_it_is_replayed_when_the_map_grows(tmp_path: Path, row: Any) -> None:
    async with LmdbStore(tmp_path, map_size=1024**2) as store:
        await store.commit(Counts(store, row, 1, None))
        for number in range(2, 30):
            unit = Counts(store, row, number, number - 1)
            unit.rows.append(store.seal(b"big%d" % number, row("x" * 100_000)))
            await store.commit(unit)
            assert unit.runs == 0
        assert len(keys(store, row)) == 1 + 29 + 28

"""Sealed units that are handed over at once: the same as one after the other, on both stores."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lmdb
import pytest
import trio

from trouper.errors import FenceMoved, StoreClosed, StoreFull, StoreLost
from trouper.store import LmdbStore, MemoryStore, Sealed, SealedUnit, Store, Tx, _engine, _lmdb

Errors = list[BaseException | None]


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path)


class Step(SealedUnit):
    """Takes the counter under a key from one number to the next, and writes a row beside it."""

    __slots__ = ("key", "number", "runs")

    def __init__(self, store: Store, row: Any, key: bytes, number: int, size: int = 1) -> None:
        super().__init__("record")
        self.key, self.number, self.runs = key, number, 0
        self.rows = [
            store.seal(b"%s/%d" % (key, number), row("x" * size)),
            store.seal(key, row("head", number)),
        ]
        self.fence = None if number == 1 else store.seal(key, row("head", number - 1))

    def __call__(self, tx: Tx) -> None:
        self.runs += 1
        found: Any = tx.get("record", self.key, object)
        if (0 if found is None else found.number) != self.number - 1:
            raise FenceMoved(f"{self.key!r} is not at {self.number - 1}")
        for row in self.rows:
            tx.put("record", row[0], Sealed(*row))
        for key in self.forgotten or ():
            tx.delete("record", key)


async def told(store: Store, units: Sequence[SealedUnit]) -> Errors:
    """Hand units over and return what they came to, once all of it is told."""
    parts = await told_in_parts(store, units)
    return [error for part in parts for error in part]


async def told_in_parts(store: Store, units: Sequence[SealedUnit]) -> list[Errors]:
    parts: list[Errors] = []
    done = trio.Event()

    def tell(part: Sequence[SealedUnit], errors: Sequence[BaseException | None]) -> None:
        assert list(part) == list(units[sum(map(len, parts)) :][: len(part)])
        parts.append(list(errors))
        if sum(map(len, parts)) == len(units):
            done.set()

    store.submit_all(units, tell)
    await done.wait()
    return parts


async def begun(store: Store, row: Any, count: int) -> list[bytes]:
    """Let so many counters stand at 1."""
    keys = [b"k%04d" % number for number in range(count)]
    assert await told(store, [Step(store, row, key, 1) for key in keys]) == [None] * count
    return keys


def numbers(store: Store, row: Any) -> list[int]:
    return [r.number for _, r in store.scan("record", b"k", row) if r.name == "head"]


async def test_behind_fences_that_stand_they_are_written_without_being_run(
    store: Store, row: Any
) -> None:
    async with store:
        keys = await begun(store, row, 50)
        units = [Step(store, row, key, 2) for key in keys]
        units[7].forgotten = [b"k0007/1"]
        assert await told(store, units) == [None] * 50
        assert {unit.runs for unit in units} == {0}
        assert numbers(store, row) == [2] * 50
        assert store.get("record", b"k0007/1", row) is None
        assert store.get("record", b"k0008/1", row) is not None


async def test_one_whose_fence_moved_takes_nothing_else_with_it(store: Store, row: Any) -> None:
    async with store:
        keys = await begun(store, row, 5)
        await store.commit(Step(store, row, keys[2], 2))
        errors = await told(store, [Step(store, row, key, 2) for key in keys])
        assert [type(error) for error in errors] == [type(None)] * 2 + [FenceMoved] + [
            type(None)
        ] * 2
        assert numbers(store, row) == [2] * 5


async def test_of_two_behind_one_fence_the_first_is_written(store: Store, row: Any) -> None:
    async with store:
        (key,) = await begun(store, row, 1)
        units = [Step(store, row, key, 2, size) for size in (10, 20)]
        errors = await told(store, [*units, Step(store, row, key, 3)])
        assert [type(error) for error in errors] == [type(None), FenceMoved, type(None)]
        beside: Any = store.get("record", b"k0000/2", row)
        assert len(beside.name) == 10
        assert numbers(store, row) == [3]


@pytest.mark.parametrize("forgets", [False, True])
async def test_one_that_moves_the_fence_of_another_comes_before_it(
    store: Store, row: Any, forgets: bool
) -> None:
    async with store:
        one, other = await begun(store, row, 2)
        first, second = Step(store, row, one, 2), Step(store, row, other, 2)
        if forgets:
            first.forgotten = [other]
        else:
            first.rows.insert(0, store.seal(other, row("head", 7)))
        errors = await told(store, [first, second])
        assert [type(error) for error in errors] == [type(None), FenceMoved]
        assert numbers(store, row) == ([2] if forgets else [2, 7])


async def test_one_that_leaves_its_fence_alone_is_written_too(store: Store, row: Any) -> None:
    async with store:
        keys = await begun(store, row, 2)
        units = [Step(store, row, key, 2) for key in keys]
        for unit in units:
            unit.rows.pop()
        assert await told(store, units) == [None, None]
        assert numbers(store, row) == [1, 1]


async def test_they_come_in_the_order_of_all_that_is_submitted(store: Store, row: Any) -> None:
    async with store:
        (key,) = await begun(store, row, 1)
        order: list[Any] = []
        store.submit(Step(store, row, key, 2), order.append)
        store.submit_all([Step(store, row, key, 3)], lambda _, errors: order.extend(errors))
        await store.commit(Step(store, row, key, 4))
        assert order[1:] == [None]
        assert numbers(store, row) == [4]


async def test_a_store_that_is_not_open_takes_none(store: Store, row: Any) -> None:
    with pytest.raises(StoreClosed):
        store.submit_all([Step(store, row, b"k", 1)], lambda units, errors: None)


async def test_in_debug_mode_each_runs_twice(tmp_path: Path, row: Any) -> None:
    async with LmdbStore(tmp_path, debug=True) as store:
        keys = await begun(store, row, 2)
        units = [Step(store, row, key, 2) for key in keys]
        await told(store, units)
        assert [unit.runs for unit in units] == [2, 2]


async def test_they_share_a_commit_up_to_its_limits(
    tmp_path: Path, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_engine, "MAX_BATCH_BYTES", 100_000)
    monkeypatch.setattr("trouper.store._writer.MAX_BATCH_BYTES", 100_000)
    async with LmdbStore(tmp_path, max_batch=20) as store:
        keys = await begun(store, row, 50)
        by_count = await told_in_parts(store, [Step(store, row, key, 2) for key in keys])
        assert [len(part) for part in by_count] == [20, 20, 10]
        large = [Step(store, row, key, 3, 30_000) for key in keys[:10]]
        by_size = await told_in_parts(store, large)
        assert [len(part) for part in by_size] == [4, 4, 2]
        assert numbers(store, row) == [3] * 10 + [2] * 40


async def test_what_found_no_room_in_a_batch_comes_before_what_is_behind_it(
    tmp_path: Path, row: Any
) -> None:
    order: list[str] = []
    async with LmdbStore(tmp_path, max_batch=3) as store:
        keys = await begun(store, row, 3)
        done = trio.Event()
        units = [Step(store, row, key, 2) for key in keys]
        store.submit(Step(store, row, b"k9", 1), lambda verdict: order.append("one"))
        store.submit_all(units, lambda _, errors: order.append("three"))
        store.submit(Step(store, row, keys[0], 3), lambda verdict: done.set())
        await done.wait()
        assert order == ["one", "three"]
        assert numbers(store, row) == [3, 2, 2, 1]


async def test_they_are_replayed_when_the_map_grows(tmp_path: Path, row: Any) -> None:
    async with LmdbStore(tmp_path, map_size=1024**2) as store:
        keys = await begun(store, row, 100)
        units = [Step(store, row, key, 2, 20_000) for key in keys]
        assert await told(store, units) == [None] * 100
        assert {unit.runs for unit in units} == {0}
        assert numbers(store, row) == [2] * 100


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, StoreFull), (errno.EIO, StoreLost)])
async def test_a_commit_that_fails_is_told_to_each_by_an_error_of_its_own(
    tmp_path: Path, row: Any, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    store = LmdbStore(tmp_path)
    async with store:
        keys = await begun(store, row, 3)

        def fail(txn: _lmdb.WriteTxn) -> None:
            txn.abort()
            error = lmdb.DiskError("injected", code)
            vars(error)["code"] = code
            raise txn._meaning(error)

        with monkeypatch.context() as patch:
            patch.setattr(_lmdb.WriteTxn, "commit", fail)
            errors = await told(store, [Step(store, row, key, 2) for key in keys])
        assert [type(error) for error in errors] == [kind] * 3
        assert len({id(error) for error in errors}) == 3
        if kind is StoreLost:
            after = await told(store, [Step(store, row, key, 2) for key in keys])
            assert [type(error) for error in after] == [StoreLost] * 3
        else:
            assert await told(store, [Step(store, row, key, 2) for key in keys]) == [None] * 3


async def test_the_rest_of_a_bundle_hears_of_a_store_that_was_lost(
    tmp_path: Path, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_engine, "MAX_BATCH_BYTES", 100_000)
    monkeypatch.setattr("trouper.store._writer.MAX_BATCH_BYTES", 100_000)
    async with LmdbStore(tmp_path) as store:
        keys = await begun(store, row, 6)

        def fail(_: _lmdb.WriteTxn) -> None:
            raise StoreLost("EIO")

        monkeypatch.setattr(_lmdb.WriteTxn, "commit", fail)
        parts = await told_in_parts(store, [Step(store, row, key, 2, 40_000) for key in keys])
        assert [type(error) for part in parts for error in part] == [StoreLost] * 6


# --- fences that need not be read again -----------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many rows LMDB was asked whether it holds them, each time."""
    sizes: list[int] = []
    holds = _lmdb.WriteTxn.holds

    def count(txn: _lmdb.WriteTxn, table: str, rows: list[Any]) -> bool:
        sizes.append(len(rows))
        return holds(txn, table, rows)

    monkeypatch.setattr(_lmdb.WriteTxn, "holds", count)
    return sizes


async def test_what_a_bundle_left_is_not_read_for_the_next_one(
    tmp_path: Path, row: Any, asked: list[int]
) -> None:
    async with LmdbStore(tmp_path) as store:
        keys = await begun(store, row, 5)
        for number in (2, 3, 4):
            units = [Step(store, row, key, number) for key in keys]
            assert await told(store, units) == [None] * 5
            assert [unit.runs for unit in units] == [0] * 5
        assert asked == [5]
    asked.clear()
    async with LmdbStore(tmp_path) as store:  # another opening knows nothing
        assert await told(store, [Step(store, row, key, 5) for key in keys]) == [None] * 5
        assert asked == [5]


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "after it"])
async def test_a_fence_that_a_unit_moved_is_seen_by_the_next_bundle(
    store: Store, row: Any, together: bool
) -> None:
    async with store:
        keys = await begun(store, row, 3)
        await told(store, [Step(store, row, key, 2) for key in keys])
        moved = Step(store, row, keys[1], 3)
        moved.fence = None  # it runs, as units of others do
        if together:
            store.submit(moved, lambda verdict: None)
        else:
            await store.commit(moved)
        late = [Step(store, row, key, 3) for key in keys]
        errors = await told(store, late)
        assert [type(error) for error in errors] == [type(None), FenceMoved, type(None)]
        assert numbers(store, row) == [3, 3, 3]


async def test_what_was_not_written_is_no_fence(
    tmp_path: Path, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LmdbStore(tmp_path) as store:
        keys = await begun(store, row, 2)
        await told(store, [Step(store, row, key, 2) for key in keys])

        def full(txn: _lmdb.WriteTxn) -> None:
            txn.abort()
            raise StoreFull("no room", store="s")

        with monkeypatch.context() as patch:
            patch.setattr(_lmdb.WriteTxn, "commit", full)
            errors = await told(store, [Step(store, row, key, 3) for key in keys])
        assert [type(error) for error in errors] == [StoreFull, StoreFull]
        ahead = await told(store, [Step(store, row, key, 4) for key in keys])
        assert [type(error) for error in ahead] == [FenceMoved, FenceMoved]
        assert await told(store, [Step(store, row, key, 3) for key in keys]) == [None, None]


async def test_the_fences_that_are_known_are_bounded(
    tmp_path: Path, row: Any, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_engine, "KNOWN_FENCES", 3)
    async with LmdbStore(tmp_path) as store:
        keys = await begun(store, row, 4)
        for number in (2, 3):
            units = [Step(store, row, key, number) for key in keys]
            assert await told(store, units) == [None] * 4
        assert asked == [4, 4]

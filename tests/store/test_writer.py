"""The writer: batches, verdicts, and what ends it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
import trio
from outcome import Error, Outcome, Value

from trouper.errors import InvariantError, StoreFull, StoreLost
from trouper.store import LmdbStore, Store, Tx, _lmdb
from trouper.testing.conformance._journal_rows import Row
from trouper.testing.conformance._journal_tools import put_unit
from trouper.testing.conformance.journal import batch


class Transaction:
    """A transaction of LMDB whose commit fails when told to."""

    def __init__(self, real: Any, faults: Faults) -> None:
        self._real = real
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit(self) -> None:
        self._faults.commits += 1
        if self._faults.next:
            fault = self._faults.next.pop(0)
            if fault is not None:
                self._real.commit() if self._faults.landed else self._real.abort()
                raise fault
        if self._faults.gate is not None:
            self._faults.entered.set()
            self._faults.gate.wait()
        self._real.commit()


class Faults:
    """What the next commits do: succeed (None) or raise."""

    def __init__(self) -> None:
        self.next: list[Exception | None] = []
        self.landed = False  # whether one that raises was written after all
        self.commits = 0
        self.gate: threading.Event | None = None
        self.entered = threading.Event()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    made = Faults()
    real = _lmdb.Env.begin

    def begin(env: _lmdb.Env) -> _lmdb.WriteTxn:
        txn: Any = real(env)
        txn.raw = Transaction(txn.raw, made)
        return txn  # type: ignore[no-any-return]

    monkeypatch.setattr(_lmdb.Env, "begin", begin)
    yield made
    if made.gate is not None:
        made.gate.set()


def error_of(kind: type[lmdb.Error], code: int) -> lmdb.Error:
    error = kind("injected", code)
    vars(error)["code"] = code  # only errors that LMDB itself raises come with it
    return error


# --- batches ----------------------------------------------------------------------------------


async def test_what_queues_while_a_batch_is_flushed_is_the_next_batch(
    tmp_path: Path, faults: Faults, put: Any, row: Any
) -> None:
    told: list[Outcome[None]] = []
    async with LmdbStore(tmp_path) as store:
        faults.gate = threading.Event()
        store.submit(put(b"first", row("x")), told.append)
        await trio.to_thread.run_sync(faults.entered.wait)
        for index in range(200):
            store.submit(put(b"%d" % index, row("x")), told.append)
        assert told == []
        faults.gate.set()
        await store.commit(lambda tx: None)
        assert len(told) == 201
    assert faults.commits <= 3, "one for the first, one or two for the rest"


async def test_a_batch_is_capped_in_units_and_in_bytes(
    tmp_path: Path, faults: Faults, put: Any, row: Any
) -> None:
    async with LmdbStore(tmp_path, max_batch=10) as store:
        faults.gate = threading.Event()
        store.submit(put(b"first", row("x")), lambda result: None)
        await trio.to_thread.run_sync(faults.entered.wait)
        before = faults.commits
        faults.gate.set()
        await batch(store, [put(b"%d" % index, row("x")) for index in range(95)])
        assert faults.commits - before >= 10
        before = faults.commits
        megabyte = bytes(1 << 20)
        await batch(store, [put(b"%d" % index, row("x", 0, megabyte)) for index in range(10)])
        assert faults.commits - before >= 2


async def test_a_unit_that_is_withdrawn_in_the_queue_never_runs(
    tmp_path: Path, faults: Faults, put: Any, row: Any
) -> None:
    async with LmdbStore(tmp_path) as store:
        faults.gate = threading.Event()
        store.submit(put(b"a", row("x")), lambda result: None)
        await trio.to_thread.run_sync(faults.entered.wait)
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, put(b"b", row("x")))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        faults.gate.set()
    async with LmdbStore(tmp_path) as store:
        assert store.get("record", b"b", row) is None


async def test_a_unit_that_is_flushed_is_waited_for_despite_a_cancel(
    tmp_path: Path, faults: Faults, put: Any, row: Any
) -> None:
    returned = False
    async with LmdbStore(tmp_path) as store:
        faults.gate = threading.Event()

        async def commit() -> None:
            nonlocal returned
            await store.commit(put(b"a", row("x")))
            returned = True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            await trio.to_thread.run_sync(faults.entered.wait)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            assert not returned
            faults.gate.set()
        assert returned
        assert store.get("record", b"a", row) == row("x")


async def test_a_batch_that_wrote_nothing_flushes_nothing(tmp_path: Path, row: Any) -> None:
    async with LmdbStore(tmp_path) as store:
        before = (tmp_path / "data.mdb").stat().st_mtime_ns
        await store.commit(lambda tx: tx.get("record", b"k", row))
        with pytest.raises(LookupError):
            await store.commit(lambda tx: dict[str, int]()["refused"])
        assert (tmp_path / "data.mdb").stat().st_mtime_ns == before


async def test_debug_mode_refuses_a_unit_that_is_not_pure(tmp_path: Path, row: Any) -> None:
    count = iter(range(100))

    def impure(tx: Tx) -> None:
        tx.put("record", b"k", row("x", next(count)))

    async with LmdbStore(tmp_path, debug=True) as store:
        with pytest.raises(InvariantError, match=r"impure.* is not pure"):
            await store.commit(impure)
        assert store.get("record", b"k", row) is None


async def fill(store: Store) -> tuple[int, StoreFull]:
    """Commit rows until there is no room; return how many, and the refusal."""
    row = Row("x" * 3000)
    for written in range(1000):
        try:
            await store.commit(put_unit("record", b"%04d" % written, row))
        except StoreFull as error:
            assert written > 5
            return written, error
    raise AssertionError("it never filled up")


def delete_all(tx: Tx, count: int) -> None:
    for index in range(count):
        tx.delete("record", b"%04d" % index)


# --- map full -----------------------------------------------------------------------------------


async def test_a_full_map_grows_and_the_batch_is_replayed_in_order(
    tmp_path: Path, put: Any, row: Any
) -> None:
    def unit(index: int) -> Any:
        def write(tx: Tx) -> int:
            tx.put("record", b"%04d" % index, row("x" * 2000, index))
            if index % 10 == 3:
                raise LookupError(index)
            return tx.append(row("x", index))

        return write

    async with LmdbStore(tmp_path, map_size=64 * 1024) as store:
        results = await batch(store, [unit(index) for index in range(500)])
        kept = [index for index in range(500) if index % 10 != 3]
        values = [result.value for result in results if isinstance(result, Value)]
        assert values == list(range(1, len(kept) + 1))
        assert [r.number for _, r in store.scan("log", b"", row)] == kept
        assert [r.number for _, r in store.scan("record", b"", row)] == kept


async def test_a_full_map_at_commit_grows_and_replays_too(
    tmp_path: Path, faults: Faults, put: Any, row: Any
) -> None:
    async with LmdbStore(tmp_path) as store:
        faults.next = [error_of(lmdb.MapFullError, 0), error_of(lmdb.MapFullError, 0)]
        results = await batch(store, [put(b"a", row("x")), put(b"b", row("y"))])
        assert all(isinstance(result, Value) for result in results)
        assert [r.name for _, r in store.scan("record", b"", row)] == ["x", "y"]
        assert faults.commits == 3


async def test_at_the_map_limit_the_batch_is_refused_and_reads_and_deletes_go_on(
    tmp_path: Path, put: Any, row: Any
) -> None:
    size = 256 * 1024
    async with LmdbStore(tmp_path, map_size=size, map_limit=size) as store:
        written, error = await fill(store)
        assert "limit of 262144" in str(error)
        assert "nothing of this unit was written" in str(error)
        assert len(store.scan("record", b"", Row)) == written
    async with LmdbStore(tmp_path, map_size=size, map_limit=size * 4) as store:
        await store.commit(lambda tx: delete_all(tx, written))
        assert store.scan("record", b"", Row) == []


# --- the disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_refuses_the_batch_and_the_store_goes_on(
    tmp_path: Path, faults: Faults, put: Any, row: Any, code: int
) -> None:
    async with LmdbStore(tmp_path) as store:
        await store.commit(put(b"a", row("kept")))
        faults.next = [error_of(lmdb.DiskError, code)]
        results = await batch(store, [put(b"b", row("x")), put(b"c", row("x"))])
        errors = [result.error for result in results if isinstance(result, Error)]
        assert [type(error) for error in errors] == [StoreFull, StoreFull]
        assert errors[0] is not errors[1], "a raised error belongs to one task"
        assert "make room and retry" in str(errors[0])
        assert [key for key, _ in store.scan("record", b"", row)] == [b"a"]
        await store.commit(put(b"b", row("x")))
    async with LmdbStore(tmp_path) as store:
        assert [key for key, _ in store.scan("record", b"", row)] == [b"a", b"b"]


async def test_numbers_of_a_batch_that_found_no_room_are_given_again(
    tmp_path: Path, faults: Faults, row: Any
) -> None:
    async with LmdbStore(tmp_path) as store:
        faults.next = [error_of(lmdb.DiskError, errno.ENOSPC)]
        with pytest.raises(StoreFull):
            await store.commit(lambda tx: tx.append(row("x")))
        assert await store.commit(lambda tx: tx.append(row("x"))) == 1


@pytest.mark.parametrize("landed", [False, True])
async def test_any_other_error_of_a_commit_ends_the_store_until_it_is_reopened(
    tmp_path: Path, faults: Faults, put: Any, row: Any, landed: bool
) -> None:
    store = LmdbStore(tmp_path)
    async with store:
        faults.landed = landed
        await store.commit(put(b"a", row("kept")))
        faults.next = [error_of(lmdb.Error, errno.EIO)]
        results = await batch(store, [put(b"b", row("x")), lambda tx: None])
        for result in results:
            assert isinstance(result, Error)
            assert isinstance(result.error, StoreLost)
            assert "outcome unknown" in str(result.error)
            assert isinstance(result.error.__cause__, lmdb.Error)
        with pytest.raises(StoreLost, match="outcome unknown"):
            await store.commit(put(b"c", row("x")))
        with pytest.raises(StoreLost):
            store.get("record", b"a", row)
        with pytest.raises(StoreLost):
            store.scan("record", b"a", row)
    async with store:
        assert store.get("record", b"a", row) == row("kept")
        assert store.get("record", b"b", row) == (row("x") if landed else None)
        await store.commit(put(b"c", row("x")))


async def test_a_bug_in_the_engine_ends_the_store_and_not_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Any, row: Any
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async with LmdbStore(tmp_path) as store:
        monkeypatch.setattr(_lmdb.WriteTxn, "write", broken)
        with pytest.raises(StoreLost, match="ZeroDivisionError"):
            await store.commit(put(b"a", row("x")))
        monkeypatch.undo()
        with pytest.raises(StoreLost):
            await store.commit(put(b"a", row("x")))


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_real_full_disk_loses_nothing_and_is_left_when_there_is_room(
    tmp_path: Path, put: Any, row: Any
) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if (await trio.run_process(mount, check=False, capture_stderr=True)).returncode:
        pytest.skip("this machine does not let us mount")
    try:
        async with LmdbStore(tmp_path / "state") as store:
            ballast = tmp_path / "ballast"
            ballast.write_bytes(bytes(300_000))
            written, _ = await fill(store)
            assert len(store.scan("record", b"", Row)) == written
            ballast.unlink()
            await store.commit(put(b"more", row("x" * 3000)))
        async with LmdbStore(tmp_path / "state", verify="always") as store:
            assert len(store.scan("record", b"", object)) == written + 1
    finally:
        await trio.run_process(["umount", str(tmp_path)])

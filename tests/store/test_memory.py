"""The twin's own: crash points between any two steps of a commit."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from outcome import Outcome

from trouper.errors import StoreClosed
from trouper.store import MemoryStore
from trouper.store._memory import CrashPoint


@pytest.mark.parametrize(
    ("point", "written", "told"),
    [("before_commit", 1, 1), ("committed", 3, 1), ("acknowledged", 3, 3)],
)
async def test_a_crash_at_each_step_leaves_a_whole_batch_or_none(
    point: CrashPoint, written: int, told: int, put: Any, row: Any
) -> None:
    verdicts: list[Outcome[None]] = []
    store = MemoryStore()

    def probe(at: CrashPoint) -> None:
        if at == point:
            store.crash()

    async with store:
        store.submit(put(b"0", row("x")), verdicts.append)
        await store.commit(lambda tx: None)
        store.probe = probe
        store.submit(put(b"1", row("x")), verdicts.append)
        store.submit(put(b"2", row("x")), verdicts.append)
        await trio.testing.wait_all_tasks_blocked()
        assert not store.is_open
        with pytest.raises(StoreClosed):
            store.get("record", b"0", row)
    store.probe = None
    async with store:
        assert store.epoch == 2
        assert len(store.scan("record", b"", row)) == written
        assert len(verdicts) == told
        await store.commit(put(b"3", row("x")))


async def test_a_crash_burns_no_number(row: Any) -> None:
    store = MemoryStore(probe=lambda at: store.crash() if at == "before_commit" else None)
    async with store:
        store.submit(lambda tx: tx.append(row("lost")), lambda result: None)
        await trio.testing.wait_all_tasks_blocked()
    store.probe = None
    async with store:
        assert await store.commit(lambda tx: tx.append(row("x"))) == 1


@pytest.mark.parametrize("level", ["durable", "relaxed"])
async def test_a_power_cut_takes_the_last_commit_at_level_relaxed_only(
    level: Any, put: Any, row: Any
) -> None:
    store = MemoryStore(level=level)
    async with store:
        await store.commit(put(b"1", row("x")))
        await store.commit(put(b"2", row("x")))
        await store.commit(lambda tx: tx.delete("record", b"1"))
        store.power_cut()
    async with store:
        kept = [key for key, _ in store.scan("record", b"", row)]
        assert kept == ([b"2"] if level == "durable" else [b"1", b"2"])


async def test_a_power_cut_inside_a_batch_undoes_batch_and_last_commit_in_that_order(
    put: Any, row: Any
) -> None:
    store = MemoryStore(level="relaxed")
    async with store:
        await store.commit(put(b"k", row("first")))
        await store.commit(put(b"k", row("second")))
        store.probe = lambda at: store.power_cut()
        store.submit(put(b"k", row("third")), lambda result: None)
        await trio.testing.wait_all_tasks_blocked()
    store.probe = None
    async with store:
        assert store.get("record", b"k", row) == row("first")


async def test_what_was_closed_is_synced(put: Any, row: Any) -> None:
    store = MemoryStore(level="relaxed")
    async with store:
        await store.commit(put(b"k", row("x")))
    async with store:
        store.power_cut()
    async with store:
        assert store.get("record", b"k", row) == row("x")


@pytest.mark.parametrize("point", ["before_commit", "committed"])
async def test_who_waits_on_a_crashed_store_hears_nothing_and_may_be_cancelled(
    point: CrashPoint, put: Any, row: Any
) -> None:
    store = MemoryStore(probe=lambda at: store.crash() if at == point else None)
    async with store, trio.open_nursery() as nursery:
        nursery.start_soon(store.commit, put(b"k", row("x")))
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        nursery.cancel_scope.cancel()


async def test_a_batch_is_capped_and_the_rest_follows(put: Any, row: Any) -> None:
    points: list[CrashPoint] = []
    told: list[Outcome[None]] = []
    store = MemoryStore(max_batch=10, probe=points.append)
    async with store:
        for index in range(25):
            store.submit(put(b"%d" % index, row("x")), told.append)
        await trio.testing.wait_all_tasks_blocked()
        assert len(told) == 25
        assert points.count("committed") == 3


async def test_a_verdict_may_submit_again(put: Any, row: Any) -> None:
    store = MemoryStore()
    left = 100
    done = trio.Event()

    def again(_: Outcome[None]) -> None:
        nonlocal left
        left -= 1
        if left:
            store.submit(put(b"k", row("x", left)), again)
        else:
            done.set()

    async with store:
        store.submit(put(b"k", row("x")), again)
        await done.wait()
        assert store.get("record", b"k", row) == row("x", 1)


async def test_it_is_entered_once_at_a_time() -> None:
    store = MemoryStore()
    async with store:
        with pytest.raises(RuntimeError, match="open already"):
            await store.__aenter__()


def test_a_level_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="level"):
        MemoryStore(level="nosync")  # type: ignore[arg-type]

"""Opening and closing a durable store never hangs and never lies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from trouper.errors import (
    StoreError,
)
from trouper.store import LmdbStore, MemoryStore, _engine, _lmdb, _place
from trouper.store._state import StoreState


async def test_a_store_is_entered_once_at_a_time(state: Path) -> None:
    store = LmdbStore(state)
    async with store:
        with pytest.raises(RuntimeError, match="open already"):
            await store.__aenter__()
    async with store:
        assert store.epoch == 3


async def test_a_cancelled_opening_gives_the_store_back(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, entered = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()
    real = _place.prepare

    def slow(directory: Path, *, create: bool) -> None:
        token.run_sync_soon(entered.set)
        gate.wait()
        real(directory, create=create)

    monkeypatch.setattr(_engine, "prepare", slow)
    store = LmdbStore(state)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.__aenter__)
        await entered.wait()
        nursery.cancel_scope.cancel()
    assert not store.is_open
    monkeypatch.setattr(_engine, "prepare", real)
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("trouper-store"):
            await trio.to_thread.run_sync(thread.join)
    async with store:
        assert store.is_open


async def test_a_hung_disk_does_not_hold_the_one_who_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    store = LmdbStore(tmp_path, close_timeout=0.05)
    await store.__aenter__()
    monkeypatch.setattr(_lmdb.WriteTxn, "commit", lambda self: gate.wait())
    store.submit(lambda tx: tx.append(StoreState(1, "", "", 1, 1)), lambda result: None)
    with pytest.raises(StoreError, match="did not close within"):
        await store.__aexit__(None, None, None)
    gate.set()


async def test_closing_does_not_depend_on_trios_clock(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, put: Any, row: Any
) -> None:
    async with LmdbStore(tmp_path) as store:
        for index in range(100):
            store.submit(put(b"%d" % index, row("x" * 10_000)), lambda result: None)
    async with LmdbStore(tmp_path) as store:
        assert len(store.scan("record", b"", row)) == 100


ABRUPT = """
async def main():
    store = LmdbStore(path)
    await store.__aenter__()
    for index in range(500):
        store.submit(put(b"%d" % index, Row("x" * 5000)), lambda result: None)
    await trio.lowlevel.checkpoint()
trio.run(main)
print("out", flush=True)
"""


async def test_a_store_that_is_not_closed_does_not_hold_the_interpreter(
    tmp_path: Path, child: Any, opened: Any
) -> None:
    run = child(ABRUPT, tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "out\n", "")
    await opened(tmp_path)


async def test_little_address_space_gets_a_smaller_map(tmp_path: Path, child: Any) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
async def main():
    async with LmdbStore(path, map_size=1 << 40) as store:
        await store.commit(put(b"k", Row("x")))
        print(store.get("record", b"k", Row).name)
trio.run(main)
"""
    run = child(code, tmp_path)
    assert (run.returncode, run.stdout) == (0, "x\n"), run.stderr


@pytest.mark.parametrize(
    "options", [{"level": "nosync"}, {"verify": "never"}, {"map_size": 2, "map_limit": 1}]
)
def test_options_that_mean_nothing_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        LmdbStore(tmp_path, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"map_size": 0},
        {"map_size": -1},
        {"map_size": 1e9},
        {"map_size": "1"},
        {"map_limit": float("nan")},
        {"max_value": 0},
        {"max_batch": 0},
        {"close_timeout": -1},
        {"close_timeout": float("nan")},
        {"close_timeout": float("inf")},
    ],
)
def test_a_number_that_cannot_be_is_refused_by_its_name(
    options: dict[str, Any], tmp_path: Path
) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=name):
        LmdbStore(tmp_path / "state", **options)


@pytest.mark.parametrize("kind", ["disk", "memory"])
async def test_a_commit_from_another_loop_is_refused_and_not_waited_for(
    kind: str, tmp_path: Path
) -> None:
    store: LmdbStore | MemoryStore
    store = LmdbStore(tmp_path / "state") if kind == "disk" else MemoryStore()

    async def elsewhere() -> int:
        with trio.fail_after(5):
            return await store.commit(lambda _: 1)

    async with store:
        with pytest.raises(RuntimeError, match=r"another trio.run; commit there"):
            await trio.to_thread.run_sync(trio.run, elsewhere)
        assert await store.commit(lambda _: 2) == 2
    async with store:
        assert await store.commit(lambda _: 3) == 3

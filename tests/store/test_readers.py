"""Readers from outside: few enough, cleared when they were killed, named when they cost room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import StoreFull
from trouper.store import LmdbStore, Tx, _engine

HOLDS = """
import sys, lmdb
env = lmdb.open(sys.argv[1], readonly=True, max_dbs=16, create=False)
held = [env.begin() for _ in range(int(sys.argv[2]))]
print("reading", flush=True)
sys.stdin.read()
"""


@contextmanager
def reading(path: Path, count: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A process that holds read transactions, until it is killed or the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        yield process
        process.kill()


async def rewrite(store: LmdbStore, row: Any, times: int) -> None:
    def unit(tx: Tx) -> None:
        tx.put("record", b"k", row("x" * 20_000))

    for _ in range(times):
        await store.commit(unit)


def size(path: Path) -> int:
    return (path / "data.mdb").stat().st_size


async def test_a_reader_that_is_held_costs_room_until_it_ends_and_no_longer_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Any
) -> None:
    monkeypatch.setattr(_engine, "READER_CHECKS", 10)
    async with LmdbStore(tmp_path) as store:
        await rewrite(store, row, 5)
        before = size(tmp_path)
        await rewrite(store, row, 30)
        assert size(tmp_path) == before, "old pages are used again"
        with reading(tmp_path) as reader:
            await rewrite(store, row, 30)
            held = size(tmp_path)
            assert held > before + 20 * 20_000
            reader.kill()
            reader.wait()
            await rewrite(store, row, 10)  # the next look for dead readers is in here
            cleared = size(tmp_path)
            await rewrite(store, row, 60)
            assert size(tmp_path) == cleared


async def test_a_reader_that_was_killed_is_cleared_at_the_next_opening(
    tmp_path: Path, row: Any, opened: Any
) -> None:
    await opened(tmp_path)
    async with LmdbStore(tmp_path) as store:
        await rewrite(store, row, 5)
        with reading(tmp_path):
            pass
        before = size(tmp_path)
    async with LmdbStore(tmp_path) as store:
        await rewrite(store, row, 30)
    assert size(tmp_path) <= before + 100_000


async def test_when_the_map_is_full_those_who_read_are_named(tmp_path: Path, row: Any) -> None:
    limit = 1024 * 1024
    async with LmdbStore(tmp_path, map_size=limit, map_limit=limit) as store:
        await rewrite(store, row, 5)
        with reading(tmp_path) as reader:
            with pytest.raises(StoreFull, match=f"Process {reader.pid} reads it"):
                await rewrite(store, row, 100)
            assert store.get("record", b"k", row) is not None
            reader.kill()
            reader.wait()
        await rewrite(store, row, 100)


async def test_when_nobody_reads_a_full_map_blames_nobody(tmp_path: Path, row: Any) -> None:
    limit = 256 * 1024
    async with LmdbStore(tmp_path, map_size=limit, map_limit=limit) as store:
        with pytest.raises(StoreFull) as caught:
            await store.commit(lambda tx: tx.put("record", b"k", row("x" * limit)))
        assert "reads it" not in str(caught.value)


async def test_more_readers_than_there_is_room_for_refuse_an_opening_until_they_end(
    state: Path, row: Any
) -> None:
    with reading(state, 126) as reader:
        with pytest.raises(StoreFull, match="as many readers as it can have"):
            async with LmdbStore(state):
                pass
        reader.kill()
        reader.wait()
        async with LmdbStore(state) as store:
            assert store.get("record", b"k01", row) is not None


async def test_an_owner_never_lacks_room_to_read(state: Path, row: Any) -> None:
    async with LmdbStore(state) as store:
        with reading(state, 124):
            for _ in range(10):
                assert len(store.scan("record", b"", row)) == 50
            await store.commit(lambda tx: tx.put("record", b"more", row("more")))
            assert store.get("record", b"more", row) == row("more")

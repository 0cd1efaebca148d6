"""Stat: a store in numbers, with or without its owner."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trouper import __version__
from trouper.errors import StoreDamaged, StoreOwned
from trouper.store import LmdbStore, Tx, _reading, stat


def times(path: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in path.iterdir()}


async def test_it_counts_rows_and_sizes_and_changes_nothing(state: Path) -> None:
    before = times(state)
    found = stat(state)
    assert (found.rows["record"], found.rows["store"], found.epoch) == (50, 1, 1)
    assert (found.owner, found.readers) == (None, ())
    assert found.created_by == f"trouper {__version__}"
    assert found.used <= found.file == (state / "data.mdb").stat().st_size
    assert times(state) == before


async def test_it_names_the_owner_of_a_store_in_use(state: Path, child: Any) -> None:
    async with LmdbStore(state):
        done = child("s = stat(path); print(s.owner, s.epoch, s.readers)", state)
        with pytest.raises(StoreOwned, match="this process"):
            stat(state)
    assert (done.stdout, done.stderr) == (f"{os.getpid()} 2 ()\n", "")


HOLDS = """
from trouper.store._snapshot import Snapshot
with Snapshot(path / "data.mdb", shared=True):
    print("reading", flush=True)
    sys.stdin.read()
"""


async def test_it_names_readers_and_how_far_they_are_behind(
    state: Path, row: Any, put: Any, prelude: str, child: Any
) -> None:
    async with LmdbStore(state) as store:
        with subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", prelude + HOLDS, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "reading\n"
            for index in range(3):
                await store.commit(put(b"more", row("more", index)))
            done = child(
                "s = stat(path); print([(r.pid, s.commit - r.commit) for r in s.readers])", state
            )
            reader.communicate()
    assert (done.stdout, done.stderr) == (f"[({reader.pid}, 3)]\n", "")


async def test_it_follows_a_store_that_outgrew_its_map(
    tmp_path: Path, row: Any, child: Any
) -> None:
    def much(tx: Tx) -> None:
        for index in range(3000):
            tx.put("record", b"%04d" % index, row("x" * 500))

    async with LmdbStore(tmp_path, map_size=1024**2) as store:
        await store.commit(much)
        done = child("print(stat(path).rows['record'])", tmp_path)
    assert (done.stdout, done.stderr) == ("3000\n", "")


async def test_a_store_is_verified_first_unless_its_owner_closed_it_so(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []

    def look(data: Path) -> list[str]:
        looked.append(data)
        return []

    monkeypatch.setattr(_reading, "problems_of", look)
    stat(state)
    assert looked == []
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes())  # the same, but who knows
    stat(state)
    (state / "owner.lock").unlink()
    stat(state)
    assert looked == [data, data]


async def test_a_damaged_store_is_not_mapped(state: Path) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes()[:-8192])
    with pytest.raises(StoreDamaged):
        stat(state)


async def test_a_store_that_was_cut_short_while_it_was_made_is_described(state: Path) -> None:
    (state / "store.json").unlink()
    assert stat(state).rows["record"] == 50


def test_a_lmdb_file_that_is_no_store_is_refused(tmp_path: Path, child: Any) -> None:
    child("import lmdb; lmdb.open(str(path), lib_version=0).begin(write=True).commit()", tmp_path)
    with pytest.raises(StoreDamaged, match=r"not one of a trouper store"):
        stat(tmp_path)

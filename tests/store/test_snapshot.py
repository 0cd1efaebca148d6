"""Snapshots: one state, however the files fare meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lmdb
import pytest

from trouper.errors import StoreDamaged, StoreError, StoreOwned
from trouper.store import LmdbStore, _snapshot
from trouper.store._lmdb import map_readonly
from trouper.store._snapshot import Snapshot


async def test_it_is_one_state_while_its_owner_goes_on(state: Path, child: Any) -> None:
    code = (
        "async def main():\n"
        "    async with LmdbStore(path) as store:\n"
        "        await store.commit(put(b'new', Row('new')))\n"
        "trio.run(main)"
    )
    with Snapshot(state / "data.mdb", shared=True) as before:
        seen = list(before.items("record"))
        assert child(code, state).returncode == 0
        assert list(before.items("record")) == seen
        assert before.get("record", b"new") is None
    with Snapshot(state / "data.mdb", shared=True) as after:
        assert after.get("record", b"new") is not None
        assert after.commit > 1


async def test_files_that_are_exchanged_while_it_opens_are_refused(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(state, tmp_path / "other")
    opened = map_readonly

    def exchanged(data: Path, *, shared: bool) -> lmdb.Environment:
        env = opened(data, shared=shared)
        (tmp_path / "other" / "data.mdb").replace(data)
        return env

    monkeypatch.setattr(_snapshot, "map_readonly", exchanged)
    with pytest.raises(StoreError, match="exchanged just now"):
        Snapshot(state / "data.mdb", shared=True)
    monkeypatch.undo()
    with Snapshot(state / "data.mdb", shared=True) as snapshot:  # nothing is left open
        assert snapshot.tables["record"] == 50


async def test_a_process_maps_a_file_once(state: Path) -> None:
    with (
        Snapshot(state / "data.mdb", shared=False),
        pytest.raises(StoreOwned, match="this process reads"),
    ):
        Snapshot(state / "data.mdb", shared=False)


def test_what_is_no_lmdb_file_is_damage(tmp_path: Path) -> None:
    data = tmp_path / "data.mdb"
    data.write_bytes(b"x" * 8192)
    with pytest.raises(StoreDamaged):
        Snapshot(data, shared=False)


async def test_an_error_of_lmdb_is_ours(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def get(self, *_: object, **__: object) -> bytes:
            raise lmdb.PageNotFoundError("page 7 is not there")

        def cursor(self, **_: object) -> object:
            raise lmdb.PageNotFoundError("page 7 is not there")

        def abort(self) -> None:
            pass

    with Snapshot(state / "data.mdb", shared=False) as snapshot:
        monkeypatch.setattr(snapshot, "_txn", Failing())
        with pytest.raises(StoreDamaged, match="page 7"):
            snapshot.get("record", b"k01")
        with pytest.raises(StoreDamaged, match="page 7"):
            list(snapshot.items("record"))


async def test_a_table_that_is_not_there_is_empty(state: Path) -> None:
    with Snapshot(state / "data.mdb", shared=False) as snapshot:
        assert snapshot.get("nothing", b"k") is None
        assert list(snapshot.items("nothing")) == []
        assert list(snapshot.items("record", b"zz")) == []


async def test_it_says_how_the_file_is_used(tmp_path: Path, row: Any, put: Any) -> None:
    async with LmdbStore(tmp_path / "state", map_size=1024**2) as store:
        await store.commit(put(b"k", row("k")))
    with Snapshot(tmp_path / "state" / "data.mdb", shared=False) as snapshot:
        room = snapshot.room()
        assert room.map_size == 1024**2
        assert room.tables <= room.pages

"""Compaction: only while nobody has the store, and in one step."""
# ruff: noqa: ASYNC220

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import PathRefused, StoreDamaged, StoreFull, StoreOwned
from trouper.store import LmdbStore, Tx, compact, stat, verify


@pytest.fixture
async def sparse(state: Path, row: Any) -> Path:
    """A store that was larger once."""

    def grow(tx: Tx) -> None:
        for index in range(500):
            tx.put("record", b"z%03d" % index, row("z" * 500))

    def shrink(tx: Tx) -> None:
        for index in range(500):
            tx.delete("record", b"z%03d" % index)

    async with LmdbStore(state) as store:
        await store.commit(grow)
        await store.commit(shrink)
    return state


async def rows(path: Path, row: Any) -> list[tuple[bytes, Any]]:
    async with LmdbStore(path) as store:
        return store.scan("record", b"", row)


async def test_it_gives_free_pages_back_and_keeps_every_row(sparse: Path, row: Any) -> None:
    before = await rows(sparse, row)
    was = stat(sparse)
    done = compact(sparse)
    assert (done.before, done.rows) == (was.file, 51)
    assert done.after < done.before / 3
    assert stat(sparse).file == stat(sparse).used == done.after
    assert verify(sparse).ok
    assert await rows(sparse, row) == before


async def test_what_it_verified_is_not_verified_again_at_the_next_opening(
    sparse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact(sparse)
    monkeypatch.setattr("trouper.store._engine.problems_of", lambda _: ["looked"])
    async with LmdbStore(sparse) as store:
        assert store.epoch == 3


async def test_commits_go_on_after_it_where_they_were(sparse: Path, put: Any, row: Any) -> None:
    compact(sparse)
    for index in range(5):
        async with LmdbStore(sparse) as store:
            await store.commit(put(b"after", row("after", index)))
    async with LmdbStore(sparse) as store:
        assert store.get("record", b"after", row) == row("after", 4)
        assert store.epoch == 8
    assert verify(sparse).ok


async def test_a_store_in_use_is_refused(sparse: Path, child: Any) -> None:
    async with LmdbStore(sparse):
        with pytest.raises(StoreOwned, match="this process"):
            compact(sparse)
        done = child("try: compact(path)\nexcept StoreOwned as e: print(e.pid)", sparse)
    assert done.stdout == f"{os.getpid()}\n"


async def test_a_store_that_is_being_read_is_refused(sparse: Path, prelude: str) -> None:
    code = (
        "from trouper.store._snapshot import Snapshot\n"
        "with Snapshot(path / 'data.mdb', shared=True):\n"
        "    print('reading', flush=True)\n"
        "    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", prelude + code, str(sparse)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        with pytest.raises(StoreOwned, match=f"read by process {reader.pid}"):
            compact(sparse)
        reader.communicate()
    compact(sparse)


@pytest.mark.parametrize("place", ["nowhere", "empty", "file"])
def test_where_no_store_is_nothing_is_written(place: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(PathRefused):
        compact(tmp_path / place)
    assert not any((tmp_path / "empty").iterdir())


async def test_a_damaged_store_is_left_as_it_is(sparse: Path) -> None:
    data = sparse / "data.mdb"
    raw = data.read_bytes().replace(b"x" * 500, b"x" * 499 + b"y")
    data.write_bytes(raw)
    with pytest.raises(StoreDamaged):
        compact(sparse)
    assert data.read_bytes() == raw
    assert not (sparse / "compact.partial").exists()
    data.write_bytes(raw[:-4096])
    with pytest.raises(StoreDamaged):
        compact(sparse)


async def test_no_room_is_said_and_the_store_stays_as_it_was(
    sparse: Path, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await rows(sparse, row)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreFull, match="no room for a copy"):
            compact(sparse)
    assert not (sparse / "compact.partial").exists()
    assert await rows(sparse, row) == before


async def test_interrupted_it_changes_nothing(sparse: Path) -> None:
    before = (sparse / "data.mdb").read_bytes()

    def interrupt(done: int, size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(sparse, progress=interrupt)
    assert (sparse / "data.mdb").read_bytes() == before
    assert not (sparse / "compact.partial").exists()


KILLED_AT_EACH_STEP = """
import shutil
from dataclasses import asdict
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "fcntl.flock"}
origin = path.with_name("origin")
path.rename(origin)

def rows():
    return [(row.table, row.key, row.fields) for row in dump(path) if row.table != "store"]

def attempt(kill_at):
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(origin, path)
    pid = os.fork()
    if not pid:
        left = kill_at
        def hook(event, args):
            nonlocal left
            if event in EVENTS:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        compact(path)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

wanted, steps, sizes = None, 0, set()
while True:
    steps += 1
    status = attempt(steps)
    assert status in (0, signal.SIGKILL), status
    report = verify(path)
    assert report.ok, report
    sizes.add(stat(path).file)
    found = rows()
    wanted = wanted or found
    assert found == wanted
    if not status:
        break
    compact(path)
    assert rows() == wanted and not (path / "compact.partial").exists()
print(steps > 10, len(sizes))
"""


async def test_killed_at_any_step_the_store_is_whole_as_it_was_or_compacted(
    sparse: Path, child: Any
) -> None:
    done = child(KILLED_AT_EACH_STEP, sparse)
    assert (done.stdout, done.stderr) == ("True 2\n", "")

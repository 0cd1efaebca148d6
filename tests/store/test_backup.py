"""Backups: one state, verified, whole or not there, and nobody else's to read."""
# ruff: noqa: ASYNC240 (files are what these tests are about)

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
from outcome import Outcome

from trouper.errors import (
    PathRefused,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreOwned,
)
from trouper.store import Backup, LmdbStore, Tx, Unit, backup, verify

IN_ANOTHER_PROCESS = "print(backup(path, sys.argv[2]).rows)"


async def rows(path: Path, row: Any) -> list[tuple[bytes, Any]]:
    async with LmdbStore(path) as store:
        return store.scan("record", b"", row)


def left_over(where: Path) -> list[str]:
    return [p.name for p in where.iterdir() if "partial" in p.name]


async def test_a_backup_is_a_store_with_the_same_rows(
    state: Path, tmp_path: Path, row: Any
) -> None:
    made = backup(state, tmp_path / "copy")
    assert made == Backup(
        str(tmp_path / "copy"), made.uuid, 1, (tmp_path / "copy" / "data.mdb").stat().st_size, 51
    )
    assert await rows(tmp_path / "copy", row) == await rows(state, row)


async def test_only_its_owner_may_read_a_backup(state: Path, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        backup(state, tmp_path / "copy")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    data = tmp_path / "copy" / "data.mdb"
    assert stat.S_IMODE(data.stat().st_mode) == 0o600


async def test_the_owner_backs_up_while_it_goes_on(
    state: Path, tmp_path: Path, put: Any, row: Any
) -> None:
    heard: list[tuple[int, int]] = []
    async with LmdbStore(state) as store:
        before = store.scan("record", b"", row)
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                for index in range(20):
                    await store.commit(put(b"w%02d" % index, row("y" * 500, index)))

            nursery.start_soon(write)
            made = await store.backup(
                tmp_path / "copy", progress=lambda done, size: heard.append((done, size))
            )
        after = store.scan("record", b"", row)
    copied = await rows(tmp_path / "copy", row)
    assert copied == after[: len(copied)]  # in key order: one state between the two
    assert len(before) <= len(copied) <= len(after)
    assert heard[-1] == (made.bytes, made.bytes)


async def test_another_process_backs_up_a_store_that_is_in_use(
    state: Path, tmp_path: Path, put: Any, row: Any, child: Any
) -> None:
    async with LmdbStore(state) as store:
        await store.commit(put(b"new", row("new")))
        done = child(IN_ANOTHER_PROCESS, state, tmp_path / "copy")
        assert (done.stdout, done.stderr) == ("52\n", "")
        await store.commit(put(b"newer", row("newer")))
        assert store.get("record", b"newer", row) is not None
    async with LmdbStore(tmp_path / "copy") as copy:
        assert copy.get("record", b"new", row) == row("new")
        assert copy.get("record", b"newer", row) is None


async def test_in_the_owning_process_the_store_itself_must_be_asked(
    state: Path, tmp_path: Path
) -> None:
    async with LmdbStore(state):
        with pytest.raises(StoreOwned, match="this process has it open"):
            backup(state, tmp_path / "copy")


@pytest.mark.parametrize("kind", ["file", "directory", "dangling link"])
async def test_a_backup_overwrites_nothing(kind: str, state: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    if kind == "file":
        target.write_text("mine")
    elif kind == "directory":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(PathRefused, match="something at"):
        backup(state, target)
    assert os.path.lexists(target)
    assert not left_over(tmp_path)


@pytest.mark.parametrize("where", ["no/where/copy", "file/copy"])
async def test_a_backup_that_cannot_be_written_there_is_refused(
    where: str, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PathRefused, match="no copy can be written"):
        backup(state, tmp_path / where)


async def test_no_room_for_a_backup_is_said_and_leaves_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreFull, match="no room for a copy"):
        backup(state, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert not left_over(tmp_path)


async def test_a_damaged_row_makes_no_backup(state: Path, tmp_path: Path) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"x" * 500, b"x" * 499 + b"y"))
    with pytest.raises(StoreDamaged, match="checksum"):
        backup(state, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert not left_over(tmp_path)


async def test_a_damaged_page_is_refused_before_it_is_mapped(state: Path, tmp_path: Path) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes()[:-8192])
    with pytest.raises(StoreDamaged):
        backup(state, tmp_path / "copy")


@pytest.mark.parametrize("at", [0, 1])
async def test_killed_in_the_middle_nothing_has_the_name_and_the_next_one_cleans_up(
    at: int, state: Path, tmp_path: Path, child: Any
) -> None:
    killed = child(
        "count = iter(range(100))\n"
        "def progress(done, size):\n"
        "    if next(count) == int(sys.argv[3]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "backup(path, sys.argv[2], progress=progress)",
        state,
        tmp_path / "copy",
        at,
    )
    assert killed.returncode == -9
    assert not (tmp_path / "copy").exists()
    assert len(left_over(tmp_path)) == 1
    assert verify(state).ok
    backup(state, tmp_path / "copy")
    assert not left_over(tmp_path)


async def test_a_backup_that_runs_is_not_swept_by_another_to_the_same_path(
    state: Path, tmp_path: Path, child: Any
) -> None:
    begun: list[str] = []

    def meanwhile(done: int, size: int) -> None:
        if not begun:
            begun.extend(left_over(tmp_path))
            other = child(IN_ANOTHER_PROCESS, state, tmp_path / "copy")
            assert (other.stdout, other.stderr) == ("51\n", "")

    with pytest.raises(PathRefused, match="no copy can be written"):
        backup(state, tmp_path / "copy", progress=meanwhile)
    assert len(begun) == 1  # it came to its end, and found the name taken
    assert verify(tmp_path / "copy").ok
    assert not left_over(tmp_path)


async def test_one_process_reads_a_store_once_at_a_time(state: Path, tmp_path: Path) -> None:
    def meanwhile(done: int, size: int) -> None:
        with pytest.raises(StoreOwned, match="this process reads"):
            backup(state, tmp_path / "other")

    backup(state, tmp_path / "copy", progress=meanwhile)


async def test_a_map_that_has_to_grow_waits_for_the_backup_and_nobody_is_hurt(
    tmp_path: Path, row: Any
) -> None:
    """Growing remaps the file, and to remap it under a copy would kill the process."""

    def much(first: int) -> Unit[None]:
        def unit(tx: Tx) -> None:
            for index in range(first, first + 60):
                tx.put("record", b"%04d" % index, row("x" * 50_000, index))

        return unit

    async with LmdbStore(tmp_path / "state", map_size=4 * 1024**2) as store:
        await store.commit(much(0))
        grown: list[Outcome[None]] = []
        done = trio.Event()

        def verdict(result: Outcome[None]) -> None:
            grown.append(result)
            done.set()

        def meanwhile(written: int, size: int) -> None:
            if not grown and written < size:
                store.submit(much(60), verdict)

        made = await store.backup(tmp_path / "copy", progress=meanwhile)
        await done.wait()
        grown[0].unwrap()
        assert made.rows == 61
        assert len(store.scan("record", b"", row)) == 120
    assert verify(tmp_path / "state").ok


async def test_cancelled_a_backup_leaves_nothing(state: Path, tmp_path: Path) -> None:
    async with LmdbStore(state) as store:
        with trio.CancelScope() as scope:
            await store.backup(tmp_path / "copy", progress=lambda *_: scope.cancel())
        assert scope.cancelled_caught
        assert not (tmp_path / "copy").exists()
        assert not left_over(tmp_path)


async def test_closing_a_store_ends_its_backup(state: Path, tmp_path: Path) -> None:
    begun = trio.Event()
    refused: list[StoreClosed] = []

    async def back_up(store: LmdbStore) -> None:
        try:
            await store.backup(tmp_path / "copy", progress=lambda *_: begun.set())
        except StoreClosed as error:
            refused.append(error)

    async with trio.open_nursery() as nursery, LmdbStore(state) as store:
        nursery.start_soon(back_up, store)
        await begun.wait()
    assert refused or (tmp_path / "copy").exists()  # it was quicker
    assert not left_over(tmp_path)
    with pytest.raises(StoreClosed):
        await store.backup(tmp_path / "again")


async def test_a_backup_does_not_lie_in_its_store(state: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(state)
    before = set(state.iterdir())
    for target in (state / "inside", link / "inside"):
        with pytest.raises(PathRefused, match="does not lie in its store"):
            backup(state, target)
        async with LmdbStore(state) as store:
            with pytest.raises(PathRefused, match="does not lie in its store"):
                await store.backup(target)
    assert set(state.iterdir()) <= before | {state / "lock.mdb", state / "owner.lock"}

"""A store has one owner: one live process, no fork of it, and the files it opened."""
# ruff: noqa: ASYNC220 (files and children are what these tests are about)

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import (
    PathRefused,
    StoreLost,
    StoreOwned,
)
from trouper.store import LmdbStore, _owner


async def test_a_second_opening_is_refused_and_names_the_live_owner(
    state: Path, refused: Any
) -> None:
    async with LmdbStore(state):
        error = await refused(state, StoreOwned, "this process has it open already")
        assert error.facts["pid"] == os.getpid()


async def test_another_process_is_refused_with_the_owners_pid_and_takes_over_when_it_dies(
    state: Path, prelude: str, refused: Any
) -> None:
    code = """
async def main():
    async with LmdbStore(path) as store:
        print("open", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", prelude + code, str(state)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        error = await refused(state, StoreOwned, f"process {owner.pid} owns it")
        assert error.facts["pid"] == owner.pid
    finally:
        owner.kill()
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()
    async with LmdbStore(state) as store:
        assert store.epoch == 3


FORK = """
async def main():
    async with LmdbStore(path) as store:
        await store.commit(put(b"k", Row("parent")))
        pid = os.fork()
        if pid == 0:
            calls = (
                lambda: store.get("record", b"k", Row),
                lambda: store.scan("record", b"k", Row),
                lambda: store.submit(put(b"k", Row("child")), print),
            )
            for call in calls:
                try:
                    call()
                except ForeignFork as error:
                    assert error.pid == os.getppid()
                else:
                    os._exit(1)
            try:
                await store.__aexit__(None, None, None)
            except ForeignFork:
                os._exit(0)
            os._exit(2)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        await store.commit(put(b"k", Row("parent again")))
        print(store.get("record", b"k", Row).name)
trio.run(main)
"""


async def test_a_fork_is_refused_and_its_parent_is_unharmed(tmp_path: Path, child: Any) -> None:
    run = child(FORK, tmp_path)
    assert (run.returncode, run.stdout) == (0, "0\nparent again\n"), run.stderr


async def test_a_living_fork_of_a_dead_owner_does_not_keep_the_store(
    tmp_path: Path, prelude: str
) -> None:
    code = """
async def main():
    async with LmdbStore(path) as store:
        if os.fork() == 0:
            print("forked", flush=True)
            sys.stdin.read()
            os._exit(0)
        signal.pause()
trio.run(main)
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", prelude + code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "forked\n"
        owner.kill()
        owner.wait()
        async with LmdbStore(tmp_path) as store:
            assert store.epoch == 2
    finally:
        owner.communicate()  # closes the fork's input, and waits for its end


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb", "owner.lock"])
@pytest.mark.parametrize("how", ["renamed", "removed", "replaced"])
async def test_a_file_that_vanishes_under_a_live_store_ends_it_before_the_next_verdict(
    tmp_path: Path, name: str, how: str, put: Any, row: Any
) -> None:
    path = tmp_path / "state"
    async with LmdbStore(path) as store:
        await store.commit(put(b"a", row("kept")))
        victim = path / name
        if how == "renamed":
            victim.rename(tmp_path / "aside")
        elif how == "removed":
            victim.unlink()
        else:
            copy = tmp_path / "copy"
            copy.write_bytes(victim.read_bytes())
            copy.replace(victim)
        with pytest.raises(StoreLost, match="replaced or removed"):
            await store.commit(put(b"b", row("never acknowledged")))
        with pytest.raises(StoreLost):
            await store.commit(lambda tx: None)
        with pytest.raises(StoreLost):
            store.get("record", b"a", row)


async def test_an_owner_that_has_not_written_its_pid_yet_is_still_an_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any
) -> None:
    monkeypatch.setattr(_owner, "_PID_PAUSE", 0.0)
    lock = tmp_path / "owner.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for content in ("", '{"pid": 4194305}', '{"pid": "x"}'):  # empty, a dead pid, nonsense
            lock.write_text(content)
            error = await refused(tmp_path, StoreOwned, "another process owns it")
            assert error.facts["pid"] == 0


@pytest.mark.parametrize("call", ["open", "flock"])
async def test_a_lock_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any, call: str
) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.EROFS if call == "open" else errno.ENOLCK, "injected")

    monkeypatch.setattr(os if call == "open" else fcntl, call, fail)
    await refused(tmp_path, PathRefused, r"cannot lock the store .*injected")
    monkeypatch.undo()
    async with LmdbStore(tmp_path) as store:
        assert store.is_open

"""Whether the path still names the open files: one look will do only where it shows everything."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import StoreLost
from trouper.store import LmdbStore, _names
from trouper.store._names import COARSE, FINE, TRUST, Names

FILES = ("data.mdb", "lock.mdb", "owner.lock")


@dataclass
class Disk:
    """A directory whose times stand still when a test wants it, and the looks that are taken."""

    directory: Path
    names: Names
    now: float = 100.0
    looks: list[str] = field(default_factory=list[str])
    is_frozen: bool = False
    nanoseconds: int = 5


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    directory = tmp_path / "up" / "state"
    directory.mkdir(parents=True)
    inodes: dict[str, tuple[int, int]] = {}
    for name in FILES:
        (directory / name).touch()
        found = (directory / name).stat()
        inodes[name] = (found.st_dev, found.st_ino)
    made = Disk(directory, Names(directory, inodes, clock=lambda: made.now))
    stat, lstat = os.stat, os.lstat
    frozen = stat(directory)

    def note(path: Any) -> None:
        if str(path).startswith(str(tmp_path)):
            made.looks.append(str(path).rpartition("/")[2])

    def look_at_link(path: Any, **options: Any) -> Any:
        note(path)
        return lstat(path, **options)

    def look(path: Any, *args: Any, **options: Any) -> Any:
        note(path)
        if made.is_frozen and str(path) == str(directory):
            stands = {"st_mtime_ns": made.nanoseconds, "st_ctime_ns": 1}
            return os.stat_result(frozen, stands)
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", look)
    monkeypatch.setattr(os, "lstat", look_at_link)
    return made


def looked(disk: Disk) -> list[str]:
    disk.looks.clear()
    assert disk.names.hold()
    return disk.looks


EVERY = ["state", *FILES]


def test_a_directory_that_stands_still_is_all_that_is_looked_at(disk: Disk) -> None:
    assert looked(disk) == EVERY
    disk.now += FINE + 0.01
    assert looked(disk) == EVERY  # and from here on nothing can change unseen
    assert looked(disk) == ["state"]
    assert looked(disk) == ["state"]


def test_every_name_is_looked_up_while_a_change_could_hide_in_the_tick_of_the_last(
    disk: Disk,
) -> None:
    disk.is_frozen = True
    for _ in range(3):
        assert looked(disk) == EVERY
        disk.now += FINE / 4
    (disk.directory / "data.mdb").rename(disk.directory / "aside")
    assert not disk.names.hold()


def test_times_of_whole_seconds_are_trusted_later(disk: Disk) -> None:
    disk.is_frozen, disk.nanoseconds = True, 7_000_000_000
    assert looked(disk) == EVERY
    disk.now += FINE + 0.01
    assert looked(disk) == EVERY
    assert looked(disk) == EVERY
    disk.now += COARSE
    assert looked(disk) == EVERY
    assert looked(disk) == ["state"]


def test_a_file_system_that_keeps_no_times_hides_a_change_for_a_moment_only(disk: Disk) -> None:
    disk.is_frozen = True
    assert looked(disk) == EVERY
    disk.now += FINE + 0.01
    assert looked(disk) == EVERY
    (disk.directory / "lock.mdb").unlink()
    disk.now += TRUST + 0.01
    assert not disk.names.hold()


def test_a_change_of_the_directory_brings_back_the_look_at_every_name(disk: Disk) -> None:
    looked(disk)
    disk.now += FINE + 0.01
    looked(disk)
    assert looked(disk) == ["state"]
    os.utime(disk.directory, (0, 0))
    assert looked(disk) == EVERY
    assert looked(disk) == EVERY


def test_where_a_name_is_a_link_every_name_is_looked_up_each_time(disk: Disk) -> None:
    """What it leads to lies in another directory, and may be replaced without this one's notice."""
    other = disk.directory.parent / "other"
    (disk.directory / "data.mdb").rename(other)
    (disk.directory / "data.mdb").symlink_to(other)
    for _ in range(5):
        assert looked(disk) == ["state", "data.mdb", "data.mdb", "lock.mdb", "owner.lock"]
        disk.now += COARSE
    (disk.directory.parent / "newer").touch()
    (disk.directory.parent / "newer").replace(other)
    assert not disk.names.hold()


def _rename_it(disk: Disk) -> None:
    disk.directory.rename(disk.directory.with_name("aside"))


def _rename_above(disk: Disk) -> None:
    disk.directory.parent.rename(disk.directory.parent.with_name("aside"))


def _replace_it(disk: Disk) -> None:
    _rename_it(disk)
    disk.directory.mkdir()
    for name in FILES:
        (disk.directory / name).touch()


@pytest.mark.parametrize("change", [_rename_it, _rename_above, _replace_it])
def test_a_directory_that_is_another_one_is_noticed(
    disk: Disk, change: Callable[[Disk], None]
) -> None:
    looked(disk)
    disk.now += FINE + 0.01
    looked(disk)
    assert looked(disk) == ["state"]
    change(disk)
    assert not disk.names.hold()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["renamed", "removed", "replaced"])
async def test_a_file_that_vanishes_under_a_store_that_trusts_its_directory_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, put: Any, row: Any
) -> None:
    path = tmp_path / "state"
    monkeypatch.setattr(_names, "FINE", -1.0)
    monkeypatch.setattr(_names, "COARSE", -1.0)
    monkeypatch.setattr(_names, "TRUST", 1e9)
    async with LmdbStore(path) as store:
        os.utime(path, (0, 0))  # what comes is another time than this
        for _ in range(3):
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

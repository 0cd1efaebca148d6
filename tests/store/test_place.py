"""Where a store may be opened, and what it says where it may not."""
# ruff: noqa: ASYNC240 (files and children are what these tests are about)

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import lmdb
import pytest
import trio

from trouper.errors import (
    FormatTooNew,
    PathRefused,
    StoreDamaged,
    WrongEngine,
)
from trouper.store import LmdbStore, _place, backup, check, compact, dump, stat, verify
from trouper.store._records import from_frame, to_frame
from trouper.store._state import StoreState


async def test_a_file_is_no_place_for_a_store(tmp_path: Path, refused: Any) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    await refused(path, PathRefused, "it is a file|not a directory")
    await refused(path, PathRefused, "not a directory", create=False)
    await refused(path / "below", PathRefused, "Not a directory")
    assert path.read_text() == "precious"


async def test_nothing_is_made_without_leave(tmp_path: Path, refused: Any) -> None:
    await refused(tmp_path / "nowhere", PathRefused, "there is nothing", create=False)
    assert not (tmp_path / "nowhere").exists()
    await refused(tmp_path, PathRefused, "no store", create=False)
    assert list(tmp_path.iterdir()) == []


async def test_a_store_is_made_with_its_parents_and_readable_by_its_user_only(
    tmp_path: Path, opened: Any
) -> None:
    path = tmp_path / "a" / "b"
    await opened(path)
    assert path.stat().st_mode & 0o777 == 0o700
    for name in ("data.mdb", "lock.mdb", "owner.lock", "store.json"):
        assert (path / name).stat().st_mode & 0o077 == 0


async def test_the_name_of_a_store_need_not_be_text(tmp_path: Path, opened: Any) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    await opened(path)
    before = (path / "store.json").read_bytes()
    await opened(path)  # verified, mapped and closed again under that name
    assert (path / "store.json").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
async def test_a_directory_without_permission_is_refused(state: Path, refused: Any) -> None:
    state.chmod(0o500)
    (state / "owner.lock").chmod(0o400)
    try:
        await refused(state, PathRefused, "Permission denied")
    finally:
        state.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
async def test_a_store_on_read_only_media_is_refused_but_can_be_verified(
    state: Path, tmp_path: Path, refused: Any
) -> None:
    view = tmp_path / "view"
    view.mkdir()
    mount = await trio.run_process(
        ["mount", "--bind", str(state), str(view)], check=False, capture_stderr=True
    )
    if mount.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        await trio.run_process(["mount", "-o", "remount,ro,bind", str(view)])
        await refused(view, PathRefused, "Read-only file system")
        assert verify(view).ok
        with pytest.raises(OSError, match="Read-only"):
            (view / "here").touch()
    finally:
        await trio.run_process(["umount", str(view)])


async def test_garbage_is_refused_and_left_alone(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "data.mdb").write_bytes(b"this is somebody's thesis" * 1000)
    await refused(tmp_path, StoreDamaged, "not an LMDB file")


async def test_the_lmdb_file_of_another_program_is_refused_and_left_alone(
    tmp_path: Path, refused: Any
) -> None:
    with (
        lmdb.open(str(tmp_path), lib_version=0, max_dbs=1) as env,
        env.begin(write=True, db=env.open_db(b"theirs")) as txn,
    ):
        txn.put(b"k", b"v")
    await refused(tmp_path, StoreDamaged, "not one of a trouper store")


async def test_a_file_of_the_other_lmdb_engine_is_refused_and_left_alone(
    tmp_path: Path, refused: Any
) -> None:
    with lmdb.open(str(tmp_path), lib_version=1) as env, env.begin(write=True) as txn:
        assert env.lib_version()[0] == 1
        txn.put(b"k", b"v")
    await refused(tmp_path, WrongEngine, "another data format")


async def test_an_environment_variable_does_not_choose_the_data_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Any
) -> None:
    monkeypatch.setenv("LMDB_DEFAULT_LIB_VERSION", "1")
    await opened(tmp_path)
    await opened(tmp_path)
    with lmdb.open(str(tmp_path), readonly=True, lock=False) as env:
        assert env.lib_version()[:2] == (0, 9)


async def test_a_newer_format_is_refused_and_left_alone(state: Path, refused: Any) -> None:
    identity = json.loads((state / "store.json").read_text())
    (state / "store.json").write_text(json.dumps(identity | {"format": 3}))
    await refused(state, FormatTooNew, "format 3")


async def test_a_newer_format_is_refused_without_the_identity_file_too(
    state: Path, refused: Any
) -> None:
    rewrite_state(state, format=3)
    (state / "store.json").unlink()
    await refused(state, FormatTooNew, "format 3")


async def test_a_lost_identity_file_is_written_again(state: Path, opened: Any) -> None:
    before = json.loads((state / "store.json").read_text())
    (state / "store.json").unlink()
    await opened(state)
    assert json.loads((state / "store.json").read_text()) == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "x", "uuid": 1}', "\0\0"])
async def test_an_unreadable_identity_file_is_damage(
    state: Path, content: str, refused: Any
) -> None:
    (state / "store.json").write_text(content)
    error = await refused(state, StoreDamaged, "identity")
    assert error.facts["where"] == "store.json"


async def test_the_data_of_another_store_is_refused(
    state: Path, tmp_path: Path, opened: Any, refused: Any
) -> None:
    await opened(tmp_path / "other")
    (tmp_path / "other" / "data.mdb").replace(state / "data.mdb")
    await refused(state, StoreDamaged, "lives in this directory")


def rewrite_state(path: Path, **changes: Any) -> None:
    with lmdb.open(str(path), max_dbs=16) as env:
        own = env.open_db(b"store", create=False)
        with env.begin(write=True, db=own) as txn:
            frame = txn.get(b"state")
            found = from_frame("store", b"state", frame or b"", StoreState)
            values = {name: getattr(found, name) for name in StoreState.__slots__}
            txn.put(b"state", to_frame(b"state", StoreState(**(values | changes))))


# --- network file systems ---------------------------------------------------------------------

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /srv rw - nfs4 host:/x rw
31 30 0:41 / /srv/local\\040disk rw - xfs /dev/vdb rw
32 22 0:42 / /home/me/remote rw,nosuid shared:5 - fuse.sshfs me@host: rw
33 22 0:43 / /twice rw - ext4 /dev/vdc rw
34 33 0:44 / /twice rw - cifs //host/x rw
nonsense
""".splitlines()


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("/", None),
        ("/srvother/x", None),
        ("/srv", "nfs4"),
        ("/srv/state", "nfs4"),
        ("/srv/local disk/state", None),
        ("/home/me/remote/a/b", "fuse.sshfs"),
        ("/home/me", None),
        ("/twice/x", "cifs"),
    ],
)
def test_the_innermost_mount_says_whether_a_path_is_on_the_network(
    path: str, system: str | None
) -> None:
    assert _place.network_system(Path(path), MOUNTS) == system


async def test_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any
) -> None:
    monkeypatch.setattr(_place, "_mounts", lambda: ["1 0 0:1 / / rw - nfs host:/ rw"])
    await refused(tmp_path / "state", PathRefused, r"network file system \(nfs\).*local disk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused_and_means_no_directory(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def back_up(target: str) -> None:
        backup(tmp_path, target)

    def dumped(source: str) -> None:
        list(dump(source))

    for use in (LmdbStore, verify, check, compact, stat, dumped, back_up):
        with pytest.raises(PathRefused, match=r"names no store|is no path|there is no store"):
            use(path)
    assert list(tmp_path.iterdir()) == []

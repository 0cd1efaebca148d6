"""A machine that runs out of something says nothing about a file: never "damaged", try again."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import lmdb
import lmdb.verify
import pytest

from trouper.errors import PathRefused, StoreDamaged
from trouper.store import LmdbStore

SHORTAGES = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def short(code: int) -> Any:
    def raises(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return raises


def lmdb_short(code: int) -> Any:
    def raises(*args: Any, **kwargs: Any) -> Any:
        error = lmdb.Error(f"open: {os.strerror(code)}")
        vars(error)["code"] = code
        raise error

    return raises


PLACES: dict[str, tuple[Any, str, Any]] = {
    "identity": (Path, "read_bytes", short),
    "data": (Path, "open", short),
    "lock": (os, "open", short),
    "verifier": (lmdb.verify, "verify", short),
    "map": (lmdb, "open", lmdb_short),
}


@pytest.mark.parametrize("code", SHORTAGES, ids=errno.errorcode.__getitem__)
@pytest.mark.parametrize("place", PLACES)
async def test_a_shortage_at_open_is_refused_as_one_and_the_store_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, code: int
) -> None:
    path = tmp_path / "state"
    async with LmdbStore(path):
        pass
    owner, name, raises = PLACES[place]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, raises(code))
        with pytest.raises(PathRefused, match="retry") as caught:
            async with LmdbStore(path, verify="always"):
                pass
    assert os.strerror(code) in str(caught.value)
    async with LmdbStore(path, verify="always"):
        pass


async def test_an_identity_file_that_is_a_directory_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "state"
    async with LmdbStore(path):
        pass
    (path / "store.json").unlink()
    (path / "store.json").mkdir()
    with pytest.raises(StoreDamaged, match="it is a directory"):
        async with LmdbStore(path):
            pass


async def test_a_store_closes_where_no_thread_can_be_had_to_watch_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(timer: object) -> None:
        raise RuntimeError("can't start new thread")

    async with LmdbStore(tmp_path / "state") as store:
        monkeypatch.setattr("threading.Timer.start", no_thread)
    assert not store.is_open

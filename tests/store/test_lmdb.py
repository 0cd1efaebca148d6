"""What an error of LMDB means to a caller: none leaves its module untyped."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lmdb
import pytest

from trouper.errors import PathRefused, StoreDamaged, StoreError, StoreFull, StoreLost
from trouper.store import LmdbStore, _lmdb
from trouper.store._overlay import Writes


def error_of(kind: type[lmdb.Error], code: int = 0) -> lmdb.Error:
    error = kind("injected", code)
    vars(error)["code"] = code  # only errors that LMDB itself raises come with it
    return error


class Failing:
    """Stands in for an object of LMDB; every method raises."""

    def __init__(self, error: lmdb.Error) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*args: object, **options: object) -> None:
            raise self._error

        return fail


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (error_of(lmdb.DiskError, errno.ENOSPC), StoreFull, "make room"),
        (error_of(lmdb.DiskError, errno.EFBIG), StoreFull, "make room"),  # ulimit -f
        (error_of(lmdb.ReadonlyError, errno.EROFS), PathRefused, "read-only"),
        (error_of(lmdb.LockError, errno.EACCES), PathRefused, "owner and mode"),
        (error_of(lmdb.InvalidError), StoreDamaged, "restore a backup"),
        (error_of(lmdb.MemoryError, errno.ENOMEM), StoreFull, "address space"),
    ],
)
async def test_an_error_at_open_says_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Any,
    error: lmdb.Error,
    kind: type[StoreError],
    word: str,
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(lmdb, "open", fail)
    await refused(tmp_path, kind, word)
    monkeypatch.undo()
    async with LmdbStore(tmp_path) as store:
        assert store.epoch == 1


def test_errors_of_reads_are_damage_and_those_of_commits_leave_the_outcome_unknown() -> None:
    failing: Any = Failing(error_of(lmdb.PageNotFoundError))
    env = _lmdb.Env("name", failing)
    txn = _lmdb.WriteTxn("name", failing, {"log": None})
    writes = Writes()
    writes["log"] = {b"k": b"v"}
    reads = (
        env.is_blank,
        lambda: env.peek("log", b"k"),
        lambda: env.read("log", b"k"),
        lambda: env.scan("log", b"k", b"", None),
        lambda: env.open_tables(("log",)),
        lambda: txn.read("log", b"k"),
        lambda: txn.items("log", b"k", b"", None),
        lambda: txn.keys("log", b"k", None),
        lambda: txn.last_key("log"),
    )
    for read in reads:
        with pytest.raises(StoreDamaged, match="'name' cannot be read"):
            read()
    for write in (env.begin, env.sync, txn.commit, lambda: txn.write(writes)):
        with pytest.raises(StoreLost, match="outcome unknown"):
            write()


def test_a_put_that_lmdb_refuses_without_an_exception_is_noticed() -> None:
    class Refusing:
        def cursor(self, **options: object) -> Any:
            return nullcontext(self)

        def putmulti(self, rows: Any) -> tuple[int, int]:
            return len(rows), len(rows) - 1

    refusing: Any = Refusing()
    writes = Writes()
    writes["log"] = {b"k": b"v"}
    with pytest.raises(StoreLost, match="refused"):
        _lmdb.WriteTxn("name", refusing, {"log": None}).write(writes)


def test_bytes_that_trip_the_verifier_itself_are_a_problem_too(tmp_path: Path) -> None:
    assert _lmdb.problems_of(tmp_path / "missing")
    (tmp_path / "short").write_bytes(b"\xde\xc0\xef\xbe" * 10)
    assert _lmdb.problems_of(tmp_path / "short")

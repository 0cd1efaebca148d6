"""What happened to the file since it was closed: found before it is mapped."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import lmdb
import pytest

from trouper.errors import (
    CorruptRecord,
    PathRefused,
    StoreDamaged,
)
from trouper.store import LmdbStore, _engine, _lmdb, verify


@pytest.mark.parametrize("how", ["emptied", "removed"])
async def test_a_store_that_lost_its_data_is_not_silently_begun_anew(
    state: Path, how: str, refused: Any
) -> None:
    data = state / "data.mdb"
    data.write_bytes(b"") if how == "emptied" else data.unlink()
    error = await refused(state, StoreDamaged, "its data is gone")
    assert error.facts["where"] == "data.mdb"


async def test_a_creation_that_was_cut_short_is_begun_anew(tmp_path: Path, opened: Any) -> None:
    (tmp_path / "data.mdb").touch()
    await opened(tmp_path)
    lmdb.open(str(tmp_path / "blank"), lib_version=0).close()  # mapped, but nothing committed
    await opened(tmp_path / "blank")


@pytest.mark.parametrize(
    "left", [(8192, 8192), (4096, 8192), (0, 4096), (0, 8192), (0, 4096 + 512), (4096, 4096 + 512)]
)
async def test_a_creation_that_was_cut_short_by_a_power_loss_is_begun_anew(
    tmp_path: Path, opened: Any, left: tuple[int, int]
) -> None:
    lmdb.open(str(tmp_path), lib_version=0).close()
    data = tmp_path / "data.mdb"
    pages = data.read_bytes()
    data.write_bytes(bytes(left[0]) + pages[left[0] : left[1]])
    with pytest.raises(PathRefused, match="there is no store"):
        verify(tmp_path)
    await opened(tmp_path)
    assert verify(tmp_path).ok


OPEN_AND_READ_ALL = """
async def main(path):
    try:
        async with LmdbStore(path) as store:
            rows = sum(len(store.scan(table, b"", Row)) for table in TABLES)
        return f"read {rows}"
    except (StoreDamaged, CorruptRecord) as error:
        return type(error).__name__

for case in sorted(path.iterdir()):
    print(case.name, flush=True)
    print(trio.run(main, case), flush=True)
"""


def damage(data: bytes, kind: str, page: int) -> bytes:
    at, size = page * 4096, 4096
    if kind == "cut":
        return data[:at]
    if kind == "zero":
        return data[:at] + bytes(size) + data[at + size :]
    if kind == "noise":
        return data[:at] + bytes((i * 89 + 7) % 256 for i in range(size)) + data[at + size :]
    raise AssertionError(kind)


async def test_no_damaged_page_kills_the_process_or_passes_for_data(
    state: Path, tmp_path: Path, child: Any
) -> None:
    data = (state / "data.mdb").read_bytes()
    cases = tmp_path / "cases"
    pages = len(data) // 4096
    assert pages > 10
    for page in range(pages):
        for kind in ("cut", "zero", "noise"):
            case = cases / f"{kind}-{page:03}"
            case.mkdir(parents=True)
            (case / "store.json").write_bytes((state / "store.json").read_bytes())
            (case / "owner.lock").write_bytes((state / "owner.lock").read_bytes())
            (case / "data.mdb").write_bytes(damage(data, kind, page))
    run = child(OPEN_AND_READ_ALL, cases)
    assert run.returncode == 0, f"died at {run.stdout.splitlines()[-1]}: {run.stderr}"
    lines = run.stdout.splitlines()
    verdicts = dict(zip(lines[::2], lines[1::2], strict=True))
    assert len(verdicts) == pages * 3
    assert set(verdicts.values()) == {"StoreDamaged", "read 50"}
    assert {v for k, v in verdicts.items() if k.endswith("-000")} == {"StoreDamaged"}
    # Free pages may hold anything; a live one that is cut off never passes.
    assert verdicts["cut-002"] == "StoreDamaged"


async def test_a_flipped_bit_in_a_value_is_one_corrupt_row(state: Path, row: Any) -> None:
    data = bytearray((state / "data.mdb").read_bytes())
    row_25 = b"x" * 500 + b"\x18\x19\xf6"  # name, number, value; also on stale pages
    at = data.find(row_25)
    while at >= 0:
        data[at] ^= 1
        at = data.find(row_25, at)
    (state / "data.mdb").write_bytes(data)
    async with LmdbStore(state) as store:
        good, bad = 0, []
        for index in range(50):
            try:
                assert store.get("record", b"k%02d" % index, row) == row("x" * 500, index)
                good += 1
            except CorruptRecord as error:
                bad.append((error.table, error.key))
    assert (good, bad) == (49, [("record", b"k25".hex())])


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Path]:

    seen: list[Path] = []
    real = _lmdb.problems_of

    def spy(data: Path) -> list[str]:
        seen.append(data)
        return real(data)

    monkeypatch.setattr(_engine, "problems_of", spy)
    return seen


async def test_a_cleanly_closed_store_is_mapped_at_once(
    state: Path, verified: list[Path], opened: Any
) -> None:
    await opened(state)
    assert verified == []
    await opened(state, verify="always")
    assert verified == [state / "data.mdb"]


@pytest.mark.parametrize("how", ["touched", "replaced", "stamp torn", "stamp missing"])
async def test_what_its_owner_did_not_leave_so_is_verified_first(
    state: Path, verified: list[Path], how: str, opened: Any
) -> None:
    data = state / "data.mdb"
    if how == "touched":
        os.utime(data, ns=(1, 1))
    elif how == "replaced":
        copy = state / "copy"
        copy.write_bytes(data.read_bytes())
        os.utime(copy, ns=(data.stat().st_atime_ns, data.stat().st_mtime_ns))
        copy.replace(data)
    elif how == "stamp torn":
        (state / "owner.lock").write_text('{"pid": 1, "cle')
    else:
        (state / "owner.lock").unlink()
    await opened(state)
    assert verified == [data]


async def test_a_store_that_was_not_closed_is_verified_first(
    tmp_path: Path, verified: list[Path], child: Any, opened: Any
) -> None:
    code = """
async def main():
    async with LmdbStore(path) as store:
        await store.commit(put(b"k", Row("kept")))
        os._exit(3)
trio.run(main)
"""
    assert child(code, tmp_path).returncode == 3
    await opened(tmp_path)
    assert verified == [tmp_path / "data.mdb"]


# --- killed while it opens --------------------------------------------------------------------

KILLED = """
import trouper.store._engine as engine

name, when, module = sys.argv[2:]
owner = engine.Env if module == "Env" else engine.LmdbEngine if module == "Engine" else engine
real = getattr(owner, name)

def kill(*args, **kwargs):
    if when == "after":
        real(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, kill)

async def main():
    async with LmdbStore(path):
        pass
trio.run(main)
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("engine", "prepare"),
        ("engine", "has_data"),
        ("Env", "open"),
        ("Engine", "_commit_state"),
        ("engine", "write_identity"),
    ],
)
@pytest.mark.parametrize("fresh", [True, False])
async def test_killed_at_any_step_of_opening_it_opens_again_with_all_its_rows(
    tmp_path: Path, child: Any, row: Any, put: Any, fresh: bool, module: str, name: str, when: str
) -> None:
    path = tmp_path / "state"
    if not fresh:
        async with LmdbStore(path) as store:
            await store.commit(put(b"k", row("kept")))
        if name == "write_identity":
            (path / "store.json").unlink()
    assert child(KILLED, path, name, when, module).returncode == -signal.SIGKILL
    committed = (name, when) == ("_commit_state", "after") or name == "write_identity"
    async with LmdbStore(path) as store:
        assert store.epoch == 1 + (not fresh) + committed
        assert store.get("record", b"k", row) == (None if fresh else row("kept"))

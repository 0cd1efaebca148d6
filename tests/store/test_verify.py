"""The offline verifier: it finds what is wrong, changes nothing, and survives every damage."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import lmdb
import lmdb.verify
import pytest

from trouper.errors import FormatTooNew, PathRefused, StoreDamaged, StoreOwned, WrongEngine
from trouper.store import LmdbStore, Report, Tx, verify
from trouper.store._frame import pack
from trouper.store._pages import Broken, Pages


@pytest.fixture
async def rich(tmp_path: Path, row: Any) -> Path:
    """A closed store with branch pages, overflow pages, free pages and several tables."""
    path = tmp_path / "rich"

    def write(tx: Tx) -> None:
        for index in range(400):
            tx.put("record", b"k%03d" % index, row("x" * (index % 300), index))
            tx.append(row("log", index))
        for index in range(5):
            tx.put("group", b"big%d" % index, row("big", index, bytes([index]) * 10_000 * index))

    def remove(tx: Tx) -> None:
        for index in range(0, 400, 3):
            tx.delete("record", b"k%03d" % index)
        tx.delete("group", b"big4")

    async with LmdbStore(path) as store:
        await store.commit(write)
        await store.commit(remove)
        await store.commit(lambda tx: tx.put("settle", b"s", row("s")))
    return path


def content(path: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in path.iterdir()}


async def test_a_sound_store_has_no_findings_and_is_not_changed(rich: Path) -> None:
    before = content(rich)
    seen: list[tuple[int, int]] = []
    report = verify(rich, progress=lambda done, total: seen.append((done, total)))
    assert report.ok, report.findings
    assert dict(report.rows) == {
        "group": 4,
        "log": 400,
        "meta": 0,
        "record": 266,
        "settle": 1,
        "store": 1,
    }
    identity = json.loads((rich / "store.json").read_text())
    assert (report.path, report.uuid, report.epoch) == (str(rich), identity["uuid"], 1)
    assert report.pages * report.page_size == (rich / "data.mdb").stat().st_size
    assert report.unknown == ()
    assert seen == sorted(seen)
    assert seen[-1] == (report.pages, report.pages)
    assert content(rich) == before


async def test_the_pages_hold_what_lmdb_reads(rich: Path) -> None:
    def no_damage(what: str) -> None:
        raise AssertionError(what)

    with (
        lmdb.open(str(rich), max_dbs=16, readonly=True) as env,
        Pages(rich / "data.mdb", no_damage) as pages,
    ):
        tables = pages.tables()
        assert len(tables) == 6
        for name, tree in tables.items():
            db = env.open_db(name.encode(), create=False)
            with env.begin(db=db) as txn:
                rows = list(pages.rows(tree))
                assert rows == list(txn.cursor())
                assert len(rows) == tree.entries


async def test_a_live_store_is_not_verified(state: Path) -> None:
    async with LmdbStore(state):
        with pytest.raises(StoreOwned, match="this process has it open"):
            verify(state)
    assert verify(state).ok


async def test_a_copy_of_the_data_alone_can_be_verified(state: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "data.mdb").write_bytes((state / "data.mdb").read_bytes())
    report = verify(copy)
    assert (report.ok, dict(report.rows)["record"]) == (True, 50)
    assert [p.name for p in copy.iterdir()] == ["data.mdb"]


@pytest.mark.parametrize(
    ("make", "error", "word"),
    [
        (lambda path: None, PathRefused, "there is nothing"),
        (lambda path: path.touch(), PathRefused, "not a directory"),
        (lambda path: path.mkdir(), PathRefused, "there is no store"),
    ],
)
def test_where_there_is_no_store_there_is_nothing_to_verify(
    tmp_path: Path, make: Any, error: type[Exception], word: str
) -> None:
    path = tmp_path / "path"
    make(path)
    with pytest.raises(error, match=word):
        verify(path)


async def test_a_store_of_another_version_is_not_judged(state: Path, tmp_path: Path) -> None:
    identity = json.loads((state / "store.json").read_text())
    (state / "store.json").write_text(json.dumps(identity | {"format": 3}))
    with pytest.raises(FormatTooNew):
        verify(state)
    other = tmp_path / "other"
    with lmdb.open(str(other), lib_version=1) as env, env.begin(write=True) as txn:
        txn.put(b"k", b"v")
    with pytest.raises(WrongEngine):
        verify(other)


def findings(report: Report) -> list[tuple[str, str]]:
    assert not report.ok
    return [(finding.table, finding.key) for finding in report.findings]


async def test_a_bad_row_is_named_with_table_key_and_reason(state: Path) -> None:
    good = pack(b"wrong", b"\x80")
    bad = {b"flipped": b"\1\0abcdbody", b"moved": good, b"no row": pack(b"no row", b"\x80")}
    foreign = pack(b"of an app", bytes.fromhex("836361707001") + b"\xf6")  # ["app", 1, None]
    newer = pack(b"newer", bytes.fromhex("836f") + b"tests.store.row" + b"\x18\x63\xf6")
    with (
        lmdb.open(str(state), max_dbs=16) as env,
        env.begin(write=True, db=env.open_db(b"group", create=False)) as txn,
    ):
        for key, frame in bad.items():
            txn.put(key, frame)
        txn.put(b"of an app", foreign)
        txn.put(b"newer", newer)
    report = verify(state)
    assert findings(report) == [("group", key.hex()) for key in bad]
    whats = [finding.what for finding in report.findings]
    assert "checksum" in whats[0]
    assert "checksum" in whats[1]
    assert "not an array of kind" in whats[2]
    assert str(report.findings[0]) == f"table 'group', row {b'flipped'.hex()}: {whats[0]}"
    assert report.unknown == (("app", 1, 1), ("tests.store.row", 99, 1))


@pytest.mark.parametrize("name", ["store.json", "data.mdb"])
async def test_lost_and_foreign_parts_are_findings(
    state: Path, tmp_path: Path, name: str, opened: Any
) -> None:
    await opened(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, state / name)
    report = verify(state)
    assert "lives in this directory" in report.findings[0].what
    (state / name).write_bytes(b"")
    assert ("", "") in findings(verify(state))
    (state / name).unlink()
    assert verify(state).ok is (name == "store.json")


def damage(data: bytearray, kind: str, dice: random.Random, pages: list[int]) -> None:
    """Damage a data file; ``pages`` are those to choose from."""
    at = dice.choice(pages) * 4096
    if kind == "cut":
        del data[at:]
    elif kind == "zeros":
        data[at : at + 4096] = bytes(4096)
    elif kind == "noise":
        data[at : at + 4096] = dice.randbytes(4096)
    elif kind == "header":
        data[at + dice.randrange(24)] = dice.randrange(256)
    elif kind == "bit":
        data[at + dice.randrange(4096)] ^= 1 << dice.randrange(8)
    elif kind == "swapped":
        other = dice.choice(pages) * 4096
        data[at : at + 4096], data[other : other + 4096] = (
            data[other : other + 4096],
            data[at : at + 4096],
        )
    else:
        raise AssertionError(kind)


def damages(rich: Path, rounds: int) -> tuple[int, int]:
    """Damage copies at random; return how many were seen, and how many rows were still read."""
    data = (rich / "data.mdb").read_bytes()
    sound = dict(verify(rich).rows)
    victim = rich.parent / "victim"
    shutil.copytree(rich, victim)
    seen = kept = 0
    for seed in range(rounds):
        dice = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(dice.choice((1, 1, 5))):
            kind = dice.choice(("cut", "zeros", "noise", "header", "bit", "swapped"))
            damage(damaged, kind, dice, list(range(len(damaged) // 4096)))
            if not damaged:
                break
        (victim / "data.mdb").write_bytes(damaged)
        try:
            report = verify(victim)
        except WrongEngine:  # the header said so
            continue
        rows = dict(report.rows)
        seen += not report.ok
        kept += sum(rows.values())
        assert all(rows[table] <= sound[table] for table in rows)
        if report.ok and damaged != data:
            assert rows == sound, f"seed {seed}: rows are gone and nothing was found"
    return seen, kept


async def test_no_damage_stops_it_and_what_is_left_is_still_read(rich: Path) -> None:
    seen, kept = damages(rich, 60)
    assert seen > 30
    assert kept > 60 * 50


@pytest.mark.soak
async def test_no_damage_of_thousands_stops_it(rich: Path) -> None:
    seen, _ = damages(rich, 2000)
    assert seen > 1200


async def test_one_sound_meta_page_of_two_is_enough_to_read_by(state: Path) -> None:
    data = bytearray((state / "data.mdb").read_bytes())
    for at in (0, 4096):
        half = data.copy()
        half[at : at + 200] = bytes(200)
        (state / "data.mdb").write_bytes(half)
        report = verify(state)
        assert not report.ok
        assert dict(report.rows)["record"] >= 49, "the other page is one commit older at most"
    (state / "data.mdb").write_bytes(bytes(8192) + data[8192:])
    assert dict(verify(state).rows) == {}
    with pytest.raises(Broken, match="neither"):
        Pages(state / "data.mdb", print)


async def test_a_page_that_the_disk_cannot_read_costs_only_its_rows(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread
    total, reads = dict(verify(state).rows)["record"], 0

    def fail(fd: int, size: int, at: int) -> bytes:
        nonlocal reads
        reads += size == 4096
        if reads == 4:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", fail)
    report = verify(state)
    assert [f.what for f in report.findings if "the disk cannot read" in f.what]
    assert sum(dict(report.rows).values()) > 0
    assert dict(report.rows)["record"] <= total


async def test_a_store_that_the_disk_cannot_read_is_refused_and_not_mapped(
    state: Path, monkeypatch: pytest.MonkeyPatch, opened: Any
) -> None:
    def fail(*args: object, **options: object) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(lmdb.verify, "verify", fail)
    with pytest.raises(StoreDamaged, match="Input/output error"):
        await opened(state, verify="always")


async def test_a_tree_that_runs_in_a_circle_ends(rich: Path) -> None:
    data = bytearray((rich / "data.mdb").read_bytes())
    branches = [
        at
        for at in range(0, len(data), 4096)
        if data[at + 10] == 1 and int.from_bytes(data[at : at + 8], "little") == at // 4096
    ]
    assert branches
    for at in branches:  # the first child of each is itself
        node = at + int.from_bytes(data[at + 16 : at + 18], "little")
        data[node : node + 6] = (at // 4096).to_bytes(6, "little")
    (rich / "data.mdb").write_bytes(data)
    whats = [finding.what for finding in verify(rich).findings]
    assert any("used twice" in what for what in whats)

"""Dump: every row as data, and of a damaged store all that is readable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import CorruptRecord, PathRefused, StoreDamaged, StoreOwned
from trouper.store import (
    DumpedRow,
    Finding,
    LmdbStore,
    RecordsRow,
    Tx,
    dump,
    encode,
    encode_record,
    verify,
)
from trouper.store._frame import pack


def names(path: Path, **options: Any) -> set[bytes]:
    return {row.key for row in dump(path, **options)}


async def test_every_row_comes_in_order_with_its_fields_by_name(state: Path) -> None:
    *rows, own = dump(state)
    assert [row.key for row in rows] == [b"k%02d" % index for index in range(50)]
    assert rows[3] == DumpedRow(
        "record", b"k03", "tests.store.row", 1, {"name": "x" * 500, "number": 3, "value": None}
    )
    assert (own.table, own.kind) == ("store", "store.state")


async def test_tables_can_be_chosen(state: Path, row: Any) -> None:
    async with LmdbStore(state) as store:
        await store.commit(lambda tx: tx.append(row("log")))
    assert [r.table for r in dump(state, tables=["log", "group"])] == ["log"]


async def test_a_kind_that_this_program_does_not_know_is_shown_by_position(
    state: Path, child: Any
) -> None:
    code = (
        "@record('tests.other')\n@dataclass(frozen=True, slots=True)\n"
        "class Other:\n    a: int\n    b: str\n"
        "async def main():\n"
        "    async with LmdbStore(path) as s: await s.commit(put(b'o', Other(1, 'two')))\n"
        "trio.run(main)"
    )
    assert child(code, state).returncode == 0
    (found,) = (row for row in dump(state) if row.key == b"o")
    assert found == DumpedRow("record", b"o", "tests.other", 1, [1, "two"])


async def test_a_store_in_use_is_dumped_by_another_process_as_of_one_commit(
    state: Path, row: Any, put: Any, child: Any
) -> None:
    code = "print(len(list(dump(path))), [r.key for r in dump(path, tables=['record'])][0])"
    async with LmdbStore(state) as store:
        await store.commit(put(b"a", row("new")))
        done = child(code, state)
        with pytest.raises(StoreOwned, match="this process"):
            names(state)
    assert (done.stdout, done.stderr) == ("52 b'a'\n", "")


async def test_a_damaged_row_raises_or_is_told_and_passed_over(state: Path) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"k07" + pack(b"k07", b"")[:2], b"k07\xff\xff"))
    with pytest.raises(CorruptRecord, match=b"k07".hex()):
        names(state)
    told: list[Finding] = []
    assert b"k07" not in (found := names(state, broken=told.append))
    assert len(found) == 50
    assert [(finding.table, finding.key) for finding in told] == [("record", b"k07".hex())]


async def test_broken_pages_cost_their_own_rows_only(tmp_path: Path, row: Any) -> None:
    def write(tx: Tx) -> None:
        for index in range(400):
            tx.put("record", b"k%03d" % index, row("x" * 200, index))

    async with LmdbStore(tmp_path) as store:
        await store.commit(write)
    data = tmp_path / "data.mdb"
    raw = bytearray(data.read_bytes())
    page = raw.index(b"k200") // 4096 * 4096
    raw[page : page + 4096] = bytes(4096)
    data.write_bytes(raw)
    with pytest.raises(StoreDamaged):
        names(tmp_path)
    told: list[Finding] = []
    found = names(tmp_path, broken=told.append)
    assert told
    assert 360 < len(found) < 400
    assert b"k200" not in found


async def test_when_nothing_can_be_read_it_says_so(state: Path) -> None:
    data = state / "data.mdb"
    raw = bytearray(data.read_bytes())
    raw[4096:8192] = bytes(4096)
    raw[24:4096] = bytes(4072)
    data.write_bytes(raw)
    with pytest.raises(StoreDamaged):
        names(state, broken=lambda _: None)


@pytest.mark.parametrize("place", ["nowhere", "empty", "file"])
def test_where_no_store_is_it_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(PathRefused):
        names(tmp_path / place)
    assert os.listdir(tmp_path / "empty") == []


@pytest.mark.parametrize("place", ["identity", "first meta page"])
async def test_damage_around_the_pages_costs_no_row(state: Path, place: str) -> None:
    sound, data = names(state), state / "data.mdb"
    if place == "identity":
        (state / "store.json").write_text("{")
    else:
        data.write_bytes(b"\xff" * 4096 + data.read_bytes()[4096:])
    with pytest.raises(StoreDamaged):
        names(state)
    told: list[Finding] = []
    assert names(state, broken=told.append) == sound
    assert [(finding.table, "is damaged at" in finding.what) for finding in told] == [("", True)]


async def test_a_store_without_its_data_says_so(state: Path) -> None:
    (state / "data.mdb").unlink()
    with pytest.raises(StoreDamaged, match="its data is gone"):
        names(state, broken=lambda _: None)
    (finding,) = verify(state).findings
    assert "its data is gone" in finding.what


async def test_a_corrupt_row_is_named_once(state: Path) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"k07" + pack(b"k07", b"")[:2], b"k07\xff\xff"))
    told: list[Finding] = []
    names(state, broken=told.append)
    assert str(told[0]).count(b"k07".hex()) == 1


async def test_the_records_of_a_history_are_shown_one_by_one(
    tmp_path: Path, row: Any, put: Any
) -> None:
    other = encode(["tests.unknown", 1, 7])
    records = RecordsRow(1, [encode_record(row("first")), other, b"\xff"])
    async with LmdbStore(tmp_path) as store:
        await store.commit(put(b"E", records))
    (found,) = dump(tmp_path, tables=["record"])
    assert found.fields == {
        "first": 1,
        "records": [
            {
                "kind": "tests.store.row",
                "version": 1,
                "fields": {"name": "first", "number": 0, "value": None},
            },
            {"kind": "tests.unknown", "version": 1, "fields": [7]},
            {"encoded": b"\xff"},
        ],
    }

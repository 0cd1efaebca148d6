"""Check: what the verifier finds, and what invariants from above find between rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import PathRefused, StoreOwned
from trouper.store import Finding, LmdbStore, Rows, check
from trouper.store._verify import MAX_FINDINGS


def nothing_is_wrong(rows: Rows) -> Iterator[Finding]:
    yield from ()


async def test_an_invariant_sees_the_rows_and_its_findings_are_reported(
    state: Path, row: Any
) -> None:
    def none_has_seven(rows: Rows) -> Iterator[Finding]:
        for key, found in rows.scan("record", b"k0", row):
            if found.number == 7:
                yield Finding("record", key.hex(), "seven")
        assert rows.get("record", b"k01", row) == row("x" * 500, 1)
        assert rows.get("record", b"none", row) is None
        assert rows.get("no table", b"none", row) is None
        assert list(rows.scan("no table", b"", row)) == []

    report = check(state, invariants=[nothing_is_wrong, none_has_seven])
    assert report.findings == (Finding("record", b"k07".hex(), "seven"),)
    assert not report.ok


async def test_a_damaged_row_is_left_out_of_the_comparison(state: Path, row: Any) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"x" * 500, b"x" * 499 + b"y"))
    seen: list[bytes] = []

    def see(rows: Rows) -> Iterator[Finding]:
        seen.extend(key for key, _ in rows.scan("record", b"", row))
        yield from ()

    report = check(state, invariants=[see])
    assert len(report.findings) == 50
    assert seen == []


async def test_rows_on_broken_pages_are_not_compared(state: Path) -> None:
    data = state / "data.mdb"
    data.write_bytes(data.read_bytes()[:-4096])
    called: list[Rows] = []

    def see(rows: Rows) -> Iterator[Finding]:
        called.append(rows)
        yield from ()

    assert not check(state, invariants=[see]).ok
    assert called == []


async def test_findings_are_bounded_and_the_rest_counted(state: Path) -> None:
    def many(rows: Rows) -> Iterator[Finding]:
        for index in range(MAX_FINDINGS + 5):
            yield Finding("record", "00", str(index))

    report = check(state, invariants=[many])
    assert (len(report.findings), report.more) == (MAX_FINDINGS, 5)


async def test_a_store_in_use_is_not_checked(state: Path) -> None:
    async with LmdbStore(state):
        with pytest.raises(StoreOwned):
            check(state)


def test_where_no_store_is_nothing_is_checked(tmp_path: Path) -> None:
    with pytest.raises(PathRefused):
        check(tmp_path)

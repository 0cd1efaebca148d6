"""Histories: what an owner seals is what a reader finds, wherever it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper._ids import Incarnation
from trouper.errors import CorruptRecord, TooLarge
from trouper.store import (
    HISTORY,
    HeadRow,
    MemoryStore,
    Places,
    RecordsRow,
    SealedRow,
    Trail,
    block_key,
    encode_record,
    read_head,
    read_records,
    read_rows,
    record,
    records_key,
)
from trouper.store._codec import INT_MAX, MAX_BYTES
from trouper.store._records import from_frame, to_frame
from trouper.store._trail import BLOCK, ROW_BYTES, ROW_RECORDS, TAIL_BYTES, TAIL_RECORDS

T = TypeVar("T")
KEY = "alice"
LONG = "x" * TAIL_BYTES  # a record with it has a row of its own


@record("tests.trail.noted")
@dataclass(frozen=True, slots=True)
class Noted:
    number: int
    text: str = ""


class Rows(dict[bytes, bytes]):
    """One table, to read a history from; it counts what is read."""

    reads = 0

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:  # type: ignore[override]
        assert table == HISTORY
        self.reads += 1
        frame = dict.get(self, key)
        return None if frame is None else from_frame(table, key, frame, kind)

    def head(self) -> HeadRow:
        found = read_head(self, KEY)
        assert found is not None
        return found

    def numbers(self, first: int, last: int) -> list[int]:
        return [noted.number for noted in read_records(self, self.head(), first, last)]


def write(rows: Rows, trail: Trail, units: int, records: int, text: str = "") -> None:
    """Write one unit."""
    noted = [Noted(trail.records + 1 + n, text) for n in range(records)]
    new: list[SealedRow] = []
    trail.add([encode_record(value) for value in noted], new)
    rows.update([*new, trail.seal(units, 0, 0)])


def written(sizes: list[int], *, moves: int = 0, text: str = "") -> Rows:
    """Write units of so many records; every so many of them, by another owner."""
    rows, owner = Rows(), 1
    trail = Trail(KEY, "actor", Places(Incarnation(1, owner)))
    for units, size in enumerate(sizes, 1):
        if moves and units > 1 and units % moves == 0:
            owner += 1
            trail = Trail(KEY, "actor", Places(Incarnation(1, owner)), rows.head())
        write(rows, trail, units, size, text)
    return rows


# --- what is written ------------------------------------------------------------------------------


@given(
    key=st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    numbers=st.lists(st.integers(0, INT_MAX), min_size=3, max_size=3),
    owner=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    sizes=st.lists(st.one_of(st.just(1), st.integers(0, 40)), max_size=60),
    text=st.sampled_from(["", "x" * 100, "x" * 300]),
)
def test_what_is_sealed_is_what_the_encoder_makes(
    key: str, numbers: list[int], owner: tuple[int, int], sizes: list[int], text: str
) -> None:
    """The writer puts rows together from encoded parts; byte for byte they are rows like others."""
    trail, store, rows = Trail(key, "actor", Places(Incarnation(*owner))), MemoryStore(), Rows()
    units, snapshot, replies = numbers
    for size in sizes:
        new: list[SealedRow] = []
        trail.add([encode_record(Noted(n, text)) for n in range(size)], new)
        new.append(trail.seal(units, snapshot, replies))
        for where, frame in new:
            assert store.seal(where, from_frame(HISTORY, where, frame, object)) == (where, frame)
        rows.update(new)
        head = read_head(rows, key)
        assert head is not None
        assert (head.units, head.snapshot, head.replies, head.owner) == (*numbers, owner)
        assert len(head.tail) <= TAIL_RECORDS
        assert sum(map(len, head.tail)) <= TAIL_BYTES
        assert len(head.places) < BLOCK
    total = sum(sizes)
    if total:
        assert head is not None
        assert head.records == total
        found = [noted.number for noted in read_records(rows, head, 1, total)]
        assert found == [n for size in sizes for n in range(size)]


def test_a_row_takes_no_second_record_that_makes_it_long() -> None:
    rows = written([10], text="x" * 400)
    found = [len(row.records) for _, row in read_rows(rows, rows.head(), 1)]
    assert found == [3, 3, 3, 1]
    assert all(len(frame) < ROW_BYTES + 100 for frame in rows.values())
    assert rows.numbers(1, 10) == list(range(1, 11))


def test_the_last_records_lie_in_the_head_until_they_fill_a_row() -> None:
    sizes = {n: len(written([1] * n)) - 1 for n in (1, TAIL_RECORDS, TAIL_RECORDS + 1)}
    assert sizes == {1: 0, TAIL_RECORDS: 0, TAIL_RECORDS + 1: 1}
    assert len(written([1, 1, TAIL_RECORDS + 1])) == 3  # the head, what was in it, and the others
    assert len(written([1] * 100, text="x" * TAIL_BYTES)) == 1 + 100 + 100 // BLOCK


def test_a_row_holds_so_many_records_and_no_more() -> None:
    rows = written([2 * ROW_RECORDS + 1])
    found = [len(row.records) for _, row in read_rows(rows, rows.head(), 1)]
    assert found == [ROW_RECORDS, ROW_RECORDS, 1]


def test_a_record_as_large_as_a_store_takes_it_is_read_again() -> None:
    body = encode_record(Noted(1, "x" * (MAX_BYTES - 30)))
    with pytest.raises(TooLarge):
        encode_record(Noted(1, "x" * MAX_BYTES))
    rows, trail = Rows(), Trail(KEY, "actor", Places(Incarnation(1, 1)))
    new: list[SealedRow] = []
    trail.add([body, body], new)
    rows.update([*new, trail.seal(1, 0, 0)])
    assert [len(noted.text) for noted in read_records(rows, rows.head(), 1, 2)] == [
        MAX_BYTES - 30,
        MAX_BYTES - 30,
    ]


# --- what is read ---------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.one_of(st.just(1), st.integers(0, 70)), min_size=1, max_size=80),
    moves=st.integers(0, 5),
    data=st.data(),
)
def test_any_part_of_a_history_is_read_as_it_was_written(
    sizes: list[int], moves: int, data: st.DataObject
) -> None:
    rows, total = written(sizes, moves=moves), sum(sizes)
    first = data.draw(st.integers(1, total + 1))
    last = data.draw(st.integers(first - 1, total))
    assert rows.numbers(first, last) == list(range(first, last + 1))


def test_two_histories_of_one_owner_lie_one_behind_the_other() -> None:
    places, rows = Places(Incarnation(3, 1)), Rows()
    both = [Trail(key, "actor", places) for key in ("alice", "bob")]
    for units in range(1, 100):
        for trail in both:
            write(rows, trail, units, TAIL_RECORDS + 1)
    keys = sorted(key for key in rows if key[:1] == b"E")
    assert [int.from_bytes(key[9:17], "big") for key in keys] == list(range(1, 199))
    assert rows.numbers(1, 891) == list(range(1, 892))


def test_the_end_of_a_long_history_is_found_without_reading_what_comes_before() -> None:
    rows = written([1] * 50_000)
    rows.reads = 0
    assert rows.numbers(49_990, 50_000) == list(range(49_990, 50_001))
    assert rows.reads < 2 * BLOCK


@pytest.mark.parametrize("missing", [50, 99])
def test_a_gap_is_named_by_the_record_that_is_missing(missing: int) -> None:
    rows = written([1] * 100, text=LONG)
    where = records_key(KEY, Incarnation(1, 1), missing)
    del rows[where]
    with pytest.raises(CorruptRecord, match=f"record {missing} of the history of 'alice'") as found:
        rows.numbers(1, 100)
    assert found.value.facts["key"] == where.hex()


def test_a_block_that_is_missing_is_named() -> None:
    rows = written([1] * 100, text=LONG)
    del rows[block_key(KEY, 1)]
    with pytest.raises(CorruptRecord, match="has to say where records of 'alice' lie") as found:
        rows.numbers(1, 100)
    assert found.value.facts["key"] == block_key(KEY, 1).hex()
    assert rows.numbers(97, 100) == [97, 98, 99, 100]


def test_a_row_of_other_records_is_refused() -> None:
    rows = written([1, 1, 1], text=LONG)
    where = records_key(KEY, Incarnation(1, 1), 2)
    rows[where] = to_frame(where, RecordsRow(7, [encode_record(Noted(7))]))
    with pytest.raises(CorruptRecord, match="it holds record 7, and not 2"):
        rows.numbers(1, 3)


def test_a_head_that_counts_more_than_there_is_is_refused() -> None:
    rows = written([1, 1])
    head = rows.head()
    with pytest.raises(CorruptRecord, match="record 3 of the history"):
        list(read_records(rows, head, 1, 3))

"""What `trouper store check` compares in histories: each rule, broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from trouper import Decision, DurableActor, Request, applies, decides, open_system
from trouper.actors.durable_actors import history_invariants
from trouper.actors.durable_actors._rows import snapshot_key
from trouper.store import (
    HeadRow,
    LmdbStore,
    RecordsRow,
    Tx,
    check,
    encode_record,
    head_key,
    read_head,
    read_rows,
    record,
)
from trouper.store._trail import TAIL_BYTES


@record("tests.invariants.added")
@dataclass(frozen=True, slots=True)
class Added:
    n: int
    note: str = "x" * TAIL_BYTES  # so that it has a row of its own


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Total(Request[int]):
    pass


class Counter(DurableActor[int, Add | Total], name="tests.invariants.counter", snapshot_every=2):
    initial = 0

    @decides(Add)
    def add(self, state: int, message: Add) -> Decision[Added]:
        return Decision([Added(message.n)])

    @decides(Total)
    def total(self, state: int, message: Total) -> Decision[Added, int]:
        return Decision(reply=state)

    @applies(Added)
    def added(self, state: int, what: Added) -> int:
        return state + what.n


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    async with open_system("s", store=path) as system:
        for key in ("a", "b"):
            counter = await system.actor(Counter, key)
            for n in range(5):
                counter.tell(Add(n))
                await counter.ask(Total())  # so that each has a unit, and a row, of its own
    return path


def head(tx: Tx) -> HeadRow:
    found = read_head(tx, "a")
    assert found is not None
    return found


def no_snapshot(tx: Tx) -> None:
    tx.delete("record", snapshot_key("a"))


def a_gap(tx: Tx) -> None:
    (_, second, *_), _ = zip(*read_rows(tx, head(tx), 1), strict=True)
    tx.delete("record", second)


def no_last_record(tx: Tx) -> None:
    key, row = list(read_rows(tx, head(tx), 1))[-1]
    tx.put("record", key, RecordsRow(row.first, row.records[:-1]))


def one_too_many(tx: Tx) -> None:
    key, row = list(read_rows(tx, head(tx), 1))[-1]
    tx.put("record", key, RecordsRow(row.first, row.records * 2))


def another_place(tx: Tx) -> None:
    key, row = list(read_rows(tx, head(tx), 1))[-1]
    tx.put("record", key, RecordsRow(row.first + 1, row.records))


def behind_its_head(tx: Tx) -> None:
    known = head(tx)
    _, row = list(read_rows(tx, known, 1))[-1]
    short = replace(known, records=row.first - 1, snapshot=0, places=known.places[:-1])
    tx.put("record", head_key("a"), short)


def a_short_tail(tx: Tx) -> None:
    known = head(tx)
    row = RecordsRow(5, [encode_record(Added(5, ""))])
    places = known.places[:-1]
    moved = replace(known, records=6, snapshot=0, places=places, tail=row.records)
    tx.put("record", head_key("a"), moved)
    key, _ = list(read_rows(tx, known, 1))[-1]
    tx.delete("record", key)


def no_head(tx: Tx) -> None:
    tx.delete("record", head_key("a"))


BROKEN: list[tuple[Callable[[Tx], None], str]] = [
    (no_snapshot, "the history of 'a' has no snapshot at record 4, where its head says"),
    (a_gap, "the history of 'a' lacks record 2"),
    (no_last_record, "the history of 'a' lacks record 5"),
    (one_too_many, "the history of 'a' goes on to record 6, and its head says 5"),
    (another_place, "the history of 'a' lacks record 5"),
    (behind_its_head, "the history of 'a' has rows of records that its head does not know: 1"),
    (a_short_tail, "the history of 'a' lacks record 5"),
    (no_head, "is a record of a history without a head"),
]


async def test_what_actors_leave_behind_keeps_every_rule(journal: Path) -> None:
    assert check(journal, invariants=[history_invariants]).ok


@pytest.mark.parametrize(("breaks", "says"), BROKEN, ids=lambda p: getattr(p, "__name__", ""))
async def test_a_broken_rule_is_found_once(
    breaks: Callable[[Tx], None], says: str, journal: Path
) -> None:
    async with LmdbStore(journal) as store:
        await store.commit(breaks)
    (finding,) = check(journal, invariants=[history_invariants]).findings
    assert finding.what == says
    assert check(journal).ok

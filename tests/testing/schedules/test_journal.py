"""The journal under a schedule: a store like the others, whose commits are events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, settings
from outcome import Error, Outcome, Value, capture

from trouper._ids import Incarnation
from trouper.errors import SimulatedCrash, StoreClosed
from trouper.store import (
    HeadRow,
    RecordsRow,
    Tx,
    encode_record,
    head_key,
    log_key,
    record,
    records_key,
)
from trouper.testing.conformance import journal as suite
from trouper.testing.conformance._journal_tools import batch, delete_unit, put_unit
from trouper.testing.schedules import Event
from trouper.testing.schedules._event import Kind
from trouper.testing.schedules._journal import Journal, JournalStore
from trouper.testing.schedules._names import key_name, range_name


@record("scheduled", version=1)
@dataclass(frozen=True, slots=True)
class Row:
    number: int


@dataclass
class Hand:
    """A gate whose events take place when the test says so."""

    acting: str = "main"
    offered: dict[Event, Callable[[], None]] = field(
        default_factory=dict[Event, Callable[[], None]]
    )
    noted: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    minted: int = 0

    def owner(self) -> str:
        return self.acting

    def mint(self, kind: Kind, target: str, sender: str, what: str) -> Event:
        self.minted += 1
        return Event(kind, target, sender, what, self.minted)

    def offer(self, event: Event, run: Callable[[], None]) -> None:
        self.offered[event] = run

    def withdraw(self, event: Event) -> None:
        del self.offered[event]

    def note(self, **touched: Iterable[str]) -> None:
        for kind, names in touched.items():
            self.noted.setdefault(kind, set()).update(names)

    def run(self, index: int = 0) -> dict[str, set[str]]:
        """Let one of the pending events take place; return what it touched."""
        self.noted.clear()
        event = list(self.offered)[index]
        self.offered.pop(event)()
        return {kind: names for kind, names in self.noted.items() if names}


# --- it is a store --------------------------------------------------------------------------------


@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
@pytest.mark.parametrize("law", suite.LAWS, ids=lambda law: law.__name__)
async def test_law(law: suite.Law, debug: bool) -> None:
    await law(Journal(debug=debug).store())


def test_it_and_a_dict_stay_equal() -> None:
    case = suite.machine(lambda: Journal().store()).TestCase
    case.settings = settings(
        max_examples=12,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").debug()


# --- commits are events ---------------------------------------------------------------------------


def told(verdicts: list[str], name: str) -> Callable[[Outcome[Any]], None]:
    return lambda verdict: verdicts.append(name)


async def test_a_unit_runs_when_its_event_takes_place_and_not_before() -> None:
    gate, verdicts = Hand(), list[str]()
    journal = Journal(gate)
    async with journal.store() as store:
        gate.acting = "d1"
        store.submit(put_unit("record", b"a", Row(1)), told(verdicts, "a"))
        gate.acting = "d2"
        store.submit(put_unit("record", b"b", Row(2)), told(verdicts, "b"))
        await trio.testing.wait_all_tasks_blocked()
        assert [(e.kind, e.target) for e in gate.offered] == [("commit", "d1"), ("commit", "d2")]
        assert journal.scan("record", b"", Row) == []
        gate.run(1)
        assert verdicts == ["b"]
        assert journal.scan("record", b"", Row) == [(b"b", Row(2))]
        gate.run()
        assert verdicts == ["b", "a"]


async def test_a_unit_that_was_taken_back_is_no_event_any_more() -> None:
    gate = Hand()
    async with Journal(gate).store() as store:
        submission = store.submit(put_unit("record", b"a", Row(1)), lambda verdict: None)
        assert submission.withdraw()
        assert gate.offered == {}
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, put_unit("record", b"b", Row(1)))
                await trio.testing.wait_all_tasks_blocked()
                assert len(gate.offered) == 1
                scope.cancel()
        assert gate.offered == {}


async def test_closing_writes_what_is_pending() -> None:
    gate, verdicts = Hand(), list[str]()
    journal = Journal(gate)
    async with journal.store() as store:
        store.submit(put_unit("record", b"a", Row(1)), told(verdicts, "a"))
    assert verdicts == ["a"]
    assert gate.offered == {}
    assert journal.get("record", b"a", Row) == Row(1)


# --- what is touched ------------------------------------------------------------------------------

IDENT = b"x" * 17


def read_some(tx: Tx) -> None:
    tx.get("record", b"a", Row)
    tx.scan("record", IDENT + b"12", Row)
    tx.keys("record", b"ab")
    tx.scan("group", b"", Row)


async def touched(*units: Callable[[Tx], Any]) -> dict[str, set[str]]:
    gate = Hand()
    async with Journal(gate).store() as store:
        found: dict[str, set[str]] = {}
        for unit in units:
            store.submit(unit, lambda verdict: None)
            found = gate.run()
        return found


async def test_a_unit_reports_the_keys_and_the_ranges_that_it_read() -> None:
    assert await touched(read_some) == {
        "reads": {"record 61"},
        "scans": {f"record {IDENT.hex()}*", "record 61*", "group *"},
    }


async def test_a_unit_that_raises_reports_what_it_read() -> None:
    def fails(tx: Tx) -> None:
        tx.get("record", b"a", Row)
        tx.put("record", b"b", Row(1))
        raise ValueError

    assert await touched(fails) == {"reads": {"record 61"}}


@pytest.mark.parametrize(
    "unit",
    [put_unit("record", IDENT + b"1", Row(1)), lambda tx: delete_unit("record", IDENT + b"1", tx)],
)
async def test_a_write_reports_every_range_that_a_scan_may_name(unit: Callable[[Tx], Any]) -> None:
    found = await touched(put_unit("record", IDENT + b"1", Row(0)), unit)
    assert found["writes"] == {key_name("record", IDENT + b"1")}
    for size in range(len(IDENT) + 2):
        assert range_name("record", (IDENT + b"1")[:size]) in found["fills"]


async def test_two_appends_touch_the_same_key_whatever_their_numbers() -> None:
    first = await touched(lambda tx: tx.append(Row(1)))
    second = await touched(lambda tx: tx.append(Row(1)), lambda tx: tx.append(Row(2)))
    assert first["writes"] & second["writes"] == {"log head"}
    assert first["reads"] == second["reads"] == {"log head"}
    assert range_name("log", b"") in second["fills"]
    assert key_name("log", log_key(2)) in second["writes"]


async def test_reading_outside_of_units_is_reported_too() -> None:
    gate = Hand()
    async with Journal(gate).store() as store:
        store.get("record", b"a", Row)
        assert gate.noted.pop("reads") == {"record 61"}
        store.scan("record", b"ab", Row)
        assert gate.noted.pop("scans") == {"record 61*"}
        assert [item async for item in store.records("k")] == []
        assert gate.noted.pop("reads") == {key_name("record", head_key("k"))}


def records(number: int, row: Row) -> tuple[bytes, RecordsRow]:
    """Return the row of one record of the history of ``k``, and its key."""
    key = records_key("k", Incarnation(1, 1), number)
    return key, RecordsRow(number, [encode_record(row)])


async def test_a_check_reads_without_a_trace() -> None:
    gate = Hand()
    journal = Journal(gate)
    head = HeadRow("k", "test", 1, 1, 0, 0, 1, 1, 0, 0, [1], [])
    async with journal.store() as store:
        store.submit(put_unit("record", head_key("k"), head), lambda verdict: None)
        store.submit(put_unit("record", *records(1, Row(7))), lambda verdict: None)
        gate.run()
        gate.run()
        gate.noted.clear()
        assert journal.history("k") == [(1, Row(7))]
        assert journal.history("other") == []
        assert len(journal.scan("record", b"", object)) == 2
        assert gate.noted == {}


# --- crashes --------------------------------------------------------------------------------------


def refuses(store: JournalStore) -> list[type[BaseException]]:
    calls: list[Callable[[], object]] = [
        lambda: store.get("record", b"a", Row),
        lambda: store.scan("record", b"a", Row),
        lambda: store.submit(put_unit("record", b"z", Row(9)), lambda verdict: None),
        store.next_owner,
    ]
    found = [capture(call) for call in calls]
    return [type(verdict.error) for verdict in found if isinstance(verdict, Error)]


@pytest.mark.proves("Schedules: a crash fences the journal")
async def test_who_survives_a_crash_reads_and_writes_nothing_any_more() -> None:
    gate, verdicts = Hand(), list[str]()
    journal = Journal(gate)
    old = journal.store()
    async with trio.open_nursery() as nursery:

        async def cleans_up() -> None:
            try:
                await old.commit(put_unit("record", b"a", Row(1)))
            finally:
                with trio.CancelScope(shield=True), pytest.raises(SimulatedCrash):
                    await old.commit(put_unit("record", b"clean", Row(1)))

        await old.__aenter__()
        old.submit(put_unit("record", b"kept", Row(0)), told(verdicts, "kept"))
        gate.run()
        nursery.start_soon(cleans_up)
        old.submit(put_unit("record", b"b", Row(2)), told(verdicts, "b"))
        await trio.testing.wait_all_tasks_blocked()
        journal.crash()
        assert gate.offered == {}
        nursery.cancel_scope.cancel()
    assert refuses(old) == [SimulatedCrash] * 4
    await old.__aexit__(None, None, None)
    with pytest.raises(SimulatedCrash, match="life 0"):
        await old.__aenter__()
    assert verdicts == ["kept"]
    assert [key for key, _ in journal.scan("record", b"", Row)] == [b"kept"]


@pytest.mark.proves("Schedules: a crash fences the journal")
async def test_the_next_life_begins_on_the_same_rows_with_a_higher_epoch() -> None:
    journal = Journal()
    async with journal.store() as store:
        await store.commit(put_unit("record", b"a", Row(1)))
        first = store.next_owner()
        journal.crash()
    assert journal.life == 1
    async with journal.store() as store:
        assert store.get("record", b"a", Row) == Row(1)
        assert store.epoch == first.epoch + 1
        assert store.next_owner() == (store.epoch, 1)
        await store.commit(put_unit("record", b"b", Row(2)))
    with pytest.raises(StoreClosed):
        store.get("record", b"a", Row)


@pytest.mark.parametrize("keep", [0, 1, 2, 3])
async def test_a_crash_may_come_behind_any_of_the_pending_units(keep: int) -> None:
    gate, verdicts = Hand(), list[str]()
    journal = Journal(gate)
    async with journal.store() as store:
        for key in (b"a", b"b", b"c"):
            store.submit(put_unit("record", key, Row(1)), told(verdicts, "told"))
        journal.crash(keep=keep)
    assert [key for key, _ in journal.scan("record", b"", Row)] == [b"a", b"b", b"c"][:keep]
    assert verdicts == []


async def test_a_power_cut_may_take_what_a_relaxed_journal_acknowledged() -> None:
    def write(journal: Journal) -> list[bytes]:
        return [key for key, _ in journal.scan("record", b"", Row)]

    journal = Journal(level="relaxed")
    async with journal.store() as store:
        await batch(store, [put_unit("record", key, Row(1)) for key in (b"a", b"b", b"c")])
        await store.commit(lambda tx: tx.append(Row(1)))
        journal.crash(lose=2)
        assert write(journal) == [b"a", b"b"]
    async with journal.store() as store:
        assert await store.commit(lambda tx: tx.append(Row(2))) == 1
        with pytest.raises(ValueError, match="0 to 1"):
            journal.crash(lose=2)


async def test_a_crash_that_cannot_be_is_refused() -> None:
    journal = Journal()
    async with journal.store() as store:
        await store.commit(put_unit("record", b"a", Row(1)))
        with pytest.raises(ValueError, match="loses nothing"):
            journal.crash(lose=1)
        with pytest.raises(ValueError, match="0 to 0"):
            journal.crash(keep=1)
        assert store.get("record", b"a", Row) == Row(1)
    with pytest.raises(ValueError, match="level"):
        Journal(level="lazy")  # type: ignore[arg-type]


async def test_a_verdict_that_was_on_its_way_is_not_told_after_a_crash() -> None:
    journal, verdicts = Journal(), list[Outcome[None]]()
    async with journal.store() as store:
        store.submit(put_unit("record", b"a", Row(1)), verdicts.append)
        journal.crash()
        await trio.testing.wait_all_tasks_blocked()
    assert verdicts == []
    async with journal.store() as store:
        store.submit(put_unit("record", b"a", Row(1)), verdicts.append)
        await trio.testing.wait_all_tasks_blocked()
    assert verdicts == [Value(None)]


async def test_rows_that_contradict_one_another_are_found() -> None:
    journal = Journal()
    async with journal.store() as store:
        head = HeadRow("k", "test", 1, 2, 0, 0, 1, 1, 0, 0, [1, 1], [])
        await store.commit(put_unit("record", head_key("k"), head))
        await store.commit(put_unit("record", *records(1, Row(7))))
        assert len(journal.findings()) == 1
        assert "k" in journal.findings()[0].what
        await store.commit(put_unit("record", *records(2, Row(8))))
        assert journal.findings() == []


@pytest.mark.parametrize("law", suite.LAWS, ids=lambda law: law.__name__)
async def test_law_with_late_verdicts(law: suite.Law) -> None:
    await law(Journal(late=True).store())


async def test_a_late_verdict_is_an_event_of_its_own() -> None:
    gate, verdicts = Hand(), list[str]()
    journal = Journal(gate, late=True)
    async with journal.store() as store:
        gate.acting = "d1"
        store.submit(put_unit("record", b"a", Row(1)), told(verdicts, "a"))
        gate.run()
        assert store.get("record", b"a", Row) == Row(1)
        assert verdicts == []
        assert [(e.kind, e.target, e.sender) for e in gate.offered] == [("reply", "d1", "journal")]
        gate.run()
        assert verdicts == ["a"]


async def test_a_crash_may_come_between_a_commit_and_its_verdict() -> None:
    gate, verdicts = Hand(), list[str]()
    journal = Journal(gate, late=True)
    async with journal.store() as store, trio.open_nursery() as nursery:
        store.submit(put_unit("record", b"a", Row(1)), told(verdicts, "a"))
        nursery.start_soon(store.commit, put_unit("record", b"b", Row(1)))
        await trio.testing.wait_all_tasks_blocked()
        gate.run()
        gate.run()
        journal.crash()
        assert gate.offered == {}
        nursery.cancel_scope.cancel()
    assert verdicts == []
    assert [key for key, _ in journal.scan("record", b"", Row)] == [b"a", b"b"]

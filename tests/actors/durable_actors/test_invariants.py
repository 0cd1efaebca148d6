"""What `trouper store check` compares in histories: each rule, broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from trouper import Decision, DurableActor, applies, decides, open_system
from trouper.actors.durable_actors import history_invariants
from trouper.actors.durable_actors._rows import snapshot_key
from trouper.store import HeadRow, LmdbStore, Tx, check, head_key, read_head, record, record_key


@record("tests.invariants.added")
@dataclass(frozen=True, slots=True)
class Added:
    n: int


@dataclass(frozen=True, slots=True)
class Add:
    n: int


class Counter(DurableActor[int, Add], name="tests.invariants.counter", snapshot_every=2):
    initial = 0

    @decides(Add)
    def add(self, state: int, message: Add) -> Decision[Added]:
        return Decision([Added(message.n)])

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
    return path


def head(tx: Tx) -> HeadRow:
    found = read_head(tx, "a")
    assert found is not None
    return found


def no_snapshot(tx: Tx) -> None:
    tx.delete("record", snapshot_key("a"))


def a_gap(tx: Tx) -> None:
    tx.delete("record", record_key("a", 2))


def no_last_record(tx: Tx) -> None:
    tx.delete("record", record_key("a", 5))


def behind_its_head(tx: Tx) -> None:
    tx.put("record", head_key("a"), replace(head(tx), records=4))


def no_head(tx: Tx) -> None:
    tx.delete("record", head_key("a"))


BROKEN: list[tuple[Callable[[Tx], None], str]] = [
    (no_snapshot, "the history of 'a' has no snapshot at record 5, where its head says"),
    (a_gap, "the history of 'a' lacks record 2"),
    (no_last_record, "the history of 'a' ends at record 4, and its head says 5"),
    (behind_its_head, "the history of 'a' goes on to record 5 behind its head, record 4"),
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

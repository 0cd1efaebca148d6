"""What `trouper store check` compares in groups: each rule, broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trouper import Activation, durable, effect, open_system
from trouper.actors.activations import activation_invariants
from trouper.actors.groups import (
    FINISHED,
    UNFINISHED,
    ChildRow,
    GroupRow,
    MemberRow,
    SweepRow,
    group_invariants,
    member_key,
    take_off,
)
from trouper.actors.groups._retire import retire_scope
from trouper.actors.groups._rows import SettleRow, child_key, group_key, settle_key
from trouper.store import LmdbStore, Tx, check


@effect
async def one(n: int) -> int:
    return n


@durable
async def three(act: Activation) -> list[int]:
    return await act.all_of(*[act.call(one, n) for n in range(3)])


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    async with open_system(
        "s", store=path, effects=[one], activities=[three], keep_groups=True
    ) as system:
        assert await system.run(three, key="k") == [0, 1, 2]
    return path


def child(tx: Tx, group: str, position: int) -> ChildRow:
    found = tx.get("record", child_key(group, position), ChildRow)
    assert found is not None
    return found


def count_too_high(tx: Tx, group: GroupRow) -> None:
    tx.put("group", group_key(group.key), replace(group, counter=4))


def a_child_less(tx: Tx, group: GroupRow) -> None:
    tx.delete("record", child_key(group.key, 2))


def no_settlement(tx: Tx, group: GroupRow) -> None:
    tx.delete("settle", settle_key(group.key, 2))


def a_settlement_of_nobody(tx: Tx, group: GroupRow) -> None:
    tx.put("settle", settle_key(group.key, 9), SettleRow(group.key, 9, 0))


def a_settlement_of_another(tx: Tx, group: GroupRow) -> None:
    holder = next(c for c in (child(tx, group.key, n) for n in range(3)) if c.sequence == 1)
    tx.put("settle", settle_key(group.key, 1), SettleRow(group.key, 1, holder.position + 1))


def a_rank_twice(tx: Tx, group: GroupRow) -> None:
    tx.put("record", child_key(group.key, 0), replace(child(tx, group.key, 0), sequence=2))
    tx.put("record", child_key(group.key, 1), replace(child(tx, group.key, 1), sequence=2))


def a_rank_without_terminal(tx: Tx, group: GroupRow) -> None:
    tx.put("record", child_key(group.key, 1), replace(child(tx, group.key, 1), outcome=b""))


def a_terminal_without_rank(tx: Tx, group: GroupRow) -> None:
    tx.put("record", child_key(group.key, 1), replace(child(tx, group.key, 1), sequence=0))


def no_group(tx: Tx, group: GroupRow) -> None:
    tx.delete("group", group_key(group.key))


def not_listed(tx: Tx, group: GroupRow) -> None:
    take_off(tx, FINISHED, MemberRow(group.scope, "group", group.key))


def listed_as_unfinished(tx: Tx, group: GroupRow) -> None:
    member = MemberRow(group.scope, "group", group.key)
    tx.put("group", member_key(UNFINISHED, member), member)


def retired_and_not_swept(tx: Tx, group: GroupRow) -> None:
    tx.put("group", group_key(group.key), replace(group, retired=True))


BROKEN: list[tuple[Callable[[Tx, GroupRow], None], str]] = [
    (count_too_high, "counts 4 ranks; its children carry [1, 2, 3]"),
    (a_child_less, "has 3 children; there are rows of positions [0, 1]"),
    (no_settlement, "has rank 2 at child"),
    (a_settlement_of_nobody, "has a settlement of rank 9, and no child carries that"),
    (a_settlement_of_another, "settled rank 1 for child"),
    (a_rank_twice, "counts 3 ranks; its children carry"),
    (a_rank_without_terminal, "has a child 1 with a rank and no terminal"),
    (a_terminal_without_rank, "has a child 1 with a terminal and no rank"),
    (no_group, "which is not there"),
    (not_listed, "is not listed as finished in scope 'k#0'"),
    (listed_as_unfinished, "is listed as unfinished in scope 'k#0'"),
    (retired_and_not_swept, "is retired, and 3 of its rows are left in 'record'; no sweep"),
]


async def test_what_a_run_leaves_behind_keeps_every_rule(journal: Path) -> None:
    assert check(journal, invariants=[group_invariants]).ok


@pytest.mark.parametrize(("breaks", "says"), BROKEN, ids=lambda p: getattr(p, "__name__", ""))
async def test_a_broken_rule_is_found(
    breaks: Callable[[Tx, GroupRow], None], says: str, journal: Path
) -> None:
    async with LmdbStore(journal) as store:
        ((_, group),) = store.scan("group", b"G", GroupRow)
        await store.commit(lambda tx: breaks(tx, group))
    report = check(journal, invariants=[group_invariants])
    assert any(says in finding.what for finding in report.findings), report.findings
    assert all(group.key in finding.what for finding in report.findings)
    assert check(journal).ok  # to the store, which knows no groups, its rows are sound


async def test_the_rows_of_a_group_that_is_gone_are_one_finding_in_each_table(
    journal: Path,
) -> None:
    async with LmdbStore(journal) as store:
        ((_, group),) = store.scan("group", b"G", GroupRow)
        await store.commit(lambda tx: no_group(tx, group))
    report = check(journal, invariants=[group_invariants])
    assert [finding.table for finding in report.findings] == ["group", "record", "settle"]


async def test_what_a_sweep_has_still_to_take_is_no_finding(tmp_path: Path) -> None:
    path = tmp_path / "state"

    @durable(name="wide")
    async def wide(act: Activation) -> None:
        await act.all_of(*[act.call(one, n) for n in range(300)])

    options: dict[str, Any] = {"effects": [one], "activities": [wide], "keep_groups": True}
    async with open_system("s", store=path, **options) as system:
        await system.run(wide, key="k")
    async with LmdbStore(path) as store:
        ((_, group),) = store.scan("group", b"G", GroupRow)
        await store.commit(lambda tx: retire_scope(tx, group.scope))
        assert store.scan("group", b"Z", SweepRow)
    assert check(path, invariants=[group_invariants, activation_invariants]).ok

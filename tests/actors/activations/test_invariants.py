"""What `trouper store check` compares in activations: each rule, broken once."""

from __future__ import annotations

from pathlib import Path

import pytest

from trouper import Activation, durable, effect, open_system
from trouper.actors.activations import activation_invariants
from trouper.actors.activations._rows import activation_key, fence_key, steps_prefix
from trouper.actors.groups import GroupRow, MemberRow, begin_run, group_key
from trouper.actors.groups._scopes import leave
from trouper.store import LmdbStore, Tx, check


@effect
async def one(n: int) -> int:
    return n


@durable
async def steps(act: Activation) -> int:
    first = await act.call(one, 1)
    return first + sum(await act.all_of(act.call(one, 2), act.call(one, 3)))


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    async with open_system("s", store=path, effects=[one], activities=[steps]) as system:
        assert await system.run(steps, key="k") == 6
    return path


async def test_what_a_run_leaves_behind_keeps_every_rule(journal: Path) -> None:
    assert check(journal, invariants=[activation_invariants]).ok


async def test_steps_without_their_activation_are_found_once(journal: Path) -> None:
    async with LmdbStore(journal) as store:
        await store.commit(lambda tx: tx.delete("record", activation_key("k")))
    (finding,) = check(journal, invariants=[activation_invariants]).findings
    assert finding.what == "belongs to activation 'k', which is not there"


async def test_a_fence_without_its_activation_is_found(journal: Path) -> None:
    def strip(tx: Tx) -> None:
        tx.delete("record", activation_key("k"))
        for key in tx.keys("record", steps_prefix("k#0")):
            tx.delete("record", key)

    async with LmdbStore(journal) as store:
        await store.commit(strip)
    (finding,) = check(journal, invariants=[activation_invariants]).findings
    assert finding.what == "belongs to activation 'k', which is not there"
    assert finding.key == fence_key("k#0").hex()


async def test_an_activation_without_its_fence_is_found(journal: Path) -> None:
    async with LmdbStore(journal) as store:
        await store.commit(lambda tx: tx.delete("record", fence_key("k#0")))
    (finding,) = check(journal, invariants=[activation_invariants]).findings
    assert finding.what == "activation 'k' has no fence"


async def test_a_step_without_its_group_is_found(journal: Path) -> None:
    async with LmdbStore(journal) as store:
        ((_, group),) = store.scan("group", b"G", GroupRow)
        await store.commit(lambda tx: tx.delete("group", group_key(group.key)))
    (finding,) = check(journal, invariants=[activation_invariants]).findings
    assert finding.what == f"step 1 of 'k#0' is group {group.key!r}, which is not there"


async def test_a_run_that_is_live_after_its_end_is_found(journal: Path) -> None:
    async with LmdbStore(journal) as store:
        await store.commit(lambda tx: begin_run(tx, "k#0", "k", ""))
    report = check(journal, invariants=[activation_invariants])
    assert [f.what for f in report.findings] == ["activation 'k' has ended; its run is live"]


async def test_a_scope_that_lists_what_is_not_there_is_found(journal: Path) -> None:
    async with LmdbStore(journal) as store:
        await store.commit(lambda tx: leave(tx, MemberRow("k#0", "activation", "nobody")))
    report = check(journal, invariants=[activation_invariants])
    says = "scope 'k#0' lists activation 'nobody', which is not there"
    assert [finding.what for finding in report.findings] == [says]

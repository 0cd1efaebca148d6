"""What `trouper store check` compares in activations: each rule, broken once."""

from __future__ import annotations

from pathlib import Path

import pytest

from trouper import Activation, durable, effect, open_system
from trouper.actors.activations import activation_invariants
from trouper.actors.activations._rows import activation_key
from trouper.actors.groups import GroupRow, group_key
from trouper.store import LmdbStore, check


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


async def test_a_step_without_its_group_is_found(journal: Path) -> None:
    async with LmdbStore(journal) as store:
        ((_, group),) = store.scan("group", b"G", GroupRow)
        await store.commit(lambda tx: tx.delete("group", group_key(group.key)))
    (finding,) = check(journal, invariants=[activation_invariants]).findings
    assert finding.what == f"step 1 of 'k#0' is group {group.key!r}, which is not there"

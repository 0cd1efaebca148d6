"""The comparison with the model can fail: some history of each broken host is another one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing
from tests.conformance.planting import Patch, objections

from trouper.actors.groups import (
    Disposition,
    GroupActor,
    GroupDrain,
    GroupHandle,
    GroupRow,
    Settlement,
    _host,
    _ledger,
)
from trouper.actors.groups._rows import GROUP_TABLE, group_key
from trouper.store import MemoryStore, Tx
from trouper.testing.conformance import host

SEEDS = range(25)


def late_callers_get_argument_order(patch: pytest.MonkeyPatch) -> None:
    served = GroupActor.settlement

    def settlement(self: GroupActor, rank: int) -> Settlement:
        in_order = sorted(self.settled, key=lambda child: child.position)
        place = self.settled.index(in_order[rank - 1])
        return replace(served(self, place + 1), rank=rank)

    patch.setattr(GroupActor, "settlement", settlement)


def narrowing_stays_in_memory(patch: pytest.MonkeyPatch) -> None:
    sound = _ledger.close_group

    def close_group(tx: Tx, key: str, seen: int, asked: Disposition) -> GroupRow | None:
        row = sound(tx, key, seen, asked)
        if row is not None:
            tx.put(GROUP_TABLE, group_key(key), replace(row, effective=row.declared))
        return row

    patch.setattr(_host, "close_unit", close_group)


def a_close_counts_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def require_open(self: GroupActor, handle: GroupHandle) -> None:
        pass

    patch.setattr(GroupActor, "require_open", require_open)


def a_drain_runs_whatever_was_declared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDrain, "_cancel", GroupDrain._run)


def whatever_settled_may_retire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupRow, "finished", property(lambda self: self.counter >= self.children))


FAULTS: list[Patch] = [
    late_callers_get_argument_order,
    narrowing_stays_in_memory,
    a_close_counts_for_nothing,
    a_drain_runs_whatever_was_declared,
    whatever_settled_may_retire,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
async def test_a_broken_host_has_a_history_of_its_own(
    plant: Patch, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    plant(monkeypatch)
    for seed in SEEDS:
        if await objects(seed, mock_clock):
            return
    raise AssertionError("no history shows it")


async def objects(seed: int, clock: trio.testing.MockClock) -> bool:
    """Tell whether a history differs, or waits for ever for what the model has."""
    store = MemoryStore()
    bench = host.EmbeddedBench(lambda: store, clock)
    return bool(await objections(host.a_history_is_that_of_the_model, bench, seed))

"""Wide groups cost flushes that do not grow with them, and work that grows in step with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from outcome import Outcome

from trouper import Activation, durable, effect, open_system
from trouper.actors.activations import _history
from trouper.actors.groups import (
    Disposition,
    EffectContext,
    EffectEnvelope,
    EffectGroup,
    GroupDrain,
    GroupRow,
    decode_outcome,
    open_host,
)
from trouper.actors.groups._group import MAX_CHILDREN
from trouper.actors.groups._sweep import SWEEP_ROWS
from trouper.store import MemoryStore, Submission, Tx

T = TypeVar("T")


class Gated:
    """A runner that ends when its gate opens."""

    releasable = False

    def __init__(self, gate: trio.Event) -> None:
        self._gate = gate

    async def run(self, ctx: EffectContext) -> None:
        await self._gate.wait()


class Counts:
    """How many units a store was given, and how many rows the largest of them deleted."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.units = self.deleted = 0
        self._submit = store.submit
        monkeypatch.setattr(store, "submit", self.submit)

    def submit(self, unit: Callable[[Tx], T], done: Callable[[Outcome[T]], None]) -> Submission:
        def counted(tx: Any) -> T:
            result = unit(tx)
            frames = [frame for rows in tx._writes.values() for frame in rows.values()]
            self.deleted = max(self.deleted, frames.count(None))
            return result

        self.units += 1
        return self._submit(counted, done)


def group_of(size: int) -> EffectGroup:
    children = [EffectEnvelope.make("effect", "x", [], {}, "scope", f"g/{n}") for n in range(size)]
    return EffectGroup.of("g", children)


@pytest.mark.parametrize("size", [1000, pytest.param(MAX_CHILDREN, marks=pytest.mark.soak)])
async def test_children_that_end_together_share_one_flush(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, gate = MemoryStore(), trio.Event()
    counts = Counts(store, monkeypatch)
    async with open_host(store, lambda envelope: Gated(gate)) as host:
        handle = await host.open_group(group_of(size))
        assert counts.units == 1
        gate.set()
        while not handle.exhausted:
            await host.next_settlements(handle)
        assert counts.units == 2
        await host.close_group(handle, Disposition.RUN_TO_COMPLETION)
        assert (counts.units, counts.deleted) == (3, 1)
        await host.retire("g")
        await host.retire_scope("scope")
        assert counts.deleted <= SWEEP_ROWS + 10
        assert counts.units <= 3 + 2 * size / SWEEP_ROWS + 5
        assert not any(store.scan(table, b"", object) for table in ("record", "group", "settle"))


async def test_a_drain_of_a_wide_group_looks_at_each_child_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its wait was quadratic: each end looked for the first child that still ran."""
    looks = 0

    class Running(dict[int, Any]):
        def __contains__(self, position: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(position)

    gates = [trio.Event() for _ in range(100)]
    places = iter(gates)
    store = MemoryStore()
    async with open_host(store, lambda envelope: Gated(trio.Event()), shutdown=0) as host:
        await host.open_group(group_of(100))
    async with open_host(store, lambda envelope: Gated(next(places))) as host:
        adopt = host.adopt

        def adopted(*arguments: Any) -> Any:
            actor = adopt(*arguments)
            actor.running = Running(actor.running)
            return actor

        monkeypatch.setattr(host, "adopt", adopted)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(GroupDrain(host).run, "g")
            for gate in gates:
                await trio.testing.wait_all_tasks_blocked()
                gate.set()
    assert looks < 500


async def test_each_rank_is_looked_at_once_however_many_wake_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gates = [trio.Event() for _ in range(100)]
    decoded = 0

    def counted(data: bytes) -> Any:
        nonlocal decoded
        decoded += 1
        return decode_outcome(data)

    @effect(name="gated")
    async def gated(n: int) -> int:
        await gates[n].wait()
        return n

    @durable(name="fan")
    async def fan(act: Activation) -> int:
        return sum(await act.all_of(*[act.call(gated, n) for n in range(100)]))

    monkeypatch.setattr(_history, "decode_outcome", counted)
    store = MemoryStore()
    async with open_system("t", store=store, effects=[gated], activities=[fan]) as system:
        handle = system.start(fan, key="k")
        for gate in gates:
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        assert await handle.result() == 4950
        assert decoded == 100
        ((_, group),) = store.scan("group", b"G", GroupRow)
        assert group.retired

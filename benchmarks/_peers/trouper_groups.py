"""trouper's groups and durable steps through their public surface, on a journal or in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import trio

from _kit.sample import Sample
from trouper import Activation, LmdbStore, MemoryStore, durable, effect, open_system
from trouper.actors.groups import (
    Disposition,
    EffectContext,
    EffectEnvelope,
    EffectGroup,
    EffectHost,
    open_host,
)
from trouper.store import Store

from .disk import Marked, place
from .gate import on_trio


@contextmanager
def on_disk() -> Generator[Store]:
    with place() as where:
        yield LmdbStore(where)


@contextmanager
def in_memory() -> Generator[Store]:
    yield MemoryStore()


Ground = Callable[[], Any]  # returns a context manager that gives a store

# --- groups on a bare host ----------------------------------------------------------------------


class Quick:
    """A child that is done at once: what is measured is the group."""

    releasable = False

    async def run(self, ctx: EffectContext) -> int:
        return ctx.attempt


def group_of(number: int, children: int) -> EffectGroup:
    key = f"bench/{number}"
    return EffectGroup.of(
        key,
        [
            EffectEnvelope.make("bench", "quick", [position], {}, "bench", f"{key}/{position}")
            for position in range(children)
        ],
    )


async def _settle(host: EffectHost, group: EffectGroup) -> None:
    handle = await host.open_group(group)
    while not handle.exhausted:
        await host.next_settlements(handle)


async def group(ops: int, children: int, ground: Ground) -> Sample:
    """Open a group and wait until its last rank is read, one group after the other."""
    with ground() as store:
        async with open_host(store, lambda envelope: Quick()) as host:
            await _settle(host, group_of(0, min(children, 50)))
            with Marked() as watch:
                for number in range(1, ops + 1):
                    await _settle(host, group_of(number, children))
    return watch.sample(ops)


async def in_order(ops: int, children: int, ground: Ground) -> Sample:
    """The same, with one wait for each rank."""
    with ground() as store:
        async with open_host(store, lambda envelope: Quick()) as host:
            await _settle(host, group_of(0, min(children, 50)))
            with Marked() as watch:
                for number in range(1, ops + 1):
                    handle = await host.open_group(group_of(number, children))
                    while not handle.exhausted:
                        await host.next_settlement(handle)
    return watch.sample(ops)


async def closed(ops: int, children: int, ground: Ground) -> Sample:
    """The same, and then closed: the whole life of a group but its retirement."""
    with ground() as store:
        async with open_host(store, lambda envelope: Quick()) as host:
            with Marked() as watch:
                for number in range(ops):
                    handle = await host.open_group(group_of(number, children))
                    while not handle.exhausted:
                        await host.next_settlements(handle)
                    await host.close_group(handle, Disposition.RUN_TO_COMPLETION)
    return watch.sample(ops)


async def beside(ops: int, groups: int, ground: Ground) -> Sample:
    """So many groups of 50 at once; they share flushes."""
    with ground() as store:
        async with open_host(store, lambda envelope: Quick()) as host:
            with Marked() as watch:
                async with trio.open_nursery() as nursery:
                    for number in range(groups):
                        nursery.start_soon(_settle, host, group_of(number, 50))
    return watch.sample(groups)


# --- durable functions --------------------------------------------------------------------------


@effect(name="bench.step")
async def step(number: int) -> int:
    return number


@durable(name="bench.in_a_row")
async def in_a_row(act: Activation, steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await act.call(step, number)
    return total


@durable(name="bench.together")
async def together(act: Activation, steps: int) -> int:
    return sum(await act.all_of(*[act.call(step, number) for number in range(steps)]))


@durable(name="bench.first")
async def first(act: Activation, steps: int) -> int:
    winner = await act.race(*[act.call(step, number) for number in range(steps)])
    return winner.position


async def steps(ops: int, _: int, ground: Ground) -> Sample:
    """One durable function, one effect after the other."""
    with ground() as store:
        async with open_system("bench", store=store) as system:
            await system.run(in_a_row, 5, key="warm")
            with Marked() as watch:
                await system.run(in_a_row, ops, key="row")
    return watch.sample(ops)


async def fan(ops: int, effects: int, flow: Any, ground: Ground) -> Sample:
    """A durable function that waits for so many effects at once."""
    with ground() as store:
        async with open_system("bench", store=store) as system:
            await system.run(flow, 5, key="warm")
            with Marked() as watch:
                for number in range(ops):
                    await system.run(flow, effects, key=f"fan {number}")
    return watch.sample(ops)


BENCHES: dict[str, Any] = {
    "group": on_trio(group, on_disk),
    "group-memory": on_trio(group, in_memory),
    "closed": on_trio(closed, on_disk),
    "beside": on_trio(beside, on_disk),
    "steps": on_trio(steps, on_disk),
    "steps-memory": on_trio(steps, in_memory),
    "together": on_trio(fan, together, on_disk),
    "first": on_trio(fan, first, on_disk),
    "in-order": on_trio(in_order, on_disk),
}

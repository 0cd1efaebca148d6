"""trouper's store and durable actors through their public surface, as a program would use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from _kit.sample import Sample
from trouper import (
    ActorSystem,
    Decision,
    DurableActor,
    LmdbStore,
    Ref,
    Request,
    applies,
    decides,
    open_system,
)
from trouper.store import Tx, record

from .disk import VALUE, WARM, Marked, place, row_key
from .gate import closed_loop, on_trio

BURST = 1000  # fits the default mailbox
TABLE = "record"


@record("bench.entry")
@dataclass(frozen=True, slots=True)
class Entry:
    value: bytes


@record("bench.added")
@dataclass(frozen=True, slots=True)
class Added:
    n: int


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class AddNow(Request[int]):
    n: int


class Counter(DurableActor[int, Add | AddNow], name="bench.counter"):
    initial = 0

    @decides(Add)
    def add(self, state: int, message: Add) -> Decision[Added]:
        return Decision([Added(message.n)])

    @decides(AddNow)
    def add_now(self, state: int, message: AddNow) -> Decision[Added, int]:
        return Decision([Added(message.n)], reply=state + message.n)

    @applies(Added)
    def added(self, state: int, what: Added) -> int:
        return state + what.n


class Plain(Counter, name="bench.plain", snapshot_every=None, snapshot_bytes=None):
    """One that never makes a snapshot."""


# --- the store --------------------------------------------------------------------------------


def unit_of(number: int, records: int) -> Callable[[Tx], None]:
    def unit(tx: Tx) -> None:
        for index in range(records):
            tx.put(TABLE, row_key("bench", number * records + index), Entry(VALUE))

    return unit


async def commit(ops: int, records: int) -> Sample:
    with place() as where:
        async with LmdbStore(where) as store:
            for number in range(WARM):
                await store.commit(unit_of(number, records))
            with Marked() as watch:
                for number in range(WARM, WARM + ops):
                    await store.commit(unit_of(number, records))
    return watch.sample(ops)


async def callers(ops: int, tasks: int) -> Sample:
    share = max(ops // tasks, 1)
    with place() as where:
        async with LmdbStore(where) as store:

            async def caller(first: int) -> None:
                for number in range(first, first + share):
                    await store.commit(unit_of(number, 1))

            with Marked() as watch:
                async with trio.open_nursery() as nursery:
                    for task in range(tasks):
                        nursery.start_soon(caller, task * share)
    return watch.sample(share * tasks)


async def filled(ops: int, rows: int) -> Sample:
    """Commit one record each to a store that has so many rows."""
    with place() as where:
        async with LmdbStore(where) as store:
            for number in range(rows // 1000):
                await store.commit(unit_of(number, 1000))
            with Marked() as watch:
                for number in range(rows, rows + ops):
                    await store.commit(unit_of(number * 7919, 1))
    return watch.sample(ops)


# --- durable actors ---------------------------------------------------------------------------


async def _spawned(system: ActorSystem, actors: int) -> list[Ref[Add | AddNow]]:
    refs = [await system.actor(Counter, f"actor {number}") for number in range(actors)]
    await _each(refs, 1)
    return refs


async def _each(refs: list[Ref[Add | AddNow]], asks: int) -> None:
    async def asker(ref: Ref[Add | AddNow]) -> None:
        for _ in range(asks):
            await ref.ask(AddNow(1))

    async with trio.open_nursery() as nursery:
        for ref in refs:
            nursery.start_soon(asker, ref)


async def tell(ops: int, actors: int) -> Sample:
    """Tell in bursts that fit the mailboxes, each to its end: the last one is an ask."""
    burst = min(max(ops // actors, 1), BURST)
    times = max(ops // (burst * actors), 1)
    message = Add(1)
    with place() as where:
        async with open_system("bench", store=where) as system:
            refs = await _spawned(system, actors)
            with Marked() as watch:
                for _ in range(times):
                    for _ in range(burst - 1):
                        for ref in refs:
                            ref.tell(message)
                    await _each(refs, 1)
    return watch.sample(times * burst * actors)


async def ask(ops: int, actors: int) -> Sample:
    """One task per actor, each with one ask outstanding."""
    with place() as where:
        async with open_system("bench", store=where) as system:
            refs = await _spawned(system, actors)
            asks = [partial(ref.ask, AddNow(1)) for ref in refs]
            return await closed_loop(asks, max(ops // actors, 1), Marked())


async def askers(ops: int, tasks: int) -> Sample:
    """Many tasks, each with one ask outstanding, at one actor."""
    with place() as where:
        async with open_system("bench", store=where) as system:
            (ref,) = await _spawned(system, 1)
            asks = [partial(ref.ask, AddNow(1))] * tasks
            return await closed_loop(asks, max(ops // tasks, 1), Marked())


# --- recovery ---------------------------------------------------------------------------------


async def _recovery(records: int, cls: type[Counter], is_killed: bool) -> Sample:
    with place() as where:
        async with open_system("bench", store=where) as system:
            ref = await system.actor(cls, "hot")
            told = 0
            while told < records:
                count = min(BURST, records - told)
                for _ in range(count - 1):
                    ref.tell(Add(1))
                told += count
                assert await ref.ask(AddNow(1)) == told
        if is_killed:
            _forget_the_close(where)
        with Marked() as watch:
            async with open_system("bench", store=where) as system:
                ref = await system.actor(cls, "hot")
        async with open_system("bench", store=where) as system:
            ref = await system.actor(cls, "hot")
            assert await ref.ask(AddNow(1)) == records + 1
    return watch.sample(1)


def _forget_the_close(where: Path) -> None:
    """Let it look as after ``kill -9``: the next opening verifies the whole file."""
    lock = where / "owner.lock"
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"clean": None}))


def recovery(cls: type[Counter], *, is_killed: bool = False) -> Callable[[int, int], Sample]:
    return on_trio(lambda records, _: _recovery(records, cls, is_killed))


BENCHES: dict[str, Any] = {
    "commit": on_trio(commit),
    "callers": on_trio(callers),
    "filled": on_trio(filled),
    "tell": on_trio(tell),
    "ask": on_trio(ask),
    "askers": on_trio(askers),
    "recover": recovery(Plain),
    "recover-snapshots": recovery(Counter),
    "recover-killed": recovery(Counter, is_killed=True),
}

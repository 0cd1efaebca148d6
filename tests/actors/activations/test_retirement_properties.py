"""Whatever ran, and wherever it crashed: what retired is refused, and `forget` leaves no row."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import trio
import trio.testing
from hypothesis import given, settings

from trouper import Activation, ActorSystem, durable, effect, open_system
from trouper.actors.activations import activation_invariants
from trouper.actors.groups import EffectEnvelope, EffectGroup, GroupRow, group_invariants
from trouper.errors import GroupRetired, ScopeBusy, ShuttingDown, StoreError
from trouper.store import TABLES, MemoryStore

RAN: list[str] = []


@effect
async def work(name: str) -> str:
    RAN.append(name)
    await trio.lowlevel.checkpoint()
    return name


@durable
async def interpret(act: Activation, program: list[Any]) -> int:
    """Take the steps of a program: a number of calls side by side, or programs below."""
    for number, (word, size, below) in enumerate(program):
        names = [f"{act.key} {number} {place}" for place in range(size)]
        if word == "call":
            await act.call(work, names[0])
        elif word == "below":
            await act.all_of(*[act.call(interpret, below) for _ in names])
        elif word == "race":
            await act.race(*[act.call(work, name) for name in names], act.sleep(9), losers="cancel")
        else:
            await act.any_of(*[act.call(work, name) for name in names], act.call(interpret, below))
    return len(program)


def programs(depth: int) -> st.SearchStrategy[list[Any]]:
    below: st.SearchStrategy[list[Any]] = programs(depth - 1) if depth else st.just([])
    words = st.sampled_from(["call", "below", "race", "any"])
    step = st.tuples(words, st.integers(1, 3), below).map(list)
    return st.lists(step, max_size=2)


class Crash:
    """Crashes a store at its k-th commit, and ends what used it."""

    def __init__(self, store: MemoryStore, k: int) -> None:
        self.left = k
        self.scope = trio.CancelScope()
        self._store = store
        store.probe = self

    def __call__(self, point: str) -> None:
        if point == "committed":
            self.left -= 1
            if self.left == 0:
                self._store.crash()
                self._store.probe = None
                trio.lowlevel.current_trio_token().run_sync_soon(self.scope.cancel)


async def until_crash(store: MemoryStore, k: int, verb: Any) -> None:
    crash = Crash(store, k)
    try:
        with crash.scope:
            async with open_system("t", store=store, shutdown=0) as system:
                await verb(system)
                await settle_down(store)
    except* (StoreError, ShuttingDown):
        assert crash.left <= 0
    store.probe = None


async def settle_down(store: MemoryStore) -> None:
    for _ in range(5):
        await store.commit(lambda tx: None)
        await trio.testing.wait_all_tasks_blocked(0.001)


def rows(store: MemoryStore) -> int:
    return sum(len(store.scan(table, b"", object)) for table in TABLES)


class Sight:
    """`Rows` of a store that is open."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def get(self, table: str, key: bytes, kind: Any) -> Any:
        return self._store.get(table, key, kind)

    def scan(self, table: str, prefix: bytes, kind: Any) -> Any:
        found = self._store.scan(table, prefix, object)
        return ((key, row) for key, row in found if isinstance(row, kind))

    def keys(self, table: str, prefix: bytes) -> Any:
        return (key for key, _ in self._store.scan(table, prefix, object))


def broken_rules(store: MemoryStore) -> list[str]:
    found = [*group_invariants(Sight(store)), *activation_invariants(Sight(store))]
    return [finding.what for finding in found]


async def retired_is_refused(system: ActorSystem, store: MemoryStore) -> None:
    ran = len(RAN)
    for _, row in store.scan("group", b"G", GroupRow):
        if row.retired:
            child = EffectEnvelope.make("effect", work.name, ["again"], {}, row.scope, "again")
            try:
                await system.host.open_group(EffectGroup.of(row.key, [child]))
            except GroupRetired:
                continue
            raise AssertionError(f"{row.key} was opened again")
    assert "again" not in RAN[ran:]


async def story(program: list[Any], first: int, second: int) -> None:
    store = MemoryStore(max_batch=1)
    await until_crash(store, first, lambda system: system.run(interpret, program, key="k"))
    async with store:
        assert broken_rules(store) == []
    async with open_system("t", store=store) as system:
        await retired_is_refused(system, store)
        assert await system.run(interpret, program, key="k") == len(program)
        await settle_down(store)
        await retired_is_refused(system, store)
        assert broken_rules(store) == []
    await until_crash(store, second, lambda system: system.forget("k"))
    async with store:
        assert broken_rules(store) == []
    async with open_system("t", store=store) as system:
        while system.status("k") != "unknown":
            try:
                await system.forget("k")
            except ScopeBusy:  # a loser of the run settles right now
                await settle_down(store)
        await system.forget("k")
        assert rows(store) == 0


@settings(max_examples=25, deadline=None)
@given(program=programs(1), first=st.integers(1, 40), second=st.integers(1, 4))
def test_no_crash_brings_retired_work_back_or_leaves_a_row(
    program: list[Any], first: int, second: int
) -> None:
    RAN.clear()
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(story, program, first, second, clock=clock)

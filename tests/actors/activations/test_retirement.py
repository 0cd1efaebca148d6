"""What belongs to an activation goes: its groups once nobody reads them, all of it by `forget`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from trouper import Activation, ActorSystem, durable, effect, open_system
from trouper.actors.activations import (
    ActivationRow,
    StepRow,
    activation_invariants,
    steps_prefix,
)
from trouper.actors.activations._rows import step_key
from trouper.actors.groups import (
    EffectEnvelope,
    EffectGroup,
    GroupRow,
    SweepRow,
    group_invariants,
)
from trouper.actors.groups._sweep import SWEEP_ROWS
from trouper.errors import GroupRetired, ScopeBusy, ShuttingDown, StoreError
from trouper.store import TABLES, LmdbStore, MemoryStore, Store, Tx

T = TypeVar("T")

LOG: Any = None
GATE: trio.Event


@pytest.fixture(autouse=True)
def own_log(log: Any) -> None:
    global LOG, GATE
    LOG, GATE = log, trio.Event()


@effect
async def add(a: int, b: int) -> int:
    LOG.append(("add", a, b))
    return a + b


@effect
async def wait(name: str) -> str:
    LOG.append(name)
    await GATE.wait()
    return name


@effect
async def large(n: int) -> bytes:
    LOG.append(("large", n))
    return bytes([n]) * 100_000


@durable
async def two(act: Activation, n: int) -> list[int]:
    return list(await act.all_of(act.call(add, n, 1), act.call(add, n, 2)))


@durable
async def races(act: Activation) -> list[Any]:
    won = await act.race(act.call(add, 1, 1), act.call(wait, "loser"))
    await act.call(wait, "held")
    return [won.position, won.value]


@durable
async def below(act: Activation) -> int:
    await act.race(act.call(add, 3, 3), act.call(wait, "loser below"))
    return 3


@durable
async def above(act: Activation) -> list[int]:
    both = await act.all_of(act.call(below), act.call(two, 5))
    return [both[0], *both[1], await act.call(below)]


@durable
async def everything(act: Activation) -> list[Any]:
    out: list[Any] = [await act.call(add, 1, 2)]
    out.append(await act.all_of(*[act.call(two, n) for n in range(3)]))
    won = await act.race(act.call(wait, "never"), act.call(add, 4, 4), losers="cancel")
    out.append([won.position, won.value, won.rank])
    best = await act.any_of(act.call(add, 7, 7), act.sleep(1000), losers="cancel")
    out.append(best.value)
    await act.sleep(0)
    settled = await act.all_settled(act.call(two, 8), act.call(add, 9, 9))
    return [*out, len(settled)]


def rows(store: Store) -> dict[str, int]:
    """Count rows by the tag of their keys, over the whole store."""
    counts: dict[str, int] = {}
    for table in TABLES:
        for key, _ in store.scan(table, b"", object):
            counts[chr(key[0])] = counts.get(chr(key[0]), 0) + 1
    return counts


class Sight:
    """`Rows` of a store that is open."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        return self._store.get(table, key, kind)

    def scan(self, table: str, prefix: bytes, kind: type[T]) -> Iterator[tuple[bytes, T]]:
        for row in self._store.scan(table, prefix, object):
            if isinstance(row[1], kind):
                yield row[0], row[1]

    def keys(self, table: str, prefix: bytes) -> Iterator[bytes]:
        return (key for key, _ in self._store.scan(table, prefix, object))


def broken_rules(store: Store) -> list[str]:
    found = [*group_invariants(Sight(store)), *activation_invariants(Sight(store))]
    return [finding.what for finding in found]


async def settle_down(store: Store) -> None:
    """Let what was submitted become durable, and what follows from it."""
    for _ in range(5):
        await store.commit(lambda tx: None)
        await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_group_goes_with_the_step_that_needs_it_no_more(store: Store) -> None:
    async with open_system("t", store=store) as system:
        assert await system.run(two, 1, key="k") == [2, 3]
        await settle_down(store)
        found = rows(store)
        assert (found.get("C"), found.get("S"), found["G"]) == (None, None, 1)
        ((_, tombstone),) = store.scan("group", b"G", GroupRow)
        assert tombstone.retired
        assert broken_rules(store) == []


async def test_a_group_stays_until_its_last_loser_has_settled(store: Store) -> None:
    async with open_system("t", store=store) as system:
        handle = system.start(races, key="k")
        await LOG.until("loser", "held")
        assert rows(store)["C"] == 2
        GATE.set()
        assert await handle.result() == [0, 2]
        await settle_down(store)
        assert "C" not in rows(store)
        assert broken_rules(store) == []


async def test_a_replay_reads_the_answer_from_its_step(store: Store) -> None:
    async with open_system("t", store=store, shutdown=0) as system:
        system.start(races, key="k")
        await LOG.until("loser", "held")
    GATE.set()
    async with open_system("t", store=store) as system:
        assert await system.run(races, key="k") == [0, 2]
        assert LOG.count(("add", 1, 1)) == 1
        await settle_down(store)
        assert "C" not in rows(store)
        assert await system.run(races, key="k") == [0, 2]


async def test_an_answer_over_the_limit_keeps_its_group_until_the_end(store: Store) -> None:
    @durable(name="collects")
    async def collects(act: Activation) -> int:
        parts = await act.all_of(act.call(large, 1), act.call(large, 2))
        await act.call(wait, "held")
        return sum(map(len, parts))

    options: dict[str, Any] = {"store": store, "activities": [collects]}
    async with open_system("t", shutdown=0, **options) as system:
        system.start(collects, key="k")
        await LOG.until("held")
        assert rows(store)["C"] == 2
    GATE.set()
    async with open_system("t", **options) as system:
        assert await system.run(collects, key="k") == 200_000
        await settle_down(store)
        assert "C" not in rows(store)
        assert LOG.count(("large", 1)) == 1


async def test_kept_groups_stay_until_their_activation_is_forgotten(store: Store) -> None:
    async with open_system("t", store=store, keep_groups=True) as system:
        await system.run(two, 1, key="k")
        assert rows(store)["C"] == 2
    async with open_system("t", store=store) as system:
        await settle_down(store)
        assert rows(store)["C"] == 2
        await system.forget("k")
        assert rows(store) == {}


async def test_forget_leaves_no_row_and_makes_the_key_new(
    store: Store, autojump_clock: trio.testing.MockClock
) -> None:
    GATE.set()
    async with open_system("t", store=store) as system:
        assert rows(store) == {}
        first = await system.run(everything, key="k")
        other = await system.run(two, 1, key="other")
        await settle_down(store)
        before = rows(store)
        await system.forget("k")
        await system.forget("k")
        assert (system.status("k"), system.status("other")) == ("unknown", "completed")
        assert sum(rows(store).values()) < sum(before.values()) / 2
        assert broken_rules(store) == []
        ran = len(LOG)
        assert await system.run(everything, key="k") == first
        assert len(LOG) > ran
        assert await system.run(two, 1, key="other") == other
        for key in ("k", "other", "nobody"):
            await system.forget(key)
        assert rows(store) == {}


async def test_what_has_not_ended_is_not_forgotten(store: Store) -> None:
    async with open_system("t", store=store) as system:
        handle = system.start(races, key="k")
        await LOG.until("held")
        before = rows(store)
        with pytest.raises(ScopeBusy, match="has not ended"):
            await system.forget("k")
        assert rows(store) == before
        GATE.set()
        await handle.result()
        await settle_down(store)
        await system.forget("k")
        assert rows(store) == {}


async def test_an_ended_activation_with_losers_below_it_is_not_forgotten(store: Store) -> None:
    """It is closing: its result is published, its scope stays (ruling 15)."""
    async with open_system("t", store=store) as system:
        assert await system.run(above, key="k") == [3, 6, 7, 3]
        await LOG.until("loser below")
        with pytest.raises(ScopeBusy, match="is in use"):
            await system.forget("k")
        GATE.set()
        await settle_down(store)
        assert broken_rules(store) == []
        await system.forget("k")
        assert rows(store) == {}


async def test_a_child_is_not_forgotten_while_its_caller_may_replay(store: Store) -> None:
    @durable(name="calls")
    async def calls(act: Activation) -> list[int]:
        found = await act.call(two, 1)
        await act.call(wait, "held")
        return found

    async with open_system("t", store=store, activities=[calls]) as system:
        handle = system.start(calls, key="k")
        await LOG.until("held")
        with pytest.raises(ScopeBusy, match="is part of 'k#0'"):
            await system.forget("k#0/0")
        GATE.set()
        assert await handle.result() == [2, 3]
        await system.forget("k#0/0")
        assert broken_rules(store) == []
        await system.forget("k")
        assert rows(store) == {}


async def test_the_host_retires_no_group_and_no_scope_of_a_live_activation(store: Store) -> None:
    @durable(name="holds")
    async def holds(act: Activation) -> None:
        await act.all_of(act.call(add, 1, 1), act.call(add, 2, 2))
        await act.call(wait, "held")

    options: dict[str, Any] = {"activities": [holds], "keep_groups": True, "shutdown": 0}
    async with open_system("t", store=store, **options) as system:
        system.start(holds, key="k")
        await LOG.until("held")
        ((_, group),) = store.scan("group", b"G", GroupRow)
        assert group.finished
        with pytest.raises(ScopeBusy, match="its activation may still read it"):
            await system.host.retire(group.key)
        with pytest.raises(ScopeBusy, match="run 'k'"):
            await system.host.retire_scope("k#0")


async def test_a_group_that_an_ended_scope_left_open_is_closed_and_drained(store: Store) -> None:
    """Nobody can come back for it: at the end of the activation, and at the next open."""

    @durable(name="short")
    async def short(act: Activation) -> None:
        await act.call(wait, "held")

    def group(key: str) -> EffectGroup:
        child = EffectEnvelope.make("effect", wait.name, [key], {}, "k#0", f"{key}/0")
        return EffectGroup.of(key, [child])

    options: dict[str, Any] = {"store": store, "activities": [short]}
    async with open_system("t", shutdown=0, **options) as system:
        handle = system.start(short, key="k")
        await system.host.open_group(group("early"))
        await LOG.until("held", "early")
        GATE.set()
        await handle.result()
        await system.host.open_group(group("late"))
        await settle_down(store)
        retired = {row.key: row.retired for _, row in store.scan("group", b"G", GroupRow)}
        assert retired == {"early": True, "late": False}
    async with open_system("t", **options) as system:
        await settle_down(store)
        assert all(row.retired for _, row in store.scan("group", b"G", GroupRow))
        await system.forget("k")
        assert rows(store) == {}


class Counting:
    """A store that counts the rows that are read from it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def __aenter__(self) -> Counting:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._store.__aexit__(*exc)

    def get(self, *arguments: Any) -> Any:
        row = self._store.get(*arguments)
        self.read += row is not None
        return row

    def scan(self, *arguments: Any, **options: Any) -> Any:
        found = self._store.scan(*arguments, **options)
        self.read += len(found)
        return found


@pytest.mark.parametrize("keep_groups", [False, True])
async def test_recovery_reads_no_row_of_what_has_ended(keep_groups: bool) -> None:
    store = MemoryStore()
    async with open_system("t", store=store, keep_groups=keep_groups) as system:
        for number in range(20):
            await system.run(two, number, key=f"k{number}")
    counting: Any = Counting(store)
    async with open_system("t", store=counting):
        assert counting.read == 0
    async with open_system("t", store=store, shutdown=0) as system:
        system.start(races, key="unfinished")
        await LOG.until("held")
    counting = Counting(store)
    async with open_system("t", store=counting, shutdown=0):
        assert 0 < counting.read < 20  # once to see whether the code drifted, once to resume


# -- crashes ---------------------------------------------------------------------------------------


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
                # Later: whoever waits for a commit may leave once the store has dropped its unit.
                trio.lowlevel.current_trio_token().run_sync_soon(self.scope.cancel)


async def until_crash(store: MemoryStore, k: int, verb: Any) -> bool:
    """Do something in a system that crashes at its k-th commit; tell whether it did."""
    crash = Crash(store, k)
    try:
        with crash.scope:
            async with open_system("t", store=store, shutdown=0) as system:
                await verb(system)
                await settle_down(store)
    except* (StoreError, ShuttingDown):
        assert crash.left <= 0
    store.probe = None
    return crash.left <= 0


async def retired_keys_are_refused(system: ActorSystem, store: Store) -> None:
    for _, row in store.scan("group", b"G", GroupRow):
        if row.retired:
            child = EffectEnvelope.make("effect", add.name, [0, 0], {}, row.scope, "again")
            with pytest.raises(GroupRetired):
                await system.host.open_group(EffectGroup.of(row.key, [child]))


async def test_for_every_prefix_of_the_journal_what_retired_is_refused_and_all_can_be_forgotten(
    autojump_clock: trio.testing.MockClock,
) -> None:
    GATE.set()
    for k in range(1, 300):
        store = MemoryStore(max_batch=1)
        crashed = await until_crash(store, k, lambda system: system.run(everything, key="k"))
        async with store:
            assert broken_rules(store) == [], f"after a crash at commit {k}"
        async with open_system("t", store=store) as system:
            await retired_keys_are_refused(system, store)
            await system.run(everything, key="k")
            await settle_down(store)
            assert broken_rules(store) == [], f"resumed after a crash at commit {k}"
            await retired_keys_are_refused(system, store)
            await system.forget("k")
            assert rows(store) == {}, f"after a crash at commit {k}"
        if not crashed:
            assert k > 30
            return
    raise AssertionError("it does not end")


@durable
async def wide(act: Activation) -> int:
    total = 0
    for _ in range(2):
        await act.all_of(*[act.call(two, n) for n in range(40)])
        total += sum(await act.all_of(*[act.call(add, n, n) for n in range(200)]))
    return total


@pytest.mark.parametrize("keep_groups", [False, True])
async def test_a_forget_cut_off_anywhere_goes_on_at_the_next_open(
    keep_groups: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Crash behind each unit of it: the key is refused or new, and in the end no row is left."""
    whole = MemoryStore(max_batch=1)
    async with open_system("t", store=whole, keep_groups=keep_groups) as system:
        await system.run(wide, key="k")
        await settle_down(whole)
    seen: set[str] = set()
    for k in range(1, 100):
        store = copy_of(whole)
        crashed = await until_crash(store, k, lambda system: system.forget("k"))
        async with store:
            assert broken_rules(store) == [], f"after a crash at commit {k}"
            swept = bool(store.scan("group", b"Z", SweepRow))
        async with open_system("t", store=store) as system:
            assert system.status("k") == "unknown"
            if swept:
                seen.add("refused")
                with pytest.raises(ScopeBusy, match="still being removed"):
                    system.start(wide, key="k")
            else:
                seen.add("new")
            for _ in range(100):
                if not rows(store):
                    break
                await settle_down(store)
            assert rows(store) == {}, f"after a crash at commit {k}"
        if not crashed:
            break
    assert seen == {"refused", "new"}


async def second_run(store: MemoryStore) -> None:
    """Make what has ended a second run, with more steps than one unit sweeps."""

    def unit(tx: Tx) -> None:
        ((where, row),) = tx.scan("record", b"A", ActivationRow)
        tx.put("record", where, replace(row, run=1))
        ((_, step), *_) = tx.scan("record", steps_prefix("k#0"), StepRow)
        for number in range(2 * SWEEP_ROWS):
            tx.put("record", step_key("k#1", number), replace(step, scope="k#1", number=number))

    async with store:
        await store.commit(unit)


async def test_a_key_is_new_when_the_last_of_its_runs_is_gone() -> None:
    whole = MemoryStore(max_batch=1)
    async with open_system("t", store=whole) as system:
        await system.run(two, 1, key="k")
        await settle_down(whole)
    await second_run(whole)
    refused = 0
    for k in range(1, 20):
        store = copy_of(whole)
        crashed = await until_crash(store, k, lambda system: system.forget("k"))
        async with open_system("t", store=store) as system:
            left = bool(store.scan("record", b"", object))
            if left and system.status("k") == "unknown":
                refused += 1
                with pytest.raises(ScopeBusy, match="still being removed"):
                    system.start(two, 1, key="k")
            await system.forget("k")
            assert rows(store) == {}, f"after a crash at commit {k}"
            assert await system.run(two, 1, key="k") == [2, 3]
        if not crashed:
            assert refused > 1
            return
    raise AssertionError("it does not end")


def copy_of(store: MemoryStore) -> MemoryStore:
    """Return a closed store with the same rows."""
    other = MemoryStore(max_batch=1)
    undo: Any = []
    state: Any = other._state  # pyright: ignore[reportPrivateUsage]
    for table, held in store._state.tables.items():  # pyright: ignore[reportPrivateUsage]
        state.apply({table: dict(held.rows)}, undo)
    other.epoch = store.epoch
    return other


async def test_a_forgotten_activation_stays_gone_on_disk(tmp_path: Any) -> None:
    path = tmp_path / "store"
    async with open_system("t", store=path) as system:
        await system.run(wide, key="k")
        await settle_down(system.store)
        await system.forget("k")
    async with LmdbStore(path) as store:
        assert rows(store) == {}

"""A crash at every commit of two hosts on one store: ranks stay, and what is settled is over."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio
import trio.testing

from trouper.actors.groups import (
    ChildRow,
    Disposition,
    EffectContext,
    EffectEnvelope,
    EffectGroup,
    EffectHost,
    GroupRow,
    WakePolicy,
    group_key,
    open_host,
)
from trouper.actors.groups._rows import children_prefix
from trouper.actors.groups._rules import in_rank_order
from trouper.errors import StoreClosed
from trouper.store import MemoryStore

Point = Literal["before_commit", "committed", "acknowledged"]
SIZES = {"race": 4, "all": 4}


class Timed:
    """A child that takes so many seconds, and says that it ran."""

    releasable = False

    def __init__(self, log: list[str], seconds: float) -> None:
        self.log = log
        self.seconds = seconds

    async def run(self, ctx: EffectContext) -> str:
        self.log.append(ctx.key)
        await trio.sleep(self.seconds)
        return ctx.key


def group(key: str) -> EffectGroup:
    # The order of settlement is neither that of the arguments nor the reverse.
    children = [
        EffectEnvelope.make("timed", "sleep", [(2 * p + 1) % 5], {}, "s", f"{key}/{p}")
        for p in range(SIZES[key])
    ]
    losers = Disposition.CANCEL if key == "race" else Disposition.RUN_TO_COMPLETION
    return EffectGroup.of(key, children, wake=WakePolicy.FIRST, disposition=losers)


def open_timed(store: MemoryStore, log: list[str]) -> Any:
    def resolve(envelope: EffectEnvelope) -> Timed:
        (seconds,), _ = envelope.call()
        return Timed(log, seconds)

    return open_host(store, resolve, shutdown=0)


async def race(host: EffectHost) -> None:
    """Take the first, and close with the losers cancelled."""
    handle = await host.open_group(group("race"))
    await host.next_settlement(handle)
    await host.close_group(handle, Disposition.CANCEL)


async def all_of(host: EffectHost) -> None:
    """Take every one."""
    handle = await host.open_group(group("all"))
    while not handle.exhausted:
        await host.next_settlement(handle)


def recorded(store: MemoryStore) -> dict[str, tuple[GroupRow, list[ChildRow]]]:
    """Read every group and its ranks; raises for a rank without a terminal, or the reverse."""
    found: dict[str, tuple[GroupRow, list[ChildRow]]] = {}
    for key in SIZES:
        row = store.get("group", group_key(key), GroupRow)
        if row is not None:
            children = [c for _, c in store.scan("record", children_prefix(key), ChildRow)]
            found[key] = row, in_rank_order(row, children)
    return found


def require_own_counters(store: MemoryStore) -> None:
    """Whoever drives one group moves no other group's counter."""
    for row, ranks in recorded(store).values():
        assert row.counter == len(ranks)
        assert [child.sequence for child in ranks] == list(range(1, len(ranks) + 1))


async def first_life(store: MemoryStore, log: list[str]) -> None:
    """Two hosts; the first one goes while its race runs, the second takes it over."""
    async with store, open_timed(store, log) as second, trio.open_nursery() as nursery:
        async with open_timed(store, log) as first:
            await first.open_group(group("race"))
            nursery.start_soon(all_of, second)
            await trio.sleep(0.5)
        nursery.start_soon(race, second)


async def crash_at(store: MemoryStore, point: Point, number: int, log: list[str]) -> bool:
    passed, scope, token = 0, trio.CancelScope(), trio.lowlevel.current_trio_token()

    def probe(at: str) -> None:
        nonlocal passed
        passed += at == point
        if at == "committed":
            require_own_counters(store)
        if at == point and passed == number:
            store.crash()
            token.run_sync_soon(scope.cancel)  # when the store has let go of its units

    store.probe = probe
    with scope:
        try:
            await first_life(store, log)
        except* StoreClosed:
            pass
    store.probe = None
    return passed >= number


@pytest.mark.parametrize("point", ["before_commit", "committed", "acknowledged"])
async def test_after_a_crash_at_any_commit_no_settled_child_runs_again(
    point: Point, autojump_clock: trio.testing.MockClock
) -> None:
    crashes = 0
    for number in range(1, 60):
        store, log = MemoryStore(max_batch=1), list[str]()
        if not await crash_at(store, point, number, log):
            break
        crashes += 1
        async with store:
            before = recorded(store)
        log.clear()
        async with store, open_timed(store, log) as one, open_timed(store, log) as two:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(race, one)
                nursery.start_soon(all_of, two)
            await trio.sleep(1)  # losers that ran here have wound down
            drain = one.drain()
            for key in list(drain.keys()):
                assert (await drain.run(key)).is_complete
            require_own_counters(store)
            after = recorded(store)
        for key, (_, ranks) in before.items():
            assert after[key][1][: len(ranks)] == ranks, "rank k is the same settlement for ever"
            assert not {child.replay_key for child in ranks} & set(log)
        assert {key: len(ranks) for key, (_, ranks) in after.items()} == SIZES
        assert len(log) == len(set(log)), "no child runs twice in one life"
    assert crashes > 8

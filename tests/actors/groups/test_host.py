"""What is the embedded host's own: limits, damage, a lost store, wide groups, stuck work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from trouper.actors.groups import (
    ChildRow,
    ChildState,
    Completed,
    EffectContext,
    EffectEnvelope,
    EffectHost,
    Failed,
    Runner,
    encode_outcome,
    open_host,
)
from trouper.actors.groups._rows import CHILD_TABLE, child_key
from trouper.actors.groups._runner import Stuck
from trouper.errors import CorruptGroup, NoExecutor, StoreClosed, TooLarge
from trouper.store import LmdbStore, MemoryStore, Store, Tx
from trouper.testing.conformance.host import Cast


@asynccontextmanager
async def running(store: Store, cast: Cast) -> AsyncIterator[EffectHost]:
    async with open_host(store, cast.resolver, shutdown=0) as host:
        yield host


async def test_an_outcome_that_does_not_fit_beside_its_arguments_is_a_failure() -> None:
    cast = Cast("g", 2)
    half = b"x" * 6000
    cast[0].result = half
    cast.finish()
    children = [cast.envelope(0, args=[half]), cast.envelope(1)]
    async with running(MemoryStore(max_value=10_000), cast) as host:
        handle = await host.open_group(cast.group(children=children))
        first = await host.next_settlement(handle)
        second = await host.next_settlement(handle)
    assert isinstance(first.outcome, Failed)
    assert isinstance(first.outcome.exception(), TooLarge)
    assert second.outcome == Completed(10)


async def test_a_group_too_large_for_the_journal_is_refused_whole() -> None:
    cast = Cast("g", 2)
    store = MemoryStore(max_value=1000)
    async with store, running(store, cast) as host:
        children = [cast.envelope(0), cast.envelope(1, args=[bytes(1000)])]
        with pytest.raises(TooLarge):
            await host.open_group(cast.group(children=children))
        assert store.scan(CHILD_TABLE, b"", object) == []
        assert cast.attempts == [[], []]


@pytest.mark.parametrize(
    "damage", [{"outcome": encode_outcome(Completed(1))}, {"sequence": 1, "outcome": b""}]
)
async def test_a_damaged_child_is_reported_and_its_siblings_go_on(
    damage: dict[str, object],
) -> None:
    store, cast, again = MemoryStore(), Cast("g"), Cast("g")
    async with running(store, cast) as host:
        await host.open_group(cast.group())
        await cast.begun()

    def spoil(tx: Tx) -> None:
        row = tx.get(CHILD_TABLE, child_key("g", 1), ChildRow)
        assert row is not None
        tx.put(CHILD_TABLE, child_key("g", 1), replace(row, **damage))  # type: ignore[arg-type]

    again.finish()
    async with store:
        await store.commit(spoil)
        async with running(store, again) as host:
            report = await host.drain().run("g")
            assert [(c.position, c.state) for c in report.children] == [(1, ChildState.CORRUPT)]
            assert again.attempts == [[2], [], [2]]
            handle = await host.open_group(again.group())
            with pytest.raises(CorruptGroup, match="child 1 of group 'g'"):
                await host.next_settlement(handle)
            assert handle.consumed == 0


async def test_a_host_ends_though_its_store_is_lost() -> None:
    store, cast = MemoryStore(), Cast("g")

    async def life() -> None:
        async with store, running(store, cast) as host:
            handle = await host.open_group(cast.group())
            await cast.begun()
            store.crash()
            cast.finish()
            await host.next_settlement(handle)

    with pytest.raises(StoreClosed):
        await life()


async def test_a_runner_whose_claim_is_lost_is_ended_without_a_terminal(
    mock_clock: trio.testing.MockClock,
) -> None:
    old, new = Cast("g", 2), Cast("g", 2)
    store = MemoryStore()
    async with store, running(store, old) as first, running(store, new) as second:
        await first.open_group(old.group())
        await old.begun()
        mock_clock.jump(31)
        handle = await second.open_group(new.group())
        await old[0].left.wait()  # its renewal found the claim gone
        await old[1].left.wait()
        assert not old[0].cancelled
        await new.finish_in_turn(1, 0)
        assert (await second.next_settlement(handle)).position == 1
        assert first.fences_moved == 0


class Waits:
    """Cannot go on in this deployment."""

    releasable = True

    def __init__(self, cast: Cast) -> None:
        self.cast = cast

    async def run(self, ctx: EffectContext) -> object:
        if self.cast.missing:
            self.cast[0].attempts.append(ctx.attempt)
            raise Stuck(NoExecutor("nothing here runs it"))
        return await self.cast[0].run(ctx)


async def test_a_stuck_attempt_is_no_outcome_and_can_be_tried_again() -> None:
    cast = Cast("g", 1, missing={0})
    store = MemoryStore()

    def resolver(envelope: EffectEnvelope) -> Runner:
        return Waits(cast)

    async with store, open_host(store, resolver, shutdown=0) as host:
        handle = await host.open_group(cast.group())
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(host.group("g").stuck, NoExecutor)
        cast.missing.clear()
        cast.finish()
        await host.open_group(cast.group())
        assert (await host.next_settlement(handle)).outcome == Completed(0)
        assert cast.attempts == [[1, 2]]


@pytest.mark.parametrize("disk", [False, True])
async def test_a_wide_group_settles_in_a_few_flushes(disk: bool, tmp_path: Path) -> None:
    size = 300
    cast = Cast("g", size)
    store: Store = LmdbStore(tmp_path / "s", level="relaxed") if disk else MemoryStore()
    submitted: list[object] = []
    async with store, running(store, cast) as host:
        handle = await host.open_group(cast.group())
        await cast.begun()
        submit = store.submit

        def counted(*args: object) -> object:
            submitted.append(args)
            return submit(*args)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "submit", counted)
            cast.finish()
            order = [(await host.next_settlement(handle)).position for _ in range(size)]
    assert order == list(range(size))
    assert len(submitted) == 1


async def test_a_group_that_is_closed_and_settled_leaves_memory() -> None:
    cast = Cast("g", 2)
    store = MemoryStore()
    async with store, running(store, cast) as host:
        handle = await host.open_group(cast.group())
        await host.close_group(handle, cast.group().disposition)
        await cast.finish_in_turn(1, 0)
        reader = await host.open_group(cast.group())
        assert [(await host.next_settlement(reader)).position for _ in range(2)] == [1, 0]
        await trio.testing.wait_all_tasks_blocked()
        assert host.in_memory("g") is None
        again = await host.open_group(cast.group())
        assert [(await host.next_settlement(again)).position for _ in range(2)] == [1, 0]
        assert host.in_memory("g") is None

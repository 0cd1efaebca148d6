"""Escalation, level by level; and everything at once."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Actor, open_system
from trouper.errors import (
    StartFailed,
    TrouperError,
)
from trouper.supervision import Intensity, one_for_one


@pytest.mark.proves("Failure: with the cause attached")
async def test_an_unhandled_failure_comes_out_of_the_block_unwrapped(cast: Any) -> None:
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            ref = await system.spawn(cast.Player)
            ref.tell(cast.Go(cast.boom))
            await trio.sleep_forever()


@pytest.mark.proves("Failure: with the cause attached")
async def test_a_failure_in_a_handlers_nursery_comes_out_unwrapped_too(cast: Any) -> None:
    async def child() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("child")

    async def handler(self: Any, ctx: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)

    with pytest.raises(ValueError, match="child"):
        async with open_system("s") as system:
            (await system.spawn(cast.Player)).tell(cast.Go(handler))
            await trio.sleep_forever()


@pytest.mark.proves("Failure: an unhandled failure escalates")
async def test_a_failure_climbs_level_by_level_children_first(cast: Any) -> None:
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            top = await system.spawn(cast.Player, "top")
            await system.spawn(cast.Player, "other")
            middle = await top.ask(cast.Ask(cast.spawns(cast.Player, "middle")))
            leaf = await middle.ask(cast.Ask(cast.spawns(cast.Player, "leaf")))
            leaf.tell(cast.Go(cast.boom))
            await trio.sleep_forever()
    assert cast.labels() == ["leaf", "middle", "top", "other"]
    assert [why.kind for _, why in cast.ended] == ["crashed", "crashed", "crashed", "shutdown"]


@pytest.mark.proves("Failure: an unhandled failure escalates")
async def test_escalation_ends_at_a_parent_that_restarts(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with open_system("s") as system:
        parent = await system.spawn(cast.Player, "parent", restart="permanent")
        child = await parent.ask(cast.Ask(cast.spawns(cast.Player, "child")))
        child.tell(cast.Go(cast.boom))
        await trio.sleep(1)
        assert parent.incarnation == 2
        assert (await child.stopped()).kind == "crashed"
        assert await parent.ask(cast.Ask()) == "parent"


@pytest.mark.proves("Supervision: escalation to a parent in mid-turn")
async def test_escalation_to_a_parent_in_mid_turn_fails_that_turn_with_the_childs_error(
    cast: Any,
) -> None:
    seen: list[str] = []

    async def parent_turn(self: Any, ctx: Any) -> None:
        child = await ctx.spawn(cast.Player, "child")
        child.tell(cast.Go(cast.boom))
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            seen.append("cut")
            raise

    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            (await system.spawn(cast.Player, "parent")).tell(cast.Go(parent_turn))
            await trio.sleep_forever()
    assert seen == ["cut"]


@pytest.mark.proves("Supervision: a lane per parent")
async def test_a_blocked_parent_does_not_delay_the_restart_of_its_child(cast: Any) -> None:
    """Supervision runs in a lane of its own, out of band of the parent's turn."""
    children: list[Any] = []

    async def parent_turn(self: Any, ctx: Any) -> None:
        children.append(await ctx.spawn(cast.Player, "child", restart="transient"))
        await trio.sleep_forever()

    async with open_system("s", shutdown=0.5) as system:
        parent = await system.spawn(cast.Player, "parent")
        parent.tell(cast.Go(parent_turn))
        await wait_all_tasks_blocked()
        children[0].tell(cast.Go(cast.boom))
        assert await children[0].ask(cast.Ask()) == "child"
        assert children[0].incarnation == 2
        parent.kill()


async def test_a_child_that_fails_during_its_parents_start_fails_the_start(cast: Any) -> None:
    class Parent(Actor):
        async def started(self, ctx: Any) -> None:
            child = await ctx.spawn(cast.Player, "child")
            child.tell(cast.Go(cast.boom))
            await trio.sleep_forever()

    async with open_system("s") as system:
        with pytest.raises(StartFailed) as raised:
            await system.spawn(Parent)
        assert repr(raised.value.__cause__) == "ValueError('boom')"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.proves("Shutdown: nothing outlives the block")
async def test_random_kills_crashes_and_cancelled_asks_leave_nothing_behind(
    cast: Any, autojump_clock: MockClock, seed: int
) -> None:
    rng = random.Random(seed)
    strategy = one_for_one(intensity=Intensity(10**9))

    async def work(self: Any, ctx: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, rng.random())
            nursery.start_soon(trio.sleep, rng.random())
        if rng.random() < 0.2:
            raise ValueError

    async with open_system("s", shutdown=1, strategy=strategy) as system:
        refs = [await system.spawn(cast.Player, str(n), restart="transient") for n in range(40)]

        async def client() -> None:
            for _ in range(15):
                ref = rng.choice(refs)
                with trio.move_on_after(rng.random() * 2):
                    with contextlib.suppress(TrouperError):
                        await ref.ask(cast.Ask(work))
                if rng.random() < 0.05:
                    rng.choice([ref.kill, ref.stop, ref.drain])()

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(client)
        assert system.statistics().asks_pending == 0
        assert len(system._runtime.waits) == 0
    assert {ref.statistics().state for ref in refs} == {"stopped"}

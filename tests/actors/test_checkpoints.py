"""Where a call may be cancelled: before it did anything, or not at all."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio
import trio.testing

from trouper.actors import open_system


@pytest.mark.proves("Sending: ask is a checkpoint")
async def test_a_cancelled_spawn_leaves_no_actor(cast: Any) -> None:
    async with open_system("s") as system:
        spawned = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            while True:  # one in so many is a checkpoint
                await system.spawn(cast.Extra)
                spawned += 1
        assert system.statistics().actors == spawned


async def test_a_cancelled_spawn_of_a_child_leaves_no_actor(cast: Any) -> None:
    async def children(self: Any, ctx: Any) -> int:
        spawned = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            while True:
                await ctx.spawn(cast.Extra)
                spawned += 1
        return spawned

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        spawned = await ref.ask(cast.Ask(children))
        assert system.statistics().actors == spawned + 1


@pytest.mark.proves("Sending: ask is a checkpoint", "Sending: send waits for room")
async def test_a_cancelled_send_has_sent_nothing(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Extra)
        sent = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            while True:
                await ref.send(cast.Plain())
                sent += 1
        await trio.testing.wait_all_tasks_blocked()
        assert ref.statistics().processed == sent


async def test_the_safety_net_lets_go_of_answered_asks(cast: Any) -> None:
    async def slow(self: Any, ctx: Any) -> None:
        await trio.testing.wait_all_tasks_blocked()  # the net has looked at this ask by then

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        await ref.ask(cast.Ask(slow))
        holders = [getattr(holder, "__qualname__", "") for holder in gc.get_referrers(ref)]
        assert "AskNet._watch" not in holders

"""Random scenes: actors that do anything to anybody, in turns and in hooks, in virtual time.

Afterwards every actor has ended, each that was up had its `stopping` hook, nobody waits, and no ask
needed the safety net: none of what these actors wait for is for ever.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from trouper.actors import Actor, Context, Ref, Request, Terminated, handles, open_system
from trouper.actors._local import LocalRef
from trouper.errors import AskUnknown, TrouperError
from trouper.supervision import (
    Backoff,
    Exit,
    Intensity,
    Restart,
    one_for_all,
    one_for_one,
    rest_for_one,
)

STRATEGIES = (one_for_one, one_for_all, rest_for_one)
RESTARTS: tuple[Restart, ...] = ("never", "permanent", "transient")


class Do(Request[None]):
    """Wants something done."""


class Boom(Exception):
    """The failure of an actor that does not mean it."""


class Scene:
    """What the actors of one run share."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.refs: list[Ref[Any]] = []
        self.up: set[tuple[str, int]] = set()


class Anybody(Actor):
    def __init__(self, scene: Scene, depth: int) -> None:
        self.scene = scene
        self.depth = depth

    async def started(self, ctx: Context[Any]) -> None:
        self.life = ctx.self_ref.path, ctx.self_ref.incarnation
        self.scene.refs.append(ctx.self_ref)
        await self.act(ctx, 0.3)
        self.scene.up.add(self.life)

    @handles(Do)
    async def do(self, message: Do, ctx: Context[Any]) -> None:
        await self.act(ctx, 1.0)

    @handles(Terminated)
    async def heard(self, message: Terminated, ctx: Context[Any]) -> None:
        await self.act(ctx, 0.2)

    async def stopping(self, ctx: Context[Any], why: Exit) -> None:
        self.scene.up.discard(self.life)
        with contextlib.suppress(Boom):
            await self.act(ctx, 0.3)

    async def act(self, ctx: Context[Any], chance: float) -> None:
        """Do up to two things to somebody."""
        r = self.scene.random
        if r.random() > chance:
            return
        deeds = self.deeds(ctx)
        for _ in range(r.randrange(3)):
            with contextlib.suppress(TrouperError, ValueError):
                done = r.choice(deeds)(r.choice(self.scene.refs))
                if done is not None:
                    await done

    def deeds(self, ctx: Context[Any]) -> list[Callable[[Ref[Any]], Awaitable[object] | None]]:
        r = self.scene.random

        async def wait(other: Ref[Any]) -> None:
            with trio.move_on_after(1):
                await other.stopped()

        async def rest(other: Ref[Any]) -> None:
            await trio.sleep(r.random())

        async def fail(other: Ref[Any]) -> None:
            raise Boom

        async def spawn(other: Ref[Any]) -> None:
            if self.depth < 3:
                await ctx.spawn(
                    Anybody,
                    self.scene,
                    self.depth + 1,
                    restart=r.choice(RESTARTS),
                    mailbox=2,
                    overflow=r.choice(("reject", "wait", "drop_oldest")),
                    strategy=r.choice(STRATEGIES)(
                        intensity=Intensity(20), backoff=r.choice((None, Backoff()))
                    ),
                    dedicated=r.random() < 0.2,
                )

        def set_timer(other: Ref[Any]) -> None:
            ctx.after(r.random(), Do())

        def pipe(other: Ref[Any]) -> None:
            ctx.pipe(trio.sleep, r.random(), to=lambda _: Do())

        def register(other: Ref[Any]) -> None:
            ctx.registry.register(str(r.randrange(5)), other)

        return [
            lambda other: other.ask(Do()),
            lambda other: other.tell(Do()),
            lambda other: other.send(Do()),
            lambda other: other.stop(),
            lambda other: other.kill(),
            lambda other: other.drain(),
            lambda other: ctx.watch(other),
            lambda other: ctx.link(other),
            *(wait, rest, fail, spawn, spawn, spawn, set_timer, pipe, register),
        ]


async def play(scene: Scene, unknown: list[AskUnknown]) -> None:
    """Open a system, let outsiders ask anybody for a while, and leave it, one way or another."""
    r = scene.random
    strategy = r.choice(STRATEGIES)(intensity=Intensity(50))

    async def poke() -> None:
        for _ in range(30):
            try:
                await r.choice(scene.refs).ask(Do())
            except AskUnknown as error:
                unknown.append(error)
            except TrouperError:
                pass
            await trio.sleep(r.random() * 0.3)

    async with open_system("s", shutdown=2, strategy=strategy) as system:
        runtime = system._runtime
        for _ in range(4):
            with contextlib.suppress(TrouperError):
                await system.spawn(Anybody, scene, 0, restart="permanent", mailbox=3)
        with trio.move_on_after(r.choice((100, 2, 1, 0.5))):
            async with trio.open_nursery() as nursery:
                for _ in range(6 if scene.refs else 0):
                    nursery.start_soon(poke)
    assert len(runtime.waits) == 0
    assert not runtime.asks.pending
    assert not runtime.dispatcher.hosts
    assert len(runtime.timers) == 0


@pytest.mark.proves("Shutdown: nothing outlives")
@pytest.mark.parametrize("first", range(0, 100, 25))
def test_whatever_actors_do_to_each_other_everybody_ends_and_no_ask_hangs(first: int) -> None:
    for seed in range(first, first + 25):
        scene = Scene(seed)
        unknown: list[AskUnknown] = []
        with contextlib.suppress(Boom, TrouperError):
            trio.run(play, scene, unknown, clock=MockClock(autojump_threshold=0))
        assert unknown == [], seed
        assert scene.up == set(), seed
        for ref in scene.refs:
            assert cast("LocalRef", ref).exit is not None, (seed, ref)

"""Starting: what a spawn raises, and that nothing is left of one that failed."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Actor, open_system
from trouper.errors import (
    ActorStopped,
    NameTaken,
    StartFailed,
)


@pytest.mark.proves("Restart: a first start that fails")
async def test_a_constructor_that_fails_frees_the_name_and_shows_the_cause(cast: Any) -> None:
    class Bad(Actor):
        def __init__(self) -> None:
            raise ValueError("constructor")

    async with open_system("s") as system:
        with pytest.raises(StartFailed, match=r"Bad did not start under /s") as raised:
            await system.spawn(Bad, name="x")
        assert isinstance(raised.value.__cause__, ValueError)
        assert await (await system.spawn(cast.Player, name="x")).ask(cast.Ask()) == "player"


@pytest.mark.proves("Restart: a first start that fails")
async def test_a_started_hook_runs_before_the_first_message_and_raises_at_spawn(cast: Any) -> None:
    order: list[str] = []

    class Hooked(cast.Player):  # type: ignore[misc]
        async def started(self, ctx: Any) -> None:
            ctx.self_ref.tell(cast.Go(note))
            await trio.lowlevel.checkpoint()
            order.append("started")

    class Failing(cast.Player):  # type: ignore[misc]
        async def started(self, ctx: Any) -> None:
            await ctx.spawn(cast.Player, "child")
            raise ValueError("hook")

    async def note(self: Any, ctx: Any) -> None:
        order.append("message")

    async with open_system("s") as system:
        await (await system.spawn(Hooked)).ask(cast.Ask())
        assert order == ["started", "message"]
        with pytest.raises(StartFailed) as raised:
            await system.spawn(Failing, name="f")
        assert isinstance(raised.value.__cause__, ValueError)
        assert cast.labels() == ["child"]  # nothing is left of a start that failed
        assert [node.name for node in system.tree().children if node.kind == "actor"] == [
            "Hooked#1"
        ]


async def test_a_spawn_cancelled_during_started_leaves_nothing(
    cast: Any, autojump_clock: MockClock
) -> None:
    class Slow(Actor):
        async def started(self, ctx: Any) -> None:
            await ctx.spawn(cast.Player, "child")
            await trio.sleep_forever()

    async with open_system("s") as system:
        with trio.move_on_after(1) as scope:
            await system.spawn(Slow, name="x")
        assert scope.cancelled_caught
        assert cast.labels() == ["child"]
        assert await (await system.spawn(cast.Player, name="x")).ask(cast.Ask()) == "player"


async def test_an_actor_stopped_while_it_starts_is_a_stopped_one(cast: Any) -> None:
    refs: list[Any] = []

    class Slow(Actor):
        async def started(self, ctx: Any) -> None:
            refs.append(ctx.self_ref)
            await trio.sleep_forever()

    async with open_system("s") as system, trio.open_nursery() as nursery:

        async def spawner() -> None:
            with pytest.raises(ActorStopped, match="stopped while it started"):
                await system.spawn(Slow)

        nursery.start_soon(spawner)
        await wait_all_tasks_blocked()
        refs[0].kill()
        await refs[0].stopped()


@pytest.mark.proves("Misuse: a name used twice")
async def test_names_are_unique_among_siblings_and_have_no_marks(cast: Any) -> None:
    async with open_system("s") as system:
        await system.spawn(cast.Extra, name="one")
        with pytest.raises(NameTaken, match="/s/one lives"):
            await system.spawn(cast.Extra, name="one")
        for name in ("", "a/b", "a#1"):
            with pytest.raises(ValueError, match="name"):
                await system.spawn(cast.Extra, name=name)


@pytest.mark.proves("Misuse: senseless options")
@pytest.mark.proves("Misuse: what is no actor")
async def test_senseless_options_are_refused(cast: Any) -> None:
    async with open_system("s") as system:
        for options in ({"mailbox": 0}, {"shutdown": -1}, {"restart": "always"}):
            with pytest.raises(ValueError, match=next(iter(options))):
                await system.spawn(cast.Extra, **options)
        not_an_actor: Any = int
        with pytest.raises(StartFailed, match="spawn takes an Actor class"):
            await system.spawn(not_an_actor)

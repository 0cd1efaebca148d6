"""Actors with a task and a context of their own, and what the others share."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest
import trio
import trio.testing
from trio.lowlevel import current_task

from trouper.actors import open_system
from trouper.errors import ActorCrashed, AskCycle

VAR: ContextVar[str] = ContextVar("var", default="unset")


async def task_of(self: Any, ctx: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return current_task()


async def get_var(self: Any, ctx: Any) -> str:
    await trio.lowlevel.checkpoint()
    return VAR.get()


def sets_var(value: str) -> Any:
    async def set_var(self: Any, ctx: Any) -> None:
        VAR.set(value)

    return set_var


@pytest.mark.proves("Interop: dedicated")
async def test_a_dedicated_actor_has_one_task_across_its_turns(cast: Any) -> None:
    async with open_system("s") as system:
        other = await system.spawn(cast.Player)
        ref = await system.spawn(cast.Player, dedicated=True)
        first = await ref.ask(cast.Ask(task_of))
        assert await other.ask(cast.Ask(task_of)) is not first
        assert await ref.ask(cast.Ask(task_of)) is first


@pytest.mark.proves("Interop: dedicated")
async def test_its_plain_handlers_run_there_too_never_in_the_asker(cast: Any) -> None:
    async with open_system("s") as system:
        shared, ref = [await system.spawn(cast.Extra, dedicated=d) for d in (False, True)]
        run = cast.Plain(lambda self: current_task())
        assert await shared.ask(run) is current_task()  # a direct ask
        assert await ref.ask(run) is not current_task()
        assert await ref.ask(run) is await ref.ask(run)


@pytest.mark.proves("Interop: contextvars are shared")
async def test_a_direct_ask_shares_the_context_of_its_asker(cast: Any) -> None:
    async with open_system("s") as system:
        shared, own = [await system.spawn(cast.Extra, dedicated=d) for d in (False, True)]
        token = VAR.set("asker's")
        try:
            assert await shared.ask(cast.Plain(lambda self: VAR.get())) == "asker's"
            await shared.ask(cast.Plain(lambda self: VAR.set("handler's")))
            assert VAR.get() == "handler's"  # it wrote into the asker's context
            await own.ask(cast.Plain(lambda self: VAR.set("own")))
            assert VAR.get() == "handler's"
        finally:
            VAR.reset(token)


@pytest.mark.proves("Interop: dedicated", "Interop: contextvars are shared")
async def test_its_context_variables_are_its_own_and_last_across_turns(cast: Any) -> None:
    async with open_system("s") as system:
        a, b = [await system.spawn(cast.Player) for _ in range(2)]
        own = await system.spawn(cast.Player, dedicated=True)
        a.tell(cast.Go(sets_var("a's")))
        b_sees: list[str] = []

        async def look(self: Any, ctx: Any) -> None:
            b_sees.append(VAR.get())

        b.tell(cast.Go(look))  # the same worker, hence the same context
        await trio.testing.wait_all_tasks_blocked()
        assert b_sees == ["a's"]
        assert await own.ask(cast.Ask(get_var)) == "unset"
        await own.ask(cast.Ask(sets_var("mine")))
        assert await own.ask(cast.Ask(get_var)) == "mine"


async def test_its_context_is_a_copy_of_the_spawners(cast: Any) -> None:
    async with open_system("s") as system:
        token = VAR.set("at spawn")
        own = await system.spawn(cast.Player, dedicated=True)
        VAR.set("later")
        assert await own.ask(cast.Ask(get_var)) == "at spawn"
        VAR.reset(token)


async def test_cycles_through_it_are_found(cast: Any) -> None:
    async with open_system("s") as system:
        own = await system.spawn(cast.Player, dedicated=True, restart="permanent")
        other = await system.spawn(cast.Player, restart="permanent")

        async def ask_own(self: Any, ctx: Any) -> Any:
            return await own.ask(cast.Ask())

        async def ask_other(self: Any, ctx: Any) -> Any:
            return await other.ask(cast.Ask(ask_own))

        with pytest.raises(ActorCrashed) as caught:
            await own.ask(cast.Ask(ask_other))
        crash = caught.value.__cause__
        assert isinstance(crash, ActorCrashed)
        assert isinstance(crash.__cause__, AskCycle)
        with pytest.raises(ActorCrashed) as caught:
            await own.ask(cast.Ask(ask_own))
        assert isinstance(caught.value.__cause__, AskCycle)


@pytest.mark.parametrize("end", ["stop", "drain", "kill"])
async def test_its_task_ends_with_it(cast: Any, end: str) -> None:
    async with open_system("s") as system:
        workers = system.dispatcher.workers
        own = await system.spawn(cast.Player, dedicated=True)
        task = await own.ask(cast.Ask(task_of))
        assert task in workers
        getattr(own, end)()
        assert (await own.stopped()).kind in ("stopped", "drained", "killed")
        await trio.testing.wait_all_tasks_blocked()
        assert task not in workers


async def test_a_killed_turn_is_cut_and_others_go_on(cast: Any) -> None:
    async with open_system("s") as system:
        own = await system.spawn(cast.Player, "own", dedicated=True)
        own.tell(cast.Go(cast.forever))
        await trio.testing.wait_all_tasks_blocked()
        own.kill()
        assert (await own.stopped()).kind == "killed"
    assert cast.labels() == ["own"]


async def test_it_is_restarted_like_any_other(cast: Any) -> None:
    async with open_system("s") as system:
        own = await system.spawn(cast.Player, "own", dedicated=True, restart="permanent")
        own.tell(cast.Go(cast.boom))
        own.tell(cast.Go(sets_var("after")))
        assert await own.ask(cast.Ask(get_var)) == "after"
        assert own.incarnation == 2


async def test_a_child_may_be_dedicated_and_stops_first(cast: Any) -> None:
    async with open_system("s") as system:
        parent = await system.spawn(cast.Player, "parent")
        child = await parent.ask(cast.Ask(cast.spawns(cast.Player, "child", dedicated=True)))
        assert await child.ask(cast.Ask()) == "child"
    assert cast.labels() == ["child", "parent"]


async def test_a_burst_is_handled_in_order(cast: Any) -> None:
    async with open_system("s") as system:
        own = await system.spawn(cast.Extra, dedicated=True)
        seen: list[int] = []
        for n in range(500):
            own.tell(cast.Plain(lambda self, n=n: seen.append(n)))
        own.drain()
        await own.stopped()
        assert seen == list(range(500))

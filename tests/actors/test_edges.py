"""What an actor does to itself, and at the moments between two states."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Context, Ref, handles, open_system
from trouper.errors import (
    ActorCrashed,
    ActorStopped,
    AskCycle,
    LinkBroken,
    ShuttingDown,
    StartFailed,
)
from trouper.supervision import Exit, one_for_all

Hook = Callable[[Context[Any]], Any]


def actor_with(cast: Any, started: Any = None, stopping: Any = None) -> Callable[[], Any]:
    """Return a class whose hooks run these functions."""

    class Hooked(cast.Extra):  # type: ignore[misc]
        async def started(self, ctx: Context[Any]) -> None:
            if started is not None:
                await started(ctx)

        @handles(cast.Ask)
        async def answer(self, message: Any, ctx: Context[Any]) -> Any:
            return "here" if message.fn is None else await message.fn(self, ctx)

        async def stopping(self, ctx: Context[Any], why: Exit) -> None:
            if stopping is not None:
                await stopping(ctx)

    return Hooked


# --- in `started` ---------------------------------------------------------------------------------


@pytest.mark.proves("Ask: cycles")
@pytest.mark.parametrize("by", ["body", "actor", "restart"])
@pytest.mark.parametrize("what", ["ask", "send", "stopped"])
async def test_a_start_that_waits_for_itself_is_refused(
    cast: Any, autojump_clock: MockClock, what: str, by: str
) -> None:
    found: list[AskCycle] = []
    lives: list[int] = []

    async def waits(ctx: Context[Any]) -> None:
        lives.append(1)
        if by == "restart" and len(lives) == 1:
            return
        me = ctx.self_ref
        if what == "send":
            me.tell(cast.Go(cast.forever))
        with pytest.raises(AskCycle) as caught:
            if what == "ask":
                await me.ask(cast.Ask())
            elif what == "send":
                await me.send(cast.Go(cast.forever))
            else:
                await me.stopped()
        found.append(caught.value)

    options: Any = {"mailbox": 1, "name": "self", "restart": "permanent"}
    async with open_system("s") as system:
        if by == "actor":
            parent = await system.spawn(cast.Player)
            ref = await parent.ask(cast.Ask(cast.spawns(actor_with(cast, waits), **options)))
        else:
            ref = await system.spawn(actor_with(cast, waits), **options)
            if by == "restart":
                ref.tell(cast.Go(cast.boom))
                await wait_all_tasks_blocked()
        assert len(found) == 1
        assert trio.current_time() == 0
        ref.kill()


@pytest.mark.proves("Ask: cycles")
@pytest.mark.parametrize("by", ["body", "actor", "nursery"])
async def test_a_start_that_asks_who_waits_for_that_start_is_refused(
    cast: Any, autojump_clock: MockClock, by: str
) -> None:
    async with open_system("s") as system:
        other: Ref[Any] = await system.spawn(cast.Player, name="other")

        async def asks(ctx: Context[Any]) -> None:
            async def back(self: Any, its: Context[Any]) -> Any:
                with pytest.raises(AskCycle) as caught:
                    await ctx.self_ref.ask(cast.Ask())
                return caught.value.path

            async def ask() -> None:
                paths.append(await other.ask(cast.Ask(back)))

            if by == "nursery":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask)
            else:
                await ask()

        paths: list[list[str]] = []
        if by == "actor":
            parent = await system.spawn(cast.Player, name="p")
            new = await parent.ask(cast.Ask(cast.spawns(actor_with(cast, asks), name="new")))
        else:
            new = await system.spawn(actor_with(cast, asks), name="new")
        assert paths == [["/s/other", new.path, "/s/other"]]
        assert await new.ask(cast.Ask()) == "here"
        assert len(system._runtime.waits) == 0
        assert trio.current_time() == 0


@pytest.mark.proves("Ask: cycles")
async def test_a_start_that_asks_the_parent_that_waits_for_it_is_refused(
    cast: Any, autojump_clock: MockClock
) -> None:
    async def asks(ctx: Context[Any]) -> None:
        assert ctx.parent is not None
        await ctx.parent.ask(cast.Ask())

    async with open_system("s") as system:
        parent = await system.spawn(cast.Player, name="p", restart="permanent")
        with pytest.raises(ActorCrashed) as caught:
            await parent.ask(cast.Ask(cast.spawns(actor_with(cast, asks), name="c")))
        start: Any = caught.value.__cause__
        assert isinstance(start, StartFailed)
        assert isinstance(start.__cause__, AskCycle)
        assert start.__cause__.path == ["/s/p/c", "/s/p", "/s/p/c"]
        assert await parent.ask(cast.Ask()) == "player"
        assert trio.current_time() == 0


async def test_a_start_in_a_pipe_may_ask_the_parent(cast: Any) -> None:
    answers: list[Any] = []

    async def asks(ctx: Context[Any]) -> None:
        assert ctx.parent is not None
        answers.append(await ctx.parent.ask(cast.Ask()))

    async def pipes(self: Any, ctx: Context[Any]) -> None:
        ctx.pipe(ctx.spawn, actor_with(cast, asks), to=lambda ref: cast.Go(noop))

    async with open_system("s") as system:
        parent = await system.spawn(cast.Player)
        parent.tell(cast.Go(pipes))
        await wait_all_tasks_blocked()
    assert answers == ["player"]


async def test_what_goes_on_beside_a_start_is_charged_to_whoever_does_it(
    cast: Any, autojump_clock: MockClock
) -> None:
    gate = trio.Event()

    async def starts(ctx: Context[Any]) -> None:
        ctx.registry.register("new", ctx.self_ref)
        await gate.wait()

    async def both(self: Any, ctx: Context[Any]) -> Any:
        async def asks() -> None:
            await wait_all_tasks_blocked()
            new = ctx.registry.whereis("new")
            assert new is not None
            waits = ctx.self_ref.system.waits  # type: ignore[attr-defined]
            nursery.start_soon(release)
            answers.append(await new.ask(cast.Ask()))  # of this turn, not of that start
            assert len(waits) == 0

        async def release() -> None:
            await wait_all_tasks_blocked()
            gate.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks)
            await ctx.spawn(actor_with(cast, starts))

    answers: list[Any] = []
    async with open_system("s") as system:
        parent = await system.spawn(cast.Player)
        await parent.ask(cast.Ask(both))
    assert answers == ["here"]


async def noop(self: Any, ctx: Any) -> None:
    """Do nothing."""


@pytest.mark.proves("Stop kinds: spawning during the parent's shutdown")
@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
async def test_a_stop_in_a_start_ends_the_start_and_frees_the_name(cast: Any, how: str) -> None:
    hooks: list[str] = []

    async def stops(ctx: Context[Any]) -> None:
        await ctx.spawn(cast.Player, "child")
        getattr(ctx.self_ref, how)()
        hooks.append("on")  # plain code goes on to its end
        await trio.lowlevel.checkpoint()
        hooks.append("never")

    async with open_system("s") as system:
        for _ in range(2):  # the name is free again
            with pytest.raises(ActorStopped, match="while it started"):
                await system.spawn(actor_with(cast, stops), name="x")
        assert system.tree().children[-1].name != "x"
    assert hooks == ["on", "on"]
    assert cast.labels() == ["child", "child"]


@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
async def test_a_stop_at_the_end_of_a_start_closes_what_the_start_opened(
    cast: Any, how: str
) -> None:
    whys: list[Exit] = []

    class Opens(actor_with(cast)):  # type: ignore[misc]
        async def started(self, ctx: Context[Any]) -> None:
            refs.append(ctx.self_ref)
            getattr(ctx.self_ref, how)()

        async def stopping(self, ctx: Context[Any], why: Exit) -> None:
            whys.append(why)

    refs: list[Ref[Any]] = []
    async with open_system("s") as system:
        with pytest.raises(ActorStopped, match="while it started"):
            await system.spawn(Opens)
        assert whys == [await refs[0].stopped()]
        assert whys[0].kind == {"stop": "stopped", "drain": "drained", "kill": "killed"}[how]


async def test_a_start_that_asks_a_stopped_actor_has_failed_and_was_not_stopped(cast: Any) -> None:
    async with open_system("s") as system:
        dead = await system.spawn(cast.Player)
        dead.stop()
        await dead.stopped()

        async def asks(ctx: Context[Any]) -> None:
            await dead.ask(cast.Ask())

        with pytest.raises(StartFailed) as caught:
            await system.spawn(actor_with(cast, asks))
        assert isinstance(caught.value.__cause__, ActorStopped)


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_start_that_somebody_ended_breaks_no_link(cast: Any, how: str) -> None:
    async with open_system("s") as system:
        other = await system.spawn(cast.Player, restart="permanent")
        refs: list[Ref[Any]] = []

        async def links(ctx: Context[Any]) -> None:
            refs.append(ctx.self_ref)
            ctx.link(other)
            await trio.sleep_forever()

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def spawn() -> None:
                    with contextlib.suppress(ActorStopped):
                        await system.spawn(actor_with(cast, links))

                nursery.start_soon(spawn)
                await wait_all_tasks_blocked()
                if how == "stop":
                    refs[0].stop()
                else:
                    scope.cancel()
        assert (await refs[0].stopped()).kind == "stopped"
        assert await other.ask(cast.Ask()) == "player"
        assert other.incarnation == 1


async def test_who_stops_an_actor_whose_start_is_being_undone_waits_for_that_one_end(
    cast: Any, autojump_clock: MockClock
) -> None:
    refs: list[Ref[Any]] = []
    exits: list[Exit] = []

    async def fails(ctx: Context[Any]) -> None:
        await ctx.spawn(cast.Player, "slow", 2.0)
        refs.append(ctx.self_ref)
        raise ValueError("start")

    async with open_system("s") as system, trio.open_nursery() as nursery:

        async def meddle() -> None:
            await trio.sleep(1)
            for how in ("stop", "kill", "drain"):
                getattr(refs[0], how)()
            exits.append(await refs[0].stopped())

        nursery.start_soon(meddle)
        with pytest.raises(StartFailed):
            await system.spawn(actor_with(cast, fails), name="x")
        assert trio.current_time() == 2
    assert [(e.kind, repr(e.cause)) for e in exits] == [("crashed", "ValueError('start')")]
    assert cast.labels() == ["slow"]


@pytest.mark.proves("Restart: keeps the ref, the name, the queue")
@pytest.mark.parametrize("when", ["started", "between"])
async def test_mail_for_an_idle_actor_that_a_child_fails_waits_for_its_next_life_once(
    cast: Any, when: str
) -> None:
    got: list[int] = []
    lives: list[int] = []

    def note(n: int) -> Any:
        async def run(self: Any, ctx: Any) -> None:
            got.append(n)

        return cast.Go(run)

    class Parent(cast.Player):  # type: ignore[misc]
        async def started(self, ctx: Context[Any]) -> None:
            lives.append(1)
            if when == "started" and len(lives) == 2:
                for n in range(3):
                    ctx.self_ref.tell(note(n))

    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(Parent, restart="permanent")
        child = await ref.ask(cast.Ask(cast.spawns(cast.Player)))

        async def fails(self: Any, ctx: Context[Any]) -> None:
            ctx.self_ref.system.dead_letters.subscribe(hears)  # type: ignore[attr-defined]
            raise ValueError("child")

        def hears(_: Any) -> None:
            if when == "between":
                for n in range(3):
                    ref.tell(note(n))

        child.tell(cast.Go(fails))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2
        assert await ref.ask(cast.Ask()) == "player"
        assert got == [0, 1, 2]
        assert ref.statistics().processed >= 4


# --- in `stopping` --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
async def test_a_stop_in_the_stopping_hook_changes_nothing(cast: Any, how: str) -> None:
    hooks: list[str] = []

    async def stops(ctx: Context[Any]) -> None:
        hooks.append("in")
        getattr(ctx.self_ref, how)()
        await trio.lowlevel.checkpoint()
        hooks.append("out")

    async with open_system("s") as system:
        ref = await system.spawn(actor_with(cast, stopping=stops))
        ref.stop()
        assert (await ref.stopped()).kind == "stopped"
    assert hooks == ["in", "out"]


@pytest.mark.proves("Stop kinds: spawning during the parent's shutdown")
@pytest.mark.parametrize("ends", ["stop", "restart", "sibling"])
async def test_nothing_starts_in_a_stopping_hook(
    cast: Any, autojump_clock: MockClock, ends: str
) -> None:
    seen: list[str] = []

    async def starts(ctx: Context[Any]) -> None:
        with pytest.raises(ShuttingDown, match="nothing new starts"):
            await ctx.spawn(cast.Player, "late", name="late")
        ctx.after(1, cast.Go(mark("timer")))
        ctx.pipe(trio.sleep, 1, to=lambda _: cast.Go(mark("pipe")))
        seen.append("hook")

    def mark(what: str) -> Any:
        async def note(self: Any, ctx: Any) -> None:
            seen.append(what)

        return note

    async with open_system("s", strategy=one_for_all()) as system:
        ref = await system.spawn(actor_with(cast, stopping=starts), restart="permanent")
        other = await system.spawn(cast.Player, restart="permanent")
        if ends == "stop":
            ref.stop()
        else:
            (ref if ends == "restart" else other).tell(cast.Go(cast.boom))
        await trio.sleep(5)
        assert seen == ["hook"]
        if ends != "stop":
            assert ref.incarnation == 2
            assert list(ref.children) == []  # type: ignore[attr-defined]
    assert "late" not in cast.labels()


# --- in a turn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
@pytest.mark.parametrize("handler", ["plain", "direct", "async"])
async def test_an_actor_ends_itself_in_its_turn(cast: Any, how: str, handler: str) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)

        def ends(self: Any) -> str:
            getattr(ref, how)()
            return "last word"

        async def ends_async(self: Any, ctx: Any) -> str:
            ends(self)
            await trio.lowlevel.checkpoint()
            return "last word"

        ask = cast.Ask(ends_async) if handler == "async" else cast.Plain(ends)
        if handler == "plain":
            ref.tell(cast.Go(noop))  # so that it does not run in the asker's task
        ref_ask = ref.ask(ask)
        if how == "kill":
            with pytest.raises(ActorStopped):
                await ref_ask
        else:
            assert await ref_ask == "last word"
        assert (await ref.stopped()).kind == {"stop": "stopped", "drain": "drained"}.get(
            how, "killed"
        )


@pytest.mark.proves("Stop kinds: drain")
async def test_a_drain_of_an_actor_that_asks_itself_ends(
    cast: Any, autojump_clock: MockClock
) -> None:
    errors: list[str] = []

    async def asks(self: Any, ctx: Context[Any]) -> None:
        try:
            await ctx.self_ref.ask(cast.Ask())
        except (AskCycle, ActorStopped) as error:
            errors.append(type(error).__name__)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        for _ in range(2):
            ref.tell(cast.Go(asks))
        ref.drain()
        assert (await ref.stopped()).kind == "drained"
    assert errors == ["ActorStopped", "ActorStopped"]
    assert trio.current_time() == 0


async def test_a_name_registered_in_a_start_that_fails_is_free_and_a_link_breaks(
    cast: Any,
) -> None:
    async with open_system("s") as system:
        other = await system.spawn(cast.Player, restart="permanent")

        async def fails(ctx: Context[Any]) -> None:
            ctx.registry.register("x", ctx.self_ref)
            ctx.topics.subscribe("t", ctx.self_ref)
            ctx.link(other)
            ctx.after(1, cast.Go(noop))
            raise ValueError("start")

        for _ in range(2):
            with pytest.raises(StartFailed):
                await system.spawn(actor_with(cast, fails), name="n")
            await wait_all_tasks_blocked()
        assert system.registry.whereis("x") is None
        assert system.topics.subscribers("t") == ()
        assert other.incarnation == 3  # whoever is linked to it hears of that end as of any
        assert len(system._runtime.timers) == 0


async def test_a_subscriber_that_leaves_while_others_are_told_is_spared(cast: Any) -> None:
    async with open_system("s") as system:
        full: Ref[Any] = await system.spawn(cast.Player, mailbox=1)
        full.tell(cast.Go(cast.forever))
        await wait_all_tasks_blocked()
        full.tell(cast.Go(noop))
        second = await system.spawn(cast.Player, "second")
        got: list[str] = []

        async def note(self: Any, ctx: Any) -> None:
            got.append(self.label)

        system.topics.subscribe("t", full)
        system.topics.subscribe("t", second)
        system.dead_letters.subscribe(lambda letter: system.topics.unsubscribe("t", second))
        assert system.topics.publish("t", cast.Go(note)) == 0
        await wait_all_tasks_blocked()
        assert got == []
        assert system.topics.subscribers("t") == (full,)
        full.kill()


async def test_linking_and_watching_in_a_start_tell_the_new_actor_of_ends_before_it(
    cast: Any,
) -> None:
    async with open_system("s") as system:
        dead = await system.spawn(cast.Player)
        dead.kill()
        await dead.stopped()

        async def links(ctx: Context[Any]) -> None:
            ctx.link(dead)

        with pytest.raises(StartFailed) as caught:
            await system.spawn(actor_with(cast, links))
        assert isinstance(caught.value.__cause__, LinkBroken)


async def test_an_actor_of_another_system_gets_no_name_and_no_subscription_here(
    cast: Any,
) -> None:
    async with open_system("one") as one, open_system("two") as two:
        ref = await two.spawn(cast.Player, name="p")
        with pytest.raises(ValueError, match="/two/p lives in another system"):
            one.registry.register("p", ref)
        with pytest.raises(ValueError, match="/two/p lives in another system"):
            one.topics.subscribe("t", ref)
        two.registry.register("p", ref)
        two.topics.subscribe("t", ref)
        ref.stop()
        await ref.stopped()
        assert two.registry.whereis("p") is None


async def test_what_has_ended_ties_itself_to_nobody(cast: Any) -> None:
    contexts: list[Context[Any]] = []

    async def keeps(ctx: Context[Any]) -> None:
        contexts.append(ctx)

    async with open_system("s") as system:
        other = await system.spawn(cast.Player, restart="permanent")
        ref = await system.spawn(actor_with(cast, keeps))
        ref.kill()
        await ref.stopped()
        ctx = contexts[0]
        ctx.link(other)
        ctx.after(1, cast.Go(noop))
        with pytest.raises(ShuttingDown):
            await ctx.spawn(cast.Player)
        links = other.need_belongings().links  # type: ignore[attr-defined]
        assert links == {}
        assert len(system._runtime.timers) == 0


async def test_one_function_hears_of_dead_letters_as_often_as_it_is_subscribed(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        ref.stop()
        await ref.stopped()
        heard: list[Any] = []
        first = system.dead_letters.subscribe(heard.append)
        system.dead_letters.subscribe(heard.append)
        ref.tell(cast.Go(noop))
        assert len(heard) == 2
        first()
        first()
        ref.tell(cast.Go(noop))
        assert len(heard) == 3


# --- interrupts -----------------------------------------------------------------------------------


@pytest.mark.proves("Supervision: KeyboardInterrupt and SystemExit")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["constructor", "started"])
@pytest.mark.parametrize("by", ["body", "actor", "restart"])
async def test_an_interrupt_in_a_start_ends_the_block_and_leaves_nothing(
    cast: Any, error: type[BaseException], where: str, by: str
) -> None:
    lives: list[int] = []

    def hit() -> None:
        lives.append(1)
        if by != "restart" or len(lives) > 1:
            raise error

    class Unlucky(cast.Extra):  # type: ignore[misc]
        def __init__(self) -> None:
            if where == "constructor":
                hit()

        async def started(self, ctx: Context[Any]) -> None:
            if where == "started":
                hit()

    with pytest.raises(error):
        async with open_system("s") as system:
            await system.spawn(cast.Player, "other")
            if by == "actor":
                parent = await system.spawn(cast.Player, "parent", restart="permanent")
                await parent.ask(cast.Ask(cast.spawns(Unlucky, restart="permanent")))
            ref: Ref[Any] = await system.spawn(Unlucky, restart="permanent")
            ref.tell(cast.Go(cast.boom))
            with trio.fail_after(5):
                await trio.sleep_forever()
    assert cast.labels()[-1] == "other"
    assert len(lives) == (2 if by == "restart" else 1)

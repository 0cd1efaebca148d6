"""Watches and links: knowing when another actor ends, and ending with it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Actor, Context, Ref, Request, Terminated, handles, open_system
from trouper.errors import ActorStopped, LinkBroken, NotHandled
from trouper.supervision import Backoff, Exit, one_for_all, one_for_one


class Do(Request[Any]):
    """Carries what to do."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn


class Watcher(Actor):
    """Notes what it hears."""

    def __init__(self, heard: list[Terminated] | None = None) -> None:
        self.heard = heard if heard is not None else []

    @handles(Terminated)
    def gone(self, message: Terminated) -> None:
        self.heard.append(message)

    @handles(Do)
    async def do(self, message: Do, ctx: Context[Any]) -> Any:
        result = message.fn(ctx)
        return await result if hasattr(result, "__await__") else result


def boom(ctx: Any) -> None:
    raise ValueError("boom")


@pytest.mark.proves("Watch: exactly one Terminated")
@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
async def test_a_watcher_hears_exactly_once_how_it_ended(how: str) -> None:
    heard: list[Terminated] = []
    async with open_system("s") as system:
        watcher = await system.spawn(Watcher, heard)
        target: Ref[Any] = await system.spawn(Watcher)
        for _ in range(3):
            await watcher.ask(Do(lambda ctx: ctx.watch(target)))
        getattr(target, how)()
        why = await target.stopped()
        await wait_all_tasks_blocked()
        assert heard == [Terminated(target, why)]


@pytest.mark.proves("Watch: also if already dead")
async def test_watching_a_dead_actor_gives_one_message_too() -> None:
    heard: list[Terminated] = []
    async with open_system("s") as system:
        watcher = await system.spawn(Watcher, heard)
        target: Ref[Any] = await system.spawn(Watcher)
        target.stop()
        await target.stopped()

        def twice(ctx: Any) -> None:
            ctx.watch(target)
            ctx.watch(target)

        await watcher.ask(Do(twice))
        await wait_all_tasks_blocked()
        assert heard == [Terminated(target, Exit("stopped"))]
        await watcher.ask(Do(twice))  # a new watch, a new message
        await wait_all_tasks_blocked()
        assert len(heard) == 2


async def test_an_unwatched_actor_ends_unheard_even_if_the_message_waits() -> None:
    heard: list[Terminated] = []
    async with open_system("s") as system:
        watcher = await system.spawn(Watcher, heard)
        early: Ref[Any] = await system.spawn(Watcher)
        late: Ref[Any] = await system.spawn(Watcher)

        def leave(ctx: Any) -> None:
            ctx.watch(early)
            ctx.watch(late)
            ctx.unwatch(early)
            early.stop()
            late.stop()
            ctx.unwatch(late)
            ctx.unwatch(late)

        await watcher.ask(Do(leave))
        await wait_all_tasks_blocked()
        assert heard == []


async def test_a_restart_of_the_watched_is_no_end_and_one_of_the_watcher_keeps_the_watch() -> None:
    heard: list[Terminated] = []
    async with open_system("s") as system:
        watcher = await system.spawn(Watcher, heard, restart="transient")
        target: Ref[Any] = await system.spawn(Watcher, restart="transient")
        await watcher.ask(Do(lambda ctx: ctx.watch(target)))
        target.tell(Do(boom))
        watcher.tell(Do(boom))
        await wait_all_tasks_blocked()
        assert (target.incarnation, watcher.incarnation, heard) == (2, 2, [])
        target.stop()
        await wait_all_tasks_blocked()
        assert [message.ref for message in heard] == [target]


async def test_a_watch_is_refused_where_it_is_made() -> None:
    class Deaf(Actor):
        @handles(Do)
        def do(self, message: Do, ctx: Context[Any]) -> Any:
            return message.fn(ctx)

    async with open_system("s") as system, open_system("t") as foreign:
        ref = await system.spawn(Deaf)
        other = await system.spawn(Watcher)
        stranger = await foreign.spawn(Watcher)

        def deaf(ctx: Any) -> None:
            with pytest.raises(NotHandled, match="Terminated"):
                ctx.watch(other)

        async def itself(ctx: Any) -> None:
            with pytest.raises(ValueError, match="cannot watch itself"):
                ctx.watch(ctx.self_ref)
            with pytest.raises(ValueError, match="another system"):
                ctx.watch(stranger)
            for bad in (ctx.self_ref, stranger):
                with pytest.raises(ValueError, match=r"cannot be linked|another system"):
                    ctx.link(bad)

        await ref.ask(Do(deaf))
        await other.ask(Do(itself))


async def test_a_watcher_that_ends_first_is_forgotten() -> None:
    async with open_system("s") as system:
        watcher = await system.spawn(Watcher)
        target: Ref[Any] = await system.spawn(Watcher)
        await watcher.ask(Do(lambda ctx: ctx.watch(target)))
        watcher.stop()
        target.stop()
        await wait_all_tasks_blocked()
        assert system.statistics().dead_letters == 0


@pytest.mark.proves("Watch: links")
@pytest.mark.parametrize("crashes", [0, 1])
async def test_whichever_linked_actor_crashes_the_other_fails_with_the_cause(crashes: int) -> None:
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            pair: list[Ref[Any]] = [await system.spawn(Watcher, name=n) for n in "ab"]
            await pair[0].ask(Do(lambda ctx: ctx.link(pair[1])))
            pair[crashes].tell(Do(boom))
            why = await pair[1 - crashes].stopped()
            assert isinstance(why.cause, LinkBroken)
            assert repr(why.cause.__cause__) == "ValueError('boom')"
            await trio.sleep_forever()


async def test_a_link_breaks_a_running_turn() -> None:
    with pytest.raises(LinkBroken) as raised:
        async with open_system("s") as system:
            a: Ref[Any] = await system.spawn(Watcher)
            b: Ref[Any] = await system.spawn(Watcher)

            async def link_and_block(ctx: Any) -> None:
                ctx.link(b)
                await trio.sleep_forever()

            a.tell(Do(link_and_block))
            await wait_all_tasks_blocked()
            b.kill()
            await trio.sleep_forever()
    assert "killed" in str(raised.value)


@pytest.mark.parametrize("how", ["stop", "drain"])
async def test_a_normal_end_and_an_unlinked_one_break_nothing(how: str) -> None:
    async with open_system("s") as system:
        a, b, c = [await system.spawn(Watcher) for _ in range(3)]

        def link(ctx: Any) -> None:
            ctx.link(b)
            ctx.link(c)
            ctx.unlink(c)

        await a.ask(Do(link))
        getattr(b, how)()
        c.kill()
        await wait_all_tasks_blocked()
        assert await a.ask(Do(lambda ctx: "alive")) == "alive"


async def test_linking_to_one_that_ended_abnormally_fails_at_the_line() -> None:
    async with open_system("s") as system:
        a: Ref[Any] = await system.spawn(Watcher)
        killed: Ref[Any] = await system.spawn(Watcher)
        stopped: Ref[Any] = await system.spawn(Watcher)
        killed.kill()
        stopped.stop()

        def link(ctx: Any) -> None:
            ctx.link(stopped)
            with pytest.raises(LinkBroken):
                ctx.link(killed)

        await a.ask(Do(link))


async def test_a_restart_breaks_no_link() -> None:
    async with open_system("s") as system:
        a: Ref[Any] = await system.spawn(Watcher, restart="transient")
        b: Ref[Any] = await system.spawn(Watcher)
        await a.ask(Do(lambda ctx: ctx.link(b)))
        a.tell(Do(boom))
        await wait_all_tasks_blocked()
        assert (a.incarnation, b.incarnation) == (2, 1)
        assert await b.ask(Do(lambda ctx: "alive")) == "alive"


async def test_no_ask_is_lost_when_a_turn_that_does_not_block_breaks_its_own_link(
    autojump_clock: MockClock,
) -> None:
    strategy = one_for_one(backoff=Backoff(first=1.0))
    async with open_system("s", strategy=strategy) as system:
        other: Ref[Any] = await system.spawn(Watcher)
        a: Ref[Any] = await system.spawn(Watcher, restart="permanent")
        await a.ask(Do(lambda ctx: ctx.link(other)))
        a.tell(Do(boom))  # while it is held, what is asked queues up for one pass
        answers: list[Any] = []
        async with trio.open_nursery() as nursery:
            for fn in (lambda ctx: other.kill(), lambda ctx: "second", lambda ctx: "third"):
                await wait_all_tasks_blocked()
                nursery.start_soon(outcome_of, a, Do(fn), answers)
        assert sorted(map(str, answers)) == [str(answers[0]), "second", "third"]
        assert isinstance(answers[0], ActorStopped), "its turn was cut"
        assert a.incarnation == 3, "the rest waits for the next life"


async def test_a_link_that_breaks_during_a_back_off_fails_the_next_life_and_loses_no_ask(
    autojump_clock: MockClock,
) -> None:
    strategy = one_for_one(backoff=Backoff(first=1.0))
    async with open_system("s", strategy=strategy) as system:
        other: Ref[Any] = await system.spawn(Watcher)
        a: Ref[Any] = await system.spawn(Watcher, restart="permanent")
        await a.ask(Do(lambda ctx: ctx.link(other)))
        a.tell(Do(boom))
        await wait_all_tasks_blocked()
        answers: list[Any] = []
        async with trio.open_nursery() as nursery:
            for fn in (lambda ctx: "first", lambda ctx: "second"):
                nursery.start_soon(outcome_of, a, Do(fn), answers)
            await wait_all_tasks_blocked()
            other.kill()
        assert sorted(answers) == ["first", "second"]
        assert a.incarnation == 3, "the broken link counts as a failure to start"


async def test_a_link_that_breaks_while_a_sibling_is_held_fails_its_next_life(
    autojump_clock: MockClock,
) -> None:
    strategy = one_for_all(backoff=Backoff(first=1.0))
    async with open_system("s", strategy=strategy) as system:
        home: Ref[Any] = await system.spawn(Watcher, strategy=strategy)
        other: Ref[Any] = await system.spawn(Watcher)

        async def two(ctx: Any) -> list[Ref[Any]]:
            return [await ctx.spawn(Watcher, restart="permanent") for _ in range(2)]

        failing, held = await home.ask(Do(two))
        await held.ask(Do(lambda ctx: ctx.link(other)))
        failing.tell(Do(boom))
        await wait_all_tasks_blocked()
        other.kill()
        assert await held.ask(Do(lambda ctx: "alive")) == "alive"
        assert held.incarnation == 3, "the broken link counts as a failure to start"


async def outcome_of(ref: Ref[Any], message: Do, answers: list[Any]) -> None:
    try:
        answers.append(await ref.ask(message))
    except Exception as error:
        answers.append(error)

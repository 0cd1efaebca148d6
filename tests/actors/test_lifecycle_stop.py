"""Stopping: stop, drain, kill, budgets and hooks, in every state."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Actor, Context, Request, handles, open_system
from trouper.errors import (
    ActorCrashed,
    ActorStopped,
    ShuttingDown,
)
from trouper.supervision import Backoff, Strategy, one_for_one, rest_for_one


@dataclass(frozen=True, slots=True)
class Ping(Request[None]): ...


@pytest.mark.proves("Stop kinds: stop")
async def test_stop_ends_after_the_message_in_hand_and_drops_the_rest(cast: Any) -> None:
    ran: list[str] = []

    async def stop(self: Any, ctx: Any) -> None:
        ctx.self_ref.stop()
        ran.append("in hand")

    async def never(self: Any, ctx: Any) -> None:
        ran.append("must not run")

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        ref.tell(cast.Go(stop))
        ref.tell(cast.Go(never))
        assert (await ref.stopped()).kind == "stopped"
        ref.tell(cast.Go(never))
        assert ran == ["in hand"]
        assert [letter.reason for letter in system.dead_letters] == ["stopped", "stopped"]


@pytest.mark.proves("Stop kinds: drain")
async def test_drain_handles_what_is_queued_and_takes_nothing_more(cast: Any) -> None:
    ran: list[int] = []

    def note(n: int) -> Any:
        async def run(self: Any, ctx: Any) -> None:
            await trio.lowlevel.checkpoint()
            ran.append(n)

        return run

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        for n in range(40):
            ref.tell(cast.Go(note(n)))
        ref.drain()
        ref.tell(cast.Go(note(99)))
        assert (await ref.stopped()).kind == "drained"
        assert ran == list(range(40))
        assert [letter.reason for letter in system.dead_letters] == ["draining"]


@pytest.mark.proves("Stop kinds: kill")
@pytest.mark.proves("Stop kinds: each awaitable to the end of the hooks")
@pytest.mark.proves("Stop kinds: the stopping hook always runs")
async def test_kill_cuts_the_turn_and_the_hook_still_runs(cast: Any) -> None:
    async with open_system("s") as system:
        ref, other = await system.spawn(cast.Player, "a"), await system.spawn(cast.Player, "b")
        ref.tell(cast.Go(cast.forever))
        await wait_all_tasks_blocked()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
        assert cast.labels() == ["a"]
        assert await other.ask(cast.Ask()) == "b"


@pytest.mark.proves("Stop kinds: kill")
@pytest.mark.proves("Dispatch: a stop has a synchronous half")
async def test_kill_of_a_queued_actor_runs_none_of_it(cast: Any) -> None:
    ran: list[int] = []

    async def note(self: Any, ctx: Any) -> None:
        ran.append(1)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        for _ in range(5):
            ref.tell(cast.Go(note))
        ref.kill()
        await ref.stopped()
        assert ran == []
        assert system.statistics().dead_letters == 5


@pytest.mark.proves("Turns: a handler that returns after swallowing Cancelled")
async def test_a_turn_that_kills_itself_and_swallows_it_still_ends(cast: Any) -> None:
    log: list[str] = []

    async def kill_self(self: Any, ctx: Any) -> None:
        ctx.self_ref.kill()
        log.append("still here")
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            log.append("cancelled")

    async def never(self: Any, ctx: Any) -> None:
        log.append("must not run")

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        ref.tell(cast.Go(kill_self))
        ref.tell(cast.Go(never))
        await ref.stopped()
    assert log == ["still here", "cancelled"]


@pytest.mark.proves("Turns: a handler that returns after swallowing Cancelled")
async def test_a_value_returned_after_swallowing_the_cancellation_is_dropped(cast: Any) -> None:
    async def swallow(self: Any, ctx: Any) -> int:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return 42
        return 0

    async with open_system("s") as system, trio.open_nursery() as nursery:
        ref = await system.spawn(cast.Player)

        async def asker() -> None:
            with pytest.raises(ActorStopped, match="the turn was cut: killed"):
                await ref.ask(cast.Ask(swallow))

        nursery.start_soon(asker)
        await wait_all_tasks_blocked()
        ref.kill()


async def test_an_error_in_the_cleanup_of_a_cut_turn_is_logged_not_supervised(
    cast: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in cleanup")

    async def handler(self: Any, ctx: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, restart="permanent")
        ref.tell(cast.Go(handler))
        await wait_all_tasks_blocked()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
    assert "failed while its turn was being cut" in caplog.text
    assert "in cleanup" in caplog.text


@pytest.mark.proves("Dispatch: a stop has a synchronous half")
async def test_an_idle_actor_without_hook_stops_at_once_and_needs_no_worker(cast: Any) -> None:
    async with open_system("s") as system:
        started = system.statistics().dispatcher.started
        ref = await system.spawn(cast.Extra)
        ref.stop()
        assert ref.statistics().state == "stopped"
        ref.stop()
        ref.kill()
        assert (await ref.stopped()).kind == "stopped"
        assert system.statistics().dispatcher.started == started


@pytest.mark.proves("Dispatch: every await in a lifecycle job")
async def test_a_kill_during_the_stopping_hook_changes_nothing(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, "p", 0.1)
        ref.stop()
        await trio.sleep(0.05)
        ref.kill()
        ref.kill()
        await ref.stopped()
    assert len(cast.ended) == 1


@pytest.mark.proves("Shutdown: reverse start order")
async def test_children_stop_before_their_parent_the_last_one_first(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with open_system("s") as system:
        parent = await system.spawn(cast.Player, "parent")
        for label in "abc":
            await parent.ask(cast.Ask(cast.spawns(cast.Player, label)))
        parent.stop()
        assert (await parent.stopped()).kind == "stopped"
    assert cast.labels() == ["c", "b", "a", "parent"]
    assert [why.kind for _, why in cast.ended] == ["shutdown"] * 3 + ["stopped"]


@pytest.mark.proves("Shutdown: after its budget cancel the turn")
async def test_a_turn_gets_its_budget_then_is_cut(cast: Any, autojump_clock: MockClock) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, shutdown=2.0)
        ref.tell(cast.Go(cast.forever))
        await wait_all_tasks_blocked()
        start = trio.current_time()
        ref.stop()
        await ref.stopped()
        assert trio.current_time() - start == 2


@pytest.mark.proves("Shutdown: after its budget cancel the turn")
async def test_drain_and_running_turn_share_one_budget(
    cast: Any, autojump_clock: MockClock
) -> None:
    async def nap(self: Any, ctx: Any) -> None:
        await trio.sleep(1.5)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Extra, shutdown=2.0)
        for _ in range(5):
            ref.tell(cast.Go(nap))
        await wait_all_tasks_blocked()
        start = trio.current_time()
        ref.drain()
        await ref.stopped()
        assert trio.current_time() - start == pytest.approx(2.0)


@pytest.mark.proves("Stop kinds: the stopping hook always runs")
async def test_a_hook_over_its_budget_is_cut_and_reported(
    cast: Any, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(Actor):
        async def stopping(self, ctx: Any, why: Any) -> None:
            await trio.sleep_forever()

    async with open_system("s", shutdown=2) as system:
        await system.spawn(Slow)
        start = trio.current_time()
    assert trio.current_time() - start == pytest.approx(2)
    assert "took more than its 2 s" in caplog.text


async def test_a_hook_that_fails_is_logged_and_the_others_still_run(
    cast: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Bad(Actor):
        async def stopping(self, ctx: Any, why: Any) -> None:
            raise ValueError("hook")

    async with open_system("s") as system:
        await system.spawn(cast.Player, "first")
        await system.spawn(Bad)
    assert cast.labels() == ["first"]
    assert [r.levelno for r in caplog.records] == [logging.ERROR]


async def test_a_shielded_handler_cannot_be_cut_is_reported_and_awaited(
    cast: Any, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn(self: Any, ctx: Any) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(30)

    async with open_system("s", shutdown=1) as system:
        ref = await system.spawn(cast.Extra)
        ref.tell(cast.Go(stubborn))
        await wait_all_tasks_blocked()
        start = trio.current_time()
    assert trio.current_time() - start == 30
    assert "was cut but still runs" in caplog.text
    assert "in stubborn" in caplog.text  # with the frames of its task


@pytest.mark.proves("Stop kinds: spawning during the parent's shutdown")
async def test_a_start_that_the_shutdown_of_its_parent_meets_is_refused_and_leaves_nothing(
    cast: Any, autojump_clock: MockClock
) -> None:
    refused: list[str] = []

    class Slow(Actor):
        async def started(self, ctx: Any) -> None:
            await ctx.spawn(cast.Player, "child")
            await trio.sleep_forever()

    async def spawn_beside(self: Any, ctx: Any) -> None:
        with pytest.raises(ActorStopped) as raised:
            await system.spawn(Slow, name="slow")
        refused.append(str(raised.value))

    async with open_system("s") as system:
        (await system.spawn(cast.Player, "p")).tell(cast.Go(spawn_beside))
        await wait_all_tasks_blocked()
        start = trio.current_time()
    assert refused == ["/s/slow was stopped while it started"]
    assert cast.labels() == ["child", "p"]
    assert trio.current_time() == start


@pytest.mark.proves("Stop kinds: spawning during the parent's shutdown")
async def test_a_stopping_parent_starts_nothing_new(cast: Any, autojump_clock: MockClock) -> None:
    refused: list[str] = []

    async def late_spawn(self: Any, ctx: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True), pytest.raises(ShuttingDown) as raised:
                await ctx.spawn(cast.Player)
            refused.append(str(raised.value))

    async with open_system("s", shutdown=1) as system:
        ref = await system.spawn(cast.Player, name="p")
        ref.tell(cast.Go(late_spawn))
        await wait_all_tasks_blocked()
        ref.stop()
        await ref.stopped()
    assert refused == ["/s/p is stopping; nothing new starts under it"]


@pytest.mark.parametrize("fails_after", [0, 1])
@pytest.mark.parametrize(
    "strategy", [one_for_one(), rest_for_one(), one_for_one(backoff=Backoff(first=20))]
)
async def test_a_turn_in_hand_is_told_at_once_of_a_failed_child_that_the_stop_keeps_dead(
    strategy: Strategy, fails_after: float, autojump_clock: MockClock
) -> None:
    class Child(Actor):
        @handles(str)
        async def fail(self, message: str) -> None:
            await trio.sleep(fails_after)
            raise ValueError(message)

        @handles(Ping)
        async def ping(self, message: Ping) -> None:
            await trio.sleep(0.7)

    class Parent(Actor):
        @handles(str)
        async def run(self, message: str, ctx: Context) -> None:
            child = await ctx.spawn(Child, restart="transient")
            child.tell("bug")
            with contextlib.suppress(ActorStopped):
                await child.ask(Ping())

    async with open_system("s") as system:
        parent = await system.spawn(Parent, strategy=strategy)
        parent.tell("go")
        await trio.sleep(0.5)
        parent.stop()
        assert (await parent.stopped()).kind == "stopped"
    assert trio.current_time() <= 1


async def test_an_error_whose_repr_raises_fails_its_actor_and_nothing_else() -> None:
    class Bad(Exception):
        def __repr__(self) -> str:
            raise LookupError("of repr")

        __str__ = __repr__

    class Broken(Actor):
        @handles(Ping)
        async def ping(self, message: Ping) -> None:
            raise Bad

    async with open_system("s") as system:
        ref = await system.spawn(Broken, restart="transient")
        for _ in range(3):
            with pytest.raises(ActorCrashed, match=r"Bad\(\.\.\.\) whose repr raised LookupError"):
                await ref.ask(Ping())

"""Strategies over actors: whom a failure takes along, in which order, and what they keep."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Actor, ActorSystem, Context, Ref, handles, open_system
from trouper.errors import ActorCrashed, ActorStopped, RestartLimitReached, TrouperError
from trouper.supervision import (
    Backoff,
    Exit,
    Intensity,
    Restart,
    Strategy,
    one_for_all,
    one_for_one,
    rest_for_one,
)

ABCD: dict[str, Restart] = dict.fromkeys("abcd", "permanent")
MANY = Intensity(1000)


class Troupe:
    """Actors of a system that write down when a life of theirs begins and ends."""

    def __init__(self, cast: Any, system: ActorSystem) -> None:
        self.cast = cast
        self.system = system
        self.log: list[str] = []
        self.whys: dict[str, list[Exit]] = {}
        self.starts: dict[str, Any] = {}  # what a start does, by name, from the second one on
        self.ref: dict[str, Ref[Any]] = {}

    async def spawn(self, name: str, **options: Any) -> None:
        troupe = self
        lives: list[int] = []

        class Member(Actor):
            async def started(self, ctx: Context[Any]) -> None:
                lives.append(1)
                troupe.log.append(f"+{name}")
                if len(lives) > 1 and name in troupe.starts:
                    await troupe.starts[name]()

            @handles(self.cast.Go)
            async def go(self, message: Any, ctx: Context[Any]) -> None:
                await message.fn(self, ctx)

            @handles(self.cast.Ask)
            async def answer(self, message: Any, ctx: Context[Any]) -> Any:
                return name if message.fn is None else await message.fn(self, ctx)

            async def stopping(self, ctx: Context[Any], why: Exit) -> None:
                troupe.log.append(f"-{name}")
                troupe.whys.setdefault(name, []).append(why)

        self.ref[name] = await self.system.spawn(Member, name=name, **options)

    async def settled(self, *names: str) -> list[str]:
        """Wait until these answer; return what was written down since the last call."""
        for name in names:
            assert await self.ref[name].ask(self.cast.Ask()) == name
        log, self.log[:] = self.log[:], []
        return log

    def fail(self, name: str) -> None:
        self.ref[name].tell(self.cast.Go(self.cast.boom))

    def lives(self) -> list[int]:
        return [ref.incarnation for ref in self.ref.values()]


@asynccontextmanager
async def troupe_of(
    cast: Any, strategy: Strategy, policies: dict[str, Restart], **options: Any
) -> AsyncGenerator[Troupe]:
    async with open_system("s", strategy=strategy, **options) as system:
        troupe = Troupe(cast, system)
        for name, restart in policies.items():
            await troupe.spawn(name, restart=restart)
        await troupe.settled()
        yield troupe


@pytest.mark.proves("Supervision: rest_for_one")
async def test_rest_for_one_stops_d_then_c_starts_c_then_d_and_leaves_a_and_b_untouched(
    cast: Any,
) -> None:
    async with troupe_of(cast, rest_for_one(), ABCD) as troupe:
        troupe.fail("c")
        assert await troupe.settled(*"abcd") == ["-d", "-c", "+c", "+d"]
        assert troupe.lives() == [1, 1, 2, 2]
        error = troupe.whys["c"][0].cause
        assert repr(error) == "ValueError('boom')"
        assert troupe.whys == {"c": [Exit("crashed", error)], "d": [Exit("shutdown", error)]}


@pytest.mark.proves("Supervision: one_for_all")
async def test_one_for_all_stops_all_in_reverse_order_and_starts_all_in_order(cast: Any) -> None:
    async with troupe_of(cast, one_for_all(), ABCD) as troupe:
        troupe.fail("b")
        assert await troupe.settled(*"abcd") == ["-d", "-c", "-b", "-a", "+a", "+b", "+c", "+d"]
        assert troupe.lives() == [2, 2, 2, 2]


@pytest.mark.proves("Supervision: one_for_one")
async def test_one_for_one_leaves_the_siblings_untouched(cast: Any) -> None:
    async with troupe_of(cast, one_for_one(), ABCD) as troupe:
        troupe.fail("b")
        assert await troupe.settled(*"abcd") == ["-b", "+b"]


@pytest.mark.proves("Supervision: one_for_all", "Supervision: rest_for_one")
async def test_an_actors_strategy_is_for_its_own_children(cast: Any) -> None:
    """Twice the same two children, under two parents of different minds."""
    seen: dict[str, list[int]] = {}
    for strategy in (one_for_all(), rest_for_one()):
        async with open_system("s") as system:
            parent = await system.spawn(cast.Player, strategy=strategy)
            first, second = [
                await parent.ask(cast.Ask(cast.spawns(cast.Player, n, restart="transient")))
                for n in "ab"
            ]
            second.tell(cast.Go(cast.boom))
            assert await second.ask(cast.Ask()) == "b"
            assert await first.ask(cast.Ask()) == "a"
            seen[strategy.kind] = [first.incarnation, second.incarnation]
            assert parent.incarnation == 1
    assert seen == {"one_for_all": [2, 2], "rest_for_one": [1, 2]}


@pytest.mark.proves("Supervision: siblings taken along")
@pytest.mark.proves("Restart: keeps the ref, the name, the queue")
async def test_siblings_restarted_along_keep_their_mail_in_order_and_finish_their_turn(
    cast: Any,
) -> None:
    seen: list[Any] = []
    gate = trio.Event()

    def note(what: Any, wait: trio.Event | None = None) -> Any:
        async def run(self: Any, ctx: Any) -> None:
            if wait is not None:
                await wait.wait()
            seen.append((what, ctx.self_ref.incarnation))

        return cast.Go(run)

    async with troupe_of(cast, one_for_all(), {"a": "transient", "b": "transient"}) as troupe:
        a = troupe.ref["a"]
        a.tell(note("in hand", gate))
        for n in range(40):
            a.tell(note(n))
        await wait_all_tasks_blocked()
        troupe.fail("b")
        await wait_all_tasks_blocked()
        a.tell(note("late"))
        gate.set()
        await troupe.settled("a", "b")
        assert (a.incarnation, a.path) == (2, "/s/a")
        assert [m.reason for m in troupe.system.dead_letters] == ["failed mid-turn"]  # b's own
    assert seen == [("in hand", 1), *((n, 2) for n in range(40)), ("late", 2)]


@pytest.mark.proves("Supervision: siblings taken along")
async def test_what_comes_to_a_suspended_sibling_in_mid_turn_waits_for_its_next_life(
    cast: Any,
) -> None:
    gate, seen = trio.Event(), list[int]()

    async def wait(self: Any, ctx: Any) -> None:
        await gate.wait()

    async def note(self: Any, ctx: Any) -> None:
        seen.append(ctx.self_ref.incarnation)

    async with troupe_of(cast, one_for_all(), {"a": "transient", "b": "transient"}) as troupe:
        a = troupe.ref["a"]
        a.tell(cast.Go(wait))
        await wait_all_tasks_blocked()
        troupe.fail("b")
        await wait_all_tasks_blocked()
        a.tell(cast.Go(note))
        gate.set()
        await troupe.settled("a", "b")
    assert seen == [2]


async def test_a_sibling_that_is_listed_when_it_is_suspended_runs_one_turn_at_a_time(
    cast: Any,
) -> None:
    """It must not come to stand on the ready queue twice: two workers would run it."""
    running: list[int] = []
    most: list[int] = []

    async def turn(self: Any, ctx: Any) -> None:
        running.append(1)
        most.append(len(running))
        await trio.lowlevel.checkpoint()
        running.pop()

    async with troupe_of(
        cast, one_for_all(intensity=MANY), {"a": "transient", "b": "transient"}
    ) as troupe:
        for _ in range(50):
            troupe.fail("b")
            for _ in range(5):
                troupe.ref["a"].tell(cast.Go(turn))
            await trio.lowlevel.checkpoint()
        await troupe.settled("a", "b")
        assert len(most) == 250
        assert max(most) == 1


@pytest.mark.proves("Supervision: siblings taken along")
async def test_a_sibling_that_must_not_be_restarted_stops_for_good(cast: Any) -> None:
    policies: dict[str, Restart] = {"a": "transient", "b": "never", "c": "permanent"}
    async with troupe_of(cast, one_for_all(), policies) as troupe:
        troupe.fail("a")
        assert await troupe.settled("a", "c") == ["-c", "-b", "-a", "+a", "+c"]
        assert (await troupe.ref["b"].stopped()).kind == "shutdown"


@pytest.mark.proves("Supervision: siblings taken along")
async def test_a_sibling_over_its_budget_is_cut_and_restarts_with_the_others(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with troupe_of(cast, one_for_all(), ABCD, shutdown=2) as troupe:
        troupe.ref["d"].tell(cast.Go(cast.forever))
        await wait_all_tasks_blocked()
        start = trio.current_time()
        troupe.fail("a")
        await troupe.settled(*"abcd")
        assert trio.current_time() - start == 2
        assert troupe.lives() == [2, 2, 2, 2]


@pytest.mark.proves("Supervision: failed restart attempts count")
async def test_a_sibling_whose_restart_fails_is_the_next_failure_and_counts(cast: Any) -> None:
    tries: list[int] = []

    async def fails_twice() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise KeyError("start")

    async with troupe_of(cast, rest_for_one(intensity=Intensity(3)), ABCD) as troupe:
        troupe.starts["c"] = fails_twice
        troupe.fail("b")
        # d was not up yet when c failed: its old life is over, and has had its hook
        first, again = ["-d", "-c", "-b", "+b", "+c"], ["-c", "+c"]
        assert await troupe.settled(*"abcd") == [*first, *again, *again, "+d"]
        assert troupe.lives() == [1, 2, 4, 2]


@pytest.mark.proves("Supervision: one count for all")
@pytest.mark.proves("Supervision: over the budget")
async def test_children_that_restart_together_share_one_window(cast: Any) -> None:
    with pytest.raises(RestartLimitReached, match=r"/s/c needed more than 2 restarts") as raised:
        async with troupe_of(cast, one_for_all(intensity=Intensity(2)), ABCD) as troupe:
            for name in "ab":
                troupe.fail(name)
                await troupe.settled(*"abcd")
            troupe.fail("c")
            await trio.sleep_forever()
    assert repr(raised.value.__cause__) == "ValueError('boom')"


@pytest.mark.proves("Supervision: one count for all")
async def test_failures_at_one_time_are_one_restart_when_one_takes_the_other_along(
    cast: Any,
) -> None:
    async with troupe_of(cast, one_for_all(intensity=Intensity(1)), ABCD) as troupe:
        for name in "abcd":
            troupe.fail(name)
        await troupe.settled(*"abcd")
        assert troupe.lives() == [2, 2, 2, 2]


@pytest.mark.proves("Supervision: exponential back-off")
async def test_back_off_lies_between_the_stops_and_the_starts(
    cast: Any, autojump_clock: MockClock
) -> None:
    strategy = one_for_all(intensity=MANY, backoff=Backoff(1, 2, jitter=0))
    async with troupe_of(cast, strategy, ABCD) as troupe:
        begin, times = trio.current_time(), []
        for name in "abc":
            troupe.fail(name)
            await trio.sleep(0.5)
            assert troupe.log == ["-d", "-c", "-b", "-a"]
            await troupe.settled(*"abcd")
            times.append(trio.current_time() - begin)
        assert times == [1, 3, 7]


@pytest.mark.parametrize("who", ["a", "c", "d"])
@pytest.mark.parametrize("how", ["stop", "kill", "drain"])
@pytest.mark.proves("Restart: a stop that overtakes it wins")
async def test_a_stop_during_back_off_is_final_and_the_others_come_back(
    cast: Any, autojump_clock: MockClock, who: str, how: str
) -> None:
    async with troupe_of(cast, one_for_all(backoff=Backoff(20, jitter=0)), ABCD) as troupe:
        troupe.fail("c")
        await trio.sleep(1)
        start = trio.current_time()
        getattr(troupe.ref[who], how)()
        assert (await troupe.ref[who].stopped()).kind in ("stopped", "killed", "drained")
        assert trio.current_time() == start
        others = "abcd".replace(who, "")
        assert await troupe.settled(*others) == ["-d", "-c", "-b", "-a", *(f"+{n}" for n in others)]


@pytest.mark.parametrize("who", ["b", "c", "d"])
@pytest.mark.proves("Restart: a stop that overtakes it wins")
async def test_a_kill_while_a_sibling_is_blocked_in_started_is_final(
    cast: Any, autojump_clock: MockClock, who: str
) -> None:
    async with troupe_of(cast, rest_for_one(), ABCD) as troupe:
        troupe.starts["c"] = partial(trio.sleep, 10)
        troupe.fail("b")
        await trio.sleep(1)
        troupe.ref[who].kill()
        assert (await troupe.ref[who].stopped()).kind == "killed"
        assert trio.current_time() == 1
        await troupe.settled(*"abcd".replace(who, ""))


@pytest.mark.proves("Restart: a stop that overtakes it wins")
async def test_a_stop_of_the_parent_during_a_restart_leaves_nothing(
    cast: Any, autojump_clock: MockClock
) -> None:
    strategy = one_for_all(backoff=Backoff(20, jitter=0))
    async with open_system("s") as system:
        parent = await system.spawn(cast.Player, "p", strategy=strategy)
        refs = [
            await parent.ask(cast.Ask(cast.spawns(cast.Player, n, restart="permanent")))
            for n in "ab"
        ]
        refs[0].tell(cast.Go(cast.boom))
        await trio.sleep(1)
        parent.stop()
        assert (await parent.stopped()).kind == "stopped"
        assert trio.current_time() == 1
        assert [ref.statistics().state for ref in refs] == ["stopped", "stopped"]
        assert [node.name for node in system.tree().walk() if node.kind == "actor"] == []


@pytest.mark.parametrize("how", ["return", "error", "cancel", "interrupt"])
@pytest.mark.parametrize("when", ["stopping", "waiting", "starting"])
@pytest.mark.proves("Shutdown: reverse start order", "Shutdown: nothing outlives the block")
def test_the_block_left_in_mid_restart_ends_in_order_each_hook_once_for_each_life(
    how: str, when: str
) -> None:
    """In a trio of its own, for the signal."""
    from tests.actors.conftest import Ask, Go, boom

    log: list[str] = []

    async def leave(troupe: Troupe, outer: trio.CancelScope) -> None:
        troupe.log = log
        troupe.starts["b"] = partial(trio.sleep, 10)
        if when == "stopping":
            nap = partial(trio.sleep, 1)
            troupe.ref["c"].tell(Go(lambda self, ctx: nap()))
        troupe.fail("b")
        await trio.sleep({"stopping": 0.5, "waiting": 10, "starting": 25}[when])
        if how == "error":
            raise KeyError
        if how == "interrupt":
            signal.raise_signal(signal.SIGINT)
        if how == "cancel":
            outer.cancel()
            await trio.sleep_forever()

    async def main() -> float:
        names = SimpleNamespace(Ask=Ask, Go=Go, boom=boom)
        strategy = one_for_all(backoff=Backoff(20, jitter=0))
        with trio.CancelScope() as outer:
            try:
                async with troupe_of(names, strategy, ABCD) as troupe:
                    begin = trio.current_time()
                    await leave(troupe, outer)
            except KeyError:
                assert how == "error"
            except KeyboardInterrupt:
                assert how == "interrupt"
        assert {ref.statistics().state for ref in troupe.ref.values()} == {"stopped"}
        return trio.current_time() - begin

    took = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert took == {"stopping": 1, "waiting": 10, "starting": 25}[when]
    ends = ["-d", "-c", "-b", "-a"]
    again = ["+a", "+b", "-b", "-a"] if when == "starting" else []
    assert log == [*ends, *again]


@pytest.mark.proves("Restart: asks from a child to a restarting ancestor")
async def test_an_ask_from_below_fails_at_once_also_one_that_waits_already(
    cast: Any, autojump_clock: MockClock
) -> None:
    """Without it the restart would wait for the child's turn, and that for the restart."""
    errors: list[str] = []

    async def ask_top(self: Any, ctx: Any) -> None:
        try:
            await parent.ask(cast.Ask())
        except ActorCrashed as exc:
            errors.append(str(exc))

    async def spawn_and_fail(self: Any, ctx: Any) -> None:
        child = await ctx.spawn(cast.Player, name="child")
        grandchild = await child.ask(cast.Ask(cast.spawns(cast.Player, name="g")))
        grandchild.tell(cast.Go(ask_top))
        child.tell(cast.Go(ask_top))
        await trio.sleep(1)
        raise ValueError

    async with open_system("s") as system:
        parent = await system.spawn(cast.Player, "p", name="p", restart="permanent")
        start = trio.current_time()
        parent.tell(cast.Go(spawn_and_fail))
        assert await parent.ask(cast.Ask()) == "p"
        assert trio.current_time() - start == 1
    assert sorted(errors) == [
        "/s/p is being restarted, which waits for /s/p/child",
        "/s/p is being restarted, which waits for /s/p/child/g",
    ]


@pytest.mark.proves("Restart: asks from a child to a restarting ancestor")
async def test_an_ask_between_siblings_that_restart_together_fails_at_once(
    cast: Any, autojump_clock: MockClock
) -> None:
    """c's restart waits for d's turn to end, and that turn waits for c, or for who waits for c."""
    errors: list[str] = []

    def asks(name: str, via: str | None = None) -> Any:
        async def forward(self: Any, ctx: Any) -> Any:
            return await troupe.ref[name].ask(cast.Ask())

        async def run(self: Any, ctx: Any) -> None:
            try:
                target = troupe.ref[via or name]
                await target.ask(cast.Ask(forward if via else None))
            except ActorCrashed as exc:
                errors.append(str(exc))

        return cast.Go(run)

    async def block_then_fail(self: Any, ctx: Any) -> None:
        await trio.sleep(1)
        raise ValueError

    async with troupe_of(cast, rest_for_one(), ABCD) as troupe:
        start = trio.current_time()
        troupe.ref["c"].tell(cast.Go(block_then_fail))
        troupe.ref["d"].tell(asks("c"))
        await troupe.settled("c", "d")
        troupe.ref["c"].tell(cast.Go(block_then_fail))
        troupe.ref["d"].tell(asks("c", via="a"))
        await troupe.settled("c", "d")
        assert trio.current_time() - start == 2
    assert errors[0] == "/s/c is being restarted, which waits for /s/d"
    assert len(errors) == 2


@pytest.mark.proves("Restart: asks from a child to a restarting ancestor")
async def test_a_sibling_that_is_stopped_for_good_fails_its_ask_at_once_too(
    cast: Any, autojump_clock: MockClock
) -> None:
    errors: list[str] = []

    async def block_then_fail(self: Any, ctx: Any) -> None:
        await trio.sleep(1)
        raise ValueError

    async def ask_twice(self: Any, ctx: Any) -> None:
        for _ in range(2):  # one that waits already, and one that comes later
            try:
                await troupe.ref["a"].ask(cast.Ask())
            except ActorCrashed as exc:
                errors.append(str(exc))

    policies: dict[str, Restart] = {"a": "transient", "b": "never"}
    async with troupe_of(cast, one_for_all(), policies) as troupe:
        start = trio.current_time()
        troupe.ref["a"].tell(cast.Go(block_then_fail))
        await wait_all_tasks_blocked()
        troupe.ref["b"].tell(cast.Go(ask_twice))
        await troupe.settled("a")
        assert trio.current_time() - start == 1
    assert errors == ["/s/a is being restarted, which waits for /s/b"] * 2


async def test_a_child_that_fails_during_the_start_of_a_restart_fails_that_start(
    cast: Any,
) -> None:
    async with troupe_of(cast, one_for_one(), {"a": "permanent"}) as troupe:
        begun: list[int] = []

        async def child_fails() -> None:
            begun.append(1)
            if len(begun) == 1:
                [ref] = troupe.system._runtime.root.children
                child = await ref.context.spawn(cast.Player, "child")
                child.tell(cast.Go(cast.boom))
                await trio.sleep_forever()

        troupe.starts["a"] = child_fails
        troupe.fail("a")
        await troupe.settled("a")
        assert troupe.lives() == [3]


@pytest.mark.proves("Restart: cancels timers and pipes")
@pytest.mark.proves("Restart: puts stashed messages back in front")
async def test_a_sibling_restarted_along_loses_its_timers_and_gets_its_stash_back_in_front(
    cast: Any, autojump_clock: MockClock
) -> None:
    seen: list[str] = []

    def note(word: str) -> Any:
        async def run(self: Any, ctx: Context[Any]) -> None:
            seen.append(word)

        return cast.Go(run)

    async def put_aside_once(self: Any, ctx: Context[Any]) -> None:
        if ctx.self_ref.incarnation == 1:
            ctx.stash()
        seen.append("stashed")

    async def set_timer(self: Any, ctx: Context[Any]) -> None:
        ctx.after(1, note("timer"))
        ctx.pipe(trio.sleep, 1, to=lambda _: note("pipe"))

    async def nap(self: Any, ctx: Context[Any]) -> None:
        await trio.sleep(0.5)

    async with troupe_of(cast, one_for_all(), {"a": "transient", "b": "transient"}) as troupe:
        a = troupe.ref["a"]
        for message in (cast.Go(put_aside_once), cast.Go(set_timer), cast.Go(nap)):
            a.tell(message)
        await wait_all_tasks_blocked()
        a.tell(note("queued"))
        troupe.fail("b")
        await troupe.settled("a", "b")
        await trio.sleep(5)
    assert seen == ["stashed", "queued"]


@pytest.mark.proves("Supervision: KeyboardInterrupt and SystemExit")
async def test_no_sibling_brings_an_interrupted_actor_back(cast: Any) -> None:
    async def interrupted(self: Any, ctx: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with troupe_of(cast, one_for_all(), ABCD) as troupe:
            troupe.ref["b"].tell(cast.Go(interrupted))
            troupe.fail("a")
            await trio.sleep_forever()
    assert troupe.lives() == [1, 1, 1, 1]


@pytest.mark.parametrize("make", [one_for_all, rest_for_one])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.proves("Shutdown: nothing outlives the block")
async def test_random_crashes_stops_and_asks_leave_nothing_behind(
    cast: Any, autojump_clock: MockClock, seed: int, make: Any
) -> None:
    rng = random.Random(seed)
    strategy = make(intensity=Intensity(10**9), backoff=Backoff(0.01, cap=0.3))

    async def work(self: Any, ctx: Any) -> None:
        with trio.move_on_after(rng.random()):
            await rng.choice(refs).ask(cast.Ask())
        await trio.sleep(rng.random() / 10)
        if rng.random() < 0.2:
            raise ValueError

    async def client(system: ActorSystem, parent: Ref[Any]) -> None:
        for _ in range(20):
            with contextlib.suppress(TrouperError), trio.move_on_after(rng.random() * 2):
                await rng.choice(refs).ask(cast.Ask(work))
            if rng.random() < 0.05:
                getattr(rng.choice(refs), rng.choice(["kill", "stop", "drain"]))()
            if rng.random() < 0.05:
                refs.append(await parent.ask(spawn()))

    def spawn() -> Any:
        return cast.Ask(cast.spawns(cast.Player, restart=rng.choice(["transient", "permanent"])))

    refs: list[Any] = []
    async with open_system("s", shutdown=1, strategy=one_for_one(intensity=MANY)) as system:
        top = await system.spawn(cast.Player, strategy=strategy, restart="permanent")
        with contextlib.suppress(TrouperError):
            for _ in range(10):
                refs.append(await top.ask(spawn()))
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(client, system, top)
        await trio.sleep(10)
        assert system.statistics().asks_pending == 0
        assert len(system._runtime.waits) == 0
        states = {ref.statistics().state for ref in (top, *refs)}
        assert states <= {"running", "stopped"}
        assert sum(ref.incarnation for ref in refs) > 2 * len(refs)
    assert {ref.statistics().state for ref in refs} == {"stopped"}


async def test_an_actor_in_its_first_start_is_left_to_its_spawner(
    cast: Any, autojump_clock: MockClock
) -> None:
    class Slow(Actor):
        async def started(self, ctx: Context[Any]) -> None:
            await trio.sleep(5)

    async with troupe_of(cast, one_for_all(), ABCD) as troupe, trio.open_nursery() as nursery:
        nursery.start_soon(troupe.system.spawn, Slow)
        await wait_all_tasks_blocked()
        troupe.fail("a")
        assert await troupe.settled(*"abcd")
        assert trio.current_time() == 0


async def test_a_stopped_actor_is_not_resurrected_by_a_sibling(cast: Any) -> None:
    async with troupe_of(cast, one_for_all(), ABCD) as troupe:
        troupe.ref["b"].stop()
        troupe.fail("c")
        await troupe.settled("a", "c", "d")
        with pytest.raises(ActorStopped):
            await troupe.ref["b"].ask(cast.Ask())
        assert troupe.lives() == [2, 1, 2, 2]

"""Asks, in every order: deadlines against answers, circles, askers that go away, links and ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from tests.schedules.players import (
    ANYTIME,
    Boom,
    Fail,
    Get,
    Log,
    Player,
    Run,
    Scene,
    exhaust,
    outcome_of,
    play,
    sleep,
)

from trouper import Context, Ref
from trouper.errors import ActorCrashed, ActorStopped, AskCycle
from trouper.supervision import Backoff, Strategy, one_for_all, one_for_one, rest_for_one
from trouper.testing import Options, Simulation


def asking(ref: Ref[Any], message: Any, ends: list[Any]) -> Run:
    async def ask(ctx: Context[Any]) -> None:
        ends.append(await outcome_of(ref, message))

    return Run(ask)


SEEN: set[str] = set()


async def circle(sim: Simulation, size: int) -> Scene:
    """Actors that ask one another round and round: who would close the circle is refused."""
    log, ends = Log(), list[Any]()
    refs = [await sim.system.spawn(Player, f"p{n}", log, name=f"p{n}") for n in range(size)]
    for n in range(size):
        refs[n].tell(asking(refs[(n + 1) % size], Get(n), ends))
    yield
    assert len(ends) == size
    assert ends.count(AskCycle) <= 1
    SEEN.update("cycle" if end is AskCycle else "answer" for end in ends)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_circle_of_asks_is_closed_by_nobody(size: int) -> None:
    SEEN.clear()
    exhaust(partial(circle, size=size))
    assert "cycle" in SEEN
    assert ("answer" in SEEN) == (size > 1)


async def circle_through_a_hook(sim: Simulation) -> Scene:
    """An actor whose start asks one that asks another, while a third one asks itself."""
    log, ends = Log(), list[Any]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    loner = await sim.system.spawn(Player, "loner", log, name="loner")
    loner.tell(Run(sleep(1)))
    loner.tell(asking(loner, Get(), ends))

    async def spawn(ctx: Context[Any]) -> None:
        await ctx.spawn(Player, "late", log, sleep(2), name="late")
        ends.append("spawned")

    other.tell(Run(spawn))
    yield
    assert sorted(map(str, ends)) == sorted([str(AskCycle), "spawned"])


def test_one_that_asks_itself_is_refused_also_while_another_one_starts() -> None:
    exhaust(circle_through_a_hook, rules=ANYTIME)


async def deadline(sim: Simulation) -> Scene:
    """An ask with a deadline, to one that answers after as long, with a rival before it."""
    log, ends = Log(), list[str]()
    key = await sim.system.spawn(Player, "key", log, name="key")
    ref = await sim.system.spawn(Player, "ref", log, name="ref")
    ref.tell(Run(lambda ctx: key.ask(Get())))

    async def hasty(ctx: Context[Any]) -> None:
        with trio.move_on_after(1):
            ends.append(str(await ref.ask(Get(1))))
        ends.append("over")

    asker = await sim.system.spawn(Player, "asker", log, name="asker")
    asker.tell(Run(hasty))
    asker.tell(asking(ref, Get(2), []))
    yield
    assert ends in (["1", "over"], ["over"])
    assert await ref.ask(Get(3)) == 3


def test_a_deadline_and_an_answer_exclude_one_another() -> None:
    exhaust(deadline, rules=ANYTIME)


async def crash_before_asks(sim: Simulation, how: str) -> Scene:
    """Asks stand behind a crash; one is given up, and one more comes in the back-off."""
    log, ends = Log(), list[Any]()
    ref = await sim.system.spawn(Player, "ref", log, name="ref", restart="permanent")
    ref.tell(Fail())
    for n in range(2):
        asker = await sim.system.spawn(Player, f"asker{n}", log, name=f"asker{n}")
        asker.tell(asking(ref, Get(n), ends))

    async def end() -> None:
        if how != "none":
            getattr(ref, how)()
            await ref.stopped()

    sim.start(end, name="end")
    yield
    assert len(ends) == 2
    allowed = {0, 1} if how == "none" else {0, 1, ActorStopped}
    assert set(ends) <= allowed
    assert log.live["ref"] == (how == "none")


@pytest.mark.parametrize("how", ["none", "stop", "drain", "kill"])
@pytest.mark.parametrize("backoff", [None, Backoff(first=1.0, jitter=0)])
def test_asks_behind_a_crash_are_answered_in_the_next_life_or_told_of_the_end(
    how: str, backoff: Backoff | None
) -> None:
    strategy = one_for_one(backoff=backoff)
    exhaust(partial(crash_before_asks, how=how), options=Options(strategy=strategy), rules=ANYTIME)


async def siblings(sim: Simulation) -> Scene:
    """Siblings that ask one another in a ring while one of them fails and all begin anew."""
    log, ends = Log(), list[Any]()
    refs = [
        await sim.system.spawn(Player, name, log, name=name, restart="permanent") for name in "abc"
    ]
    for n, ref in enumerate(refs):
        ref.tell(asking(refs[(n + 1) % 3], Get(n), ends))
    refs[1].tell(Fail())
    yield
    # who waits in a turn that its own restart cuts off hears nothing: the turn is over
    assert set(ends) <= {0, 1, 2, AskCycle, ActorCrashed}
    assert log.live == {"a": 1, "b": 1, "c": 1}
    assert [await ref.ask(Get(9)) for ref in refs] == [9, 9, 9]


@pytest.mark.parametrize(
    "strategy", [one_for_one(), one_for_all(), rest_for_one()], ids=lambda s: s.kind
)
def test_siblings_that_ask_one_another_outlive_a_restart(strategy: Strategy) -> None:
    exhaust(siblings, options=Options(strategy=strategy))


async def child_and_ancestor(sim: Simulation) -> Scene:
    """A child asks its parent while that fails: the restart waits for the child, so it is told."""
    log, ends = Log(), list[Any]()
    refs = list[Ref[Any]]()

    async def hello(ctx: Context[Any]) -> None:
        refs.append(await ctx.spawn(Player, "child", log, name="child"))

    parent = await sim.system.spawn(
        Player, "parent", log, hello, name="parent", restart="permanent"
    )
    refs[0].tell(asking(parent, Get(1), ends))
    parent.tell(Fail())

    async def ask() -> None:
        ends.append(await outcome_of(parent, Get(2)))

    sim.start(ask, name="outsider")
    yield
    assert 2 in ends
    assert set(ends) <= {1, 2, ActorCrashed}
    assert log.live == {"parent": 1, "child": 1}


def test_a_child_that_asks_its_failing_parent_is_told_at_once() -> None:
    exhaust(child_and_ancestor)


async def linked(sim: Simulation) -> Scene:
    """Two linked actors, one of which asks the other; that one is killed, and a third watches."""
    log, ends = Log(), list[Any]()
    a = await sim.system.spawn(Player, "a", log, name="a")
    b = await sim.system.spawn(Player, "b", log, name="b", restart="permanent")
    watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")

    async def link(ctx: Context[Any]) -> None:
        ctx.link(a)

    async def watch(ctx: Context[Any]) -> None:
        ctx.watch(a)
        ctx.watch(b)

    b.tell(Run(link))
    b.tell(asking(a, Get(1), ends))
    watcher.tell(Run(watch))

    async def kill() -> None:
        a.kill()
        await a.stopped()
        ends.append(await outcome_of(b, Get(2)))

    sim.start(kill, name="killer")
    yield
    assert log.said == ["a killed"]  # a restart is no end
    assert ends[-1] == 2 or 2 in ends
    assert set(ends) <= {1, 2, ActorStopped}
    assert log.live["b"] == 1
    assert log.lives["b"] <= 2 + 1


def test_a_broken_link_fails_the_other_once_whatever_it_waits_for() -> None:
    exhaust(linked)


async def redelivered(sim: Simulation) -> Scene:
    """A request that fails once is delivered again, before what stands behind it."""
    log, ends, tries = Log(), list[Any](), list[str]()

    async def once(ctx: Context[Any]) -> None:
        tries.append("x")
        if len(tries) == 1:
            raise Boom

    ref = await sim.system.spawn(
        Player, "ref", log, name="ref", restart="permanent", redeliver=1, mailbox=2, overflow="wait"
    )
    ref.tell(Run(once))

    async def ask(n: int) -> None:
        with trio.move_on_after(1):
            ends.append(await outcome_of(ref, Get(n)))

    for n in range(2):
        sim.start(ask, n, name=f"asker{n}")
    yield
    assert len(tries) == 2
    assert set(ends) <= {0, 1}
    assert log.lives["ref"] == 2
    assert not list(sim.system.dead_letters)


def test_a_redelivered_message_has_its_second_turn_in_every_order() -> None:
    play(redelivered, rules=ANYTIME)
    exhaust(redelivered)

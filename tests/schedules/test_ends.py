"""Stop, drain and kill in the middle of everything: each thing under way ends once, and is told."""

from __future__ import annotations

from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import pytest
from tests.schedules.players import (
    ANYTIME,
    Get,
    Item,
    Log,
    Player,
    Run,
    Scene,
    exhaust,
    outcome_of,
    play,
)

from trouper import Context, Ref
from trouper.errors import ActorStopped, AskCycle, ShuttingDown
from trouper.supervision import Exit, one_for_all, rest_for_one
from trouper.testing import Simulation

EXITS = {"stop": Exit("stopped"), "drain": Exit("drained"), "kill": Exit("killed")}
HOW = [*EXITS]


def watching(ref: Ref[Any]) -> Run:
    async def watch(ctx: Context[Any]) -> None:
        ctx.watch(ref)

    return Run(watch)


async def busy_end(sim: Simulation, how: str) -> Scene:
    """It ends while it asks, is asked, is watched twice over, and has a timer and a pipe."""
    log, ends = Log(), list[Any]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    ref = await sim.system.spawn(Player, "ref", log, name="ref")
    watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")

    async def work(ctx: Context[Any]) -> None:
        ctx.after(0, Item(1))
        ctx.pipe(other.ask, Get(2), to=Item)
        await other.ask(Get())

    ref.tell(Run(work))
    watcher.tell(watching(ref))

    async def ask() -> None:
        ends.append(await outcome_of(ref, Get(5)))

    async def end() -> None:
        getattr(ref, how)()
        ends.append(await ref.stopped())

    sim.start(ask, name="asker")
    sim.start(end, name="end")
    yield
    assert log.said == [f"ref {EXITS[how].kind}"]
    assert EXITS[how] in ends
    assert 5 in ends or ActorStopped in ends
    assert len(ends) == 2
    assert log.live["ref"] == 0
    assert set(log.items) <= {1, 2}
    assert len(log.items) == len(set(log.items))


@pytest.mark.parametrize("how", HOW)
def test_an_end_in_the_middle_of_work_is_told_once_to_each(how: str) -> None:
    play(partial(busy_end, how=how), budget=60, rules=ANYTIME)


async def two_ends(sim: Simulation, first: str, second: str) -> Scene:
    """Two end it, each in another way, while a turn waits and another message stands behind."""
    log, exits = Log(), list[Exit]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    ref = await sim.system.spawn(Player, "ref", log, name="ref")
    watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")
    lost = list[int]()
    sim.system.dead_letters.subscribe(lambda letter: lost.append(getattr(letter.message, "n", 0)))
    ref.tell(Run(lambda ctx: other.ask(Get())))
    ref.tell(Item(1))
    watcher.tell(watching(ref))

    async def end(how: str) -> None:
        getattr(ref, how)()
        exits.append(await ref.stopped())

    for name, how in (("one", first), ("two", second)):
        sim.start(end, how, name=name)
    yield
    assert exits[0] == exits[1]
    assert log.said == [f"ref {exits[0].kind}"]
    assert [*log.items, *filter(None, lost)] == [1]
    assert log.live["ref"] == 0


@pytest.mark.parametrize(("first", "second"), [*combinations_with_replacement(HOW, 2)])
def test_of_two_ends_there_is_one_exit(first: str, second: str) -> None:
    exhaust(partial(two_ends, first=first, second=second))


async def family(sim: Simulation, how: str) -> Scene:
    """A parent ends while a child asks its sibling, another one spawns, and one asks the parent."""
    log, ends = Log(), dict[str, Any]()
    children = dict[str, Ref[Any]]()

    async def hello(ctx: Context[Any]) -> None:
        for name in "xy":
            children[name] = await ctx.spawn(Player, name, log, name=name)

    parent = await sim.system.spawn(Player, "parent", log, hello, name="parent")

    async def spawn(ctx: Context[Any]) -> None:
        try:
            await ctx.spawn(Player, "z", log, lambda ctx: children["y"].ask(Get()), name="z")
        except (ShuttingDown, ActorStopped) as exc:
            ends["spawn"] = exc

    parent.tell(Run(spawn))

    async def ask(ctx: Context[Any]) -> None:
        ends["y"] = await outcome_of(children["y"], Get(2))
        ends["parent"] = await outcome_of(parent, Get(3))

    children["x"].tell(Run(ask))

    async def end() -> None:
        getattr(parent, how)()
        await parent.stopped()

    sim.start(end, name="end")
    yield
    assert not +log.live
    assert ends.get("y") in (None, 2, ActorStopped, AskCycle)
    assert ends.get("parent") in (None, 3, ActorStopped, AskCycle)


@pytest.mark.parametrize("how", HOW)
def test_a_parent_ends_after_its_children_whatever_they_wait_for(how: str) -> None:
    exhaust(partial(family, how=how))


async def hooks_that_ask(sim: Simulation, how: str) -> Scene:
    """Siblings whose last act is to ask one another, while their parent ends."""
    log, ends = Log(), list[Any]()
    refs = dict[str, Ref[Any]]()

    def bye(other: str) -> Any:
        async def deed(ctx: Context[Any]) -> None:
            ends.append(await outcome_of(refs[other], Get(2)))

        return deed

    async def hello(ctx: Context[Any]) -> None:
        for name, other in ("xy", "yz", "zx"):
            refs[name] = await ctx.spawn(Player, name, log, None, bye(other), name=name)

    parent = await sim.system.spawn(Player, "parent", log, hello, name="parent")

    async def end(ref: Ref[Any]) -> None:
        getattr(ref, how)()
        await ref.stopped()

    sim.start(end, parent, name="end")
    sim.start(end, refs["y"], name="end of y")
    yield
    assert len(ends) == 3
    assert not +log.live
    assert sim.now == 0  # no hook was cut, and nobody waited for a deadline


@pytest.mark.parametrize("how", HOW)
def test_hooks_that_ask_one_another_at_the_end_do_not_hang(how: str) -> None:
    exhaust(partial(hooks_that_ask, how=how))


async def significant(sim: Simulation) -> Scene:
    """The last significant child ends by itself while its sibling is busy with it."""
    log, ends = Log(), list[Any]()
    refs = dict[str, Ref[Any]]()

    async def hello(ctx: Context[Any]) -> None:
        refs["x"] = await ctx.spawn(Player, "x", log, name="x", significant=True)
        refs["y"] = await ctx.spawn(Player, "y", log, name="y")

    parent = await sim.system.spawn(
        Player, "parent", log, hello, name="parent", strategy=one_for_all(auto_shutdown="any")
    )
    watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")
    watcher.tell(watching(parent))

    async def ask(ctx: Context[Any]) -> None:
        ends.append(await outcome_of(refs["x"], Get(2)))

    refs["y"].tell(Run(ask))

    async def end(ctx: Context[Any]) -> None:
        refs["x"].stop()

    refs["x"].tell(Run(end))
    yield
    assert ends in ([], [2], [ActorStopped])
    assert log.said == ["parent shutdown"]
    assert +log.live == {"watcher": 1}


def test_the_end_of_a_significant_child_ends_its_parent_once() -> None:
    exhaust(significant)


async def start_that_is_ended(sim: Simulation, how: str) -> Scene:
    """An actor is ended from outside while its start asks, and a third one asks it."""
    log, ends = Log(), dict[str, Any]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    born = list[Ref[Any]]()

    async def hello(ctx: Context[Any]) -> None:
        born.append(ctx.self_ref)
        sim.start(end, ctx.self_ref, name="end")
        sim.start(ask, ctx.self_ref, name="asker")
        await other.ask(Get())

    async def end(ref: Ref[Any]) -> None:
        getattr(ref, how)()
        ends["exit"] = (await ref.stopped()).kind

    async def ask(ref: Ref[Any]) -> None:
        ends["ask"] = await outcome_of(ref, Get(4))

    async def spawn() -> None:
        try:
            await sim.system.spawn(Player, "late", log, hello, name="late")
        except ActorStopped:
            ends["spawn"] = ActorStopped
        else:
            ends["spawn"] = None

    sim.start(spawn, name="spawner")
    yield
    assert ends["exit"] == EXITS[how].kind
    assert ends["ask"] in (4, ActorStopped)
    assert not (ends["spawn"] is ActorStopped and ends["ask"] == 4)


@pytest.mark.parametrize("how", HOW)
def test_a_start_that_is_ended_tells_who_spawns_and_who_asks(how: str) -> None:
    exhaust(partial(start_that_is_ended, how=how))


async def escalation(sim: Simulation) -> Scene:
    """A child beyond help fails its parent, in whatever that does: waiting, idle, or ending."""
    log, ends = Log(), list[Any]()
    refs = dict[str, Ref[Any]]()

    async def hello(ctx: Context[Any]) -> None:
        refs["x"] = await ctx.spawn(Player, "x", log, name="x")
        refs["y"] = await ctx.spawn(Player, "y", log, name="y", restart="permanent")

    parent = await sim.system.spawn(
        Player, "parent", log, hello, name="parent", restart="permanent", strategy=rest_for_one()
    )
    watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")
    watcher.tell(watching(refs["x"]))

    async def ask_y(ctx: Context[Any]) -> None:
        ends.append(await outcome_of(refs["y"], Get(2)))

    parent.tell(Run(ask_y))

    async def fail(ctx: Context[Any]) -> None:
        raise LookupError("beyond help")

    refs["x"].tell(Run(fail))

    async def ask_parent() -> None:
        ends.append(await outcome_of(parent, Get(3)))

    sim.start(ask_parent, name="asker")
    yield
    assert log.said == ["x crashed"]
    assert log.live == {"parent": 1, "x": 1, "y": 1, "watcher": 1}
    assert log.lives["parent"] == 2
    assert ends[-1] == 3 or ends[0] == 3


def test_a_child_beyond_help_fails_its_parent_and_all_begin_anew() -> None:
    exhaust(escalation)

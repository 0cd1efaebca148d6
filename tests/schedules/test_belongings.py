"""What an actor holds beside its mail - stash, timers, pipes, subscriptions - in every order."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from tests.schedules.players import (
    ANYTIME,
    Boom,
    Fail,
    Get,
    Item,
    Log,
    Player,
    Run,
    Scene,
    exhaust,
    outcome_of,
    sleep,
)

from trouper import Actor, Context, Ref, Request, handles
from trouper.errors import ActorStopped, InboxClosed
from trouper.testing import Simulation, replay, schedule_test

HOW = ["stop", "drain", "kill"]


@dataclass(frozen=True, eq=False)
class Open:
    pass


@dataclass(frozen=True, eq=False)
class Knock(Request[int]):
    n: int


@dataclass
class Door(Actor[Open | Knock | Item | Fail]):
    """Puts aside what comes before it is opened, after a look at another actor."""

    other: Ref[Get]
    log: Log
    is_open: bool = False

    @handles(Open)
    def open(self, message: Open, ctx: Context[Any]) -> None:
        self.is_open = True
        ctx.unstash_all()

    @handles(Knock)
    async def knock(self, message: Knock, ctx: Context[Any]) -> int:
        await self.other.ask(Get())
        if not self.is_open:
            ctx.stash()
        return message.n

    @handles(Item)
    def item(self, message: Item, ctx: Context[Any]) -> None:
        if not self.is_open:
            ctx.stash()
        self.log.items.append(message.n)

    @handles(Fail)
    def fail(self, message: Fail) -> None:
        raise Boom


async def stash_and_end(sim: Simulation, how: str) -> Scene:
    """Mail that is put aside while the actor ends, and is opened perhaps."""
    log, ends, lost = Log(), list[Any](), list[int]()
    sim.system.dead_letters.subscribe(lambda letter: lost.append(getattr(letter.message, "n", 0)))
    other = await sim.system.spawn(Player, "other", log, name="other")
    door = await sim.system.spawn(Door, other, log, name="door")
    door.tell(Item(1))

    async def ask() -> None:
        ends.append(await outcome_of(door, Knock(5)))

    async def end() -> None:
        getattr(door, how)()
        await door.stopped()

    async def open_it() -> None:
        door.tell(Open())

    for fn in (ask, end, open_it):
        sim.start(fn, name=fn.__name__)
    yield
    assert ends in ([5], [ActorStopped])
    assert [*log.items, *(n for n in lost if n)] == [1]


@pytest.mark.parametrize("how", HOW)
def test_what_is_put_aside_comes_back_or_is_told_of_the_end(how: str) -> None:
    exhaust(partial(stash_and_end, how=how))


async def stash_and_restart(sim: Simulation) -> Scene:
    """Mail put aside before a crash comes back in front, in order, in the next life."""
    log, ends = Log(), list[Any]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    door = await sim.system.spawn(Door, other, log, name="door", restart="permanent")

    async def ask() -> None:
        ends.append(await outcome_of(door, Knock(5)))

    async def send() -> None:
        for n in (1, 2):
            await door.send(Item(n))
        await door.send(Fail())
        await door.send(Item(3))
        await door.send(Open())

    for fn in (ask, send):
        sim.start(fn, name=fn.__name__)
    yield
    assert ends == [5]
    assert log.items == [1, 2, 3]
    assert door.incarnation == 2


def test_what_is_put_aside_outlives_a_crash_in_order() -> None:
    exhaust(stash_and_restart)


async def timers_and_cancels(sim: Simulation) -> Scene:
    """A timer rings, is set anew, is cancelled, while its actor is busy or fails."""
    log, cancelled = Log(), list[bool]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    ref = await sim.system.spawn(Player, "ref", log, name="ref", restart="permanent")

    async def set_it(ctx: Context[Any]) -> None:
        ctx.after(1, Item(1), key="t")
        await other.ask(Get())

    async def cancel(ctx: Context[Any]) -> None:
        cancelled.append(ctx.cancel_timer("t"))

    await ref.send(Run(set_it))
    for deed in (sleep(1), cancel):
        await ref.send(Run(deed))
    yield
    assert log.items.count(1) == (not cancelled[0])
    assert sim.next_timer is None


def test_a_cancelled_timer_does_not_come_and_one_that_came_is_not_cancelled() -> None:
    exhaust(timers_and_cancels, rules=ANYTIME)


async def instance_ends(sim: Simulation, how: str) -> Scene:
    """Timer and pipe of an instance that fails or ends: nothing of it reaches the next one."""
    log = Log()
    other = await sim.system.spawn(Player, "other", log, name="other")
    ref = await sim.system.spawn(Player, "ref", log, name="ref", restart="permanent")

    async def work(ctx: Context[Any]) -> None:
        ctx.after(0, Item(1))
        ctx.pipe(other.ask, Get(2), to=Item)
        if how == "fail":
            await other.ask(Get())
            raise Boom

    ref.tell(Run(work))

    async def end() -> None:
        if how != "fail":
            getattr(ref, how)()
            await ref.stopped()

    sim.start(end, name="end")
    yield
    assert set(log.items) <= {1, 2}
    assert len(log.items) == len(set(log.items))
    assert how != "fail" or 1 not in log.items  # a result that came before the crash is mail
    assert log.live["ref"] == (how == "fail")
    assert sim.next_timer is None


@pytest.mark.parametrize("how", ["fail", *HOW])
def test_timers_and_pipes_end_with_their_instance(how: str) -> None:
    exhaust(partial(instance_ends, how=how))


def test_a_timer_of_an_instance_that_fails_does_not_come_however_late_it_is() -> None:
    exhaust(partial(instance_ends, how="fail"), rules=ANYTIME)


async def watch_and_unwatch(sim: Simulation) -> Scene:
    """One that watches, is busy, thinks better of it, and watches again; the other one ends."""
    log, known = Log(), list[int]()
    other = await sim.system.spawn(Player, "other", log, name="other")
    watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")

    async def watch(ctx: Context[Any]) -> None:
        ctx.watch(other)
        ctx.watch(other)

    async def unwatch(ctx: Context[Any]) -> None:
        known.append(len(log.said))
        ctx.unwatch(other)

    for deed in (watch, unwatch, watch):
        watcher.tell(Run(deed))

    async def end() -> None:
        other.stop()
        await other.stopped()

    sim.start(end, name="end")
    yield
    assert log.said == ["other stopped"] * (1 + known[0])


def test_a_watch_tells_once_and_an_ended_watch_tells_nothing() -> None:
    exhaust(watch_and_unwatch)


async def topics(sim: Simulation) -> Scene:
    """One publishes twice, one subscribes and one leaves, and one that is subscribed ends."""
    log, taken = Log(), list[int]()
    refs = [await sim.system.spawn(Player, name, log, name=name) for name in "ab"]
    a, b = refs
    sim.system.topics.subscribe("t", a)

    async def publish() -> None:
        for n in (1, 2):
            taken.append(sim.system.topics.publish("t", Item(n)))
            await a.ask(Get())

    async def join(ctx: Context[Any]) -> None:
        ctx.topics.subscribe("t", b)

    b.tell(Run(join))

    async def leave() -> None:
        b.stop()
        await b.stopped()

    sim.start(publish, name="publisher")
    sim.start(leave, name="leaver")
    yield
    lost = sum(isinstance(letter.message, Item) for letter in sim.system.dead_letters)
    assert len(log.items) <= sum(taken) <= len(log.items) + lost
    assert sim.system.topics.subscribers("t") == (a,)
    assert log.items.count(1) >= 1
    assert log.items.count(2) >= 1


def test_a_topic_reaches_who_is_subscribed_and_forgets_who_has_ended() -> None:
    exhaust(topics)


@dataclass
class Heard:
    words: list[int] = field(default_factory=list[int])
    ends: int = 0


def _is_large(message: Any) -> bool:
    return isinstance(message, Item) and message.n > 9


async def protocol(ctx: Context[Get | Item], heard: Heard, other: Ref[Get]) -> None:
    """Wants an item above 9 first, then asks another one, then takes what there is."""
    try:
        first = await ctx.inbox.receive(_is_large)
        assert isinstance(first, Item)
        heard.words.append(first.n)
        await other.ask(Get())
        async for message in ctx.inbox:
            assert isinstance(message, Item)
            heard.words.append(message.n)
    except InboxClosed:
        heard.ends += 1
        raise
    finally:
        heard.ends += 1


async def selective(sim: Simulation, how: str) -> Scene:
    """A protocol that leaves mail for later, with two senders, and is ended perhaps."""
    heard, lost, sent = Heard(), list[int](), list[int]()
    sim.system.dead_letters.subscribe(lambda letter: lost.append(letter.message.n))
    other = await sim.system.spawn(Player, "other", Log(), name="other")
    ref = await sim.system.spawn(protocol, heard, other, name="reader")

    async def send(first: int) -> None:
        for n in (first, first + 1):
            try:
                await ref.send(Item(n))
            except ActorStopped:
                return
            sent.append(n)

    for first in (1, 10):
        sim.start(send, first, name=f"sender{first}")

    async def end() -> None:
        if how != "none":
            getattr(ref, how)()
            await ref.stopped()

    sim.start(end, name="end")
    yield
    assert sorted(heard.words + lost) == sorted(sent)
    assert heard.words[:1] in ([], [10])
    rest = [n for n in heard.words if n < 10]
    assert rest == sorted(rest)
    assert how != "none" or sorted(heard.words) == [1, 2, 10, 11]


@pytest.mark.parametrize("how", ["none", *HOW])
def test_a_protocol_gets_what_it_wants_and_loses_nothing(how: str) -> None:
    exhaust(partial(selective, how=how))


test_what_the_last_turn_puts_aside_is_told = pytest.mark.parametrize("how", ["stop"])(
    replay(
        "T1.eNolikEKgDAMBP-Scw4VxE_4hJBDbFIolgba-n8jXnaX2SFQLeXaixzJCiBkeaa0GFWbARJRQlD3EUjmHXl2z9EbJsbvtK5B"
        "Z7Yuo_o3l4z1CxwK8wsQ-h5G"
    )(schedule_test(strategy="dfs")(stash_and_end))
)

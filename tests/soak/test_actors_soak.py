"""Actors under load for as long as one likes: nothing hangs, nothing is left, nothing grows.

Each round lets some hundreds of actors spawn, crash, restart, ask in cycles and stop in one system
that lives for the whole run, while asks are cancelled from outside; now and then a whole system is
opened, loaded, and left by an error or an outer cancel. Virtual time jumps whenever all of it
waits, so a round that hangs is seen at once: its deadline, an hour away, is the next thing.

``TROUPER_SOAK_SECONDS`` sets the length, 600 by default, cut to what ``--soak-seconds`` leaves;
``TROUPER_SOAK_SEED`` begins with the round that failed.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import time
import traceback
from array import array
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
import trio
from trio.testing import MockClock

from trouper import Actor, ActorSystem, Context, Ref, Reject, Request, handles, open_system
from trouper.actors import Asking, Terminated
from trouper.actors._local import LocalRef
from trouper.errors import (
    ActorCrashed,
    ActorStopped,
    AskCycle,
    AskUnknown,
    MailboxFull,
    ShuttingDown,
    StartFailed,
)
from trouper.mailbox import Ask, Job
from trouper.supervision import (
    Backoff,
    Exit,
    Intensity,
    Restart,
    one_for_all,
    one_for_one,
    render_text,
    rest_for_one,
)

SHORT = 5.0
ROUNDS = 10  # at least, however little time there is: about a second
LONG = float(os.environ.get("TROUPER_SOAK_SECONDS", "600"))
SEED = int(os.environ.get("TROUPER_SOAK_SEED", "0"))
PATIENCE = 3600.0  # virtual seconds: reached only when a round hangs

# A long queue of naps and failures takes a minute. What takes longer hangs.
SAFETY = 600.0

# How an ask may end here. AskUnknown, the safety net's, is none of these.
ENDS = (ActorCrashed, ActorStopped, AskCycle, MailboxFull, Reject, ShuttingDown, StartFailed)

QUICK = Backoff(first=0.01, cap=1.0)
STRATEGIES = (
    one_for_one(intensity=Intensity(2, 1.0), backoff=QUICK),
    one_for_all(intensity=Intensity(3, 1.0), backoff=QUICK),
    rest_for_one(intensity=Intensity(3, 1.0), backoff=QUICK),
    one_for_one(intensity=Intensity(0)),
)
ENDLESS = one_for_one(intensity=Intensity(10**9), backoff=QUICK)  # the system outlives it all
RESTARTS: tuple[Restart, ...] = ("permanent", "transient", "never")


class Boom(Exception):
    """A failure on purpose."""


@dataclass(frozen=True, slots=True)
class Note:
    """Handled inline; fails when told to."""

    fails: bool = False


@dataclass(frozen=True, slots=True)
class Nap(Request[float]):
    """Blocks its turn for that long, in a nursery of its own."""

    seconds: float
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Grow(Request[int]):
    """Spawns children, some of which grow further."""

    children: int
    depth: int


@dataclass(frozen=True, slots=True)
class Pass(Request[int]):
    """Asks the next one on the way; the way may lead back."""

    way: tuple[Ref[Any], ...]


@dataclass(frozen=True, slots=True)
class Flood:
    """Sends into a mailbox that may be full, perhaps its own."""

    to: Ref[Any]
    count: int


@dataclass(frozen=True, slots=True)
class Sum(Request[int]):
    """A plain handler: asked directly when idle."""

    fails: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """Sets timers and pipes, watches and links itself."""

    other: Ref[Any]


@dataclass(frozen=True, slots=True)
class Later:
    """Put aside, or takes back what was put aside."""


@dataclass(frozen=True, slots=True)
class Piped:
    """Came out of a pipe."""

    result: None


class Node(Actor[Note | Nap | Grow | Pass | Flood | Sum | Live | Later | Piped | Terminated]):
    """Does what it is told, carelessly."""

    made: ClassVar[int] = 0
    cycles: ClassVar[int] = 0
    unknown: ClassVar[int] = 0
    ends: ClassVar[int] = 0  # seen by watchers

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.seen = 0
        Node.made += 1
        if chance.random() < 0.02:
            raise Boom("in the constructor")

    @handles(Note)
    def note(self, message: Note) -> None:
        self.seen += 1
        if message.fails:
            raise Boom("in a plain handler")

    @handles(Sum)
    def sum(self, message: Sum) -> int:
        if message.fails:
            raise Boom("in a request")
        return self.seen

    @handles(Nap)
    async def nap(self, message: Nap) -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, message.seconds)
            nursery.start_soon(trio.lowlevel.checkpoint)
        if message.fails:
            raise Boom("after a nap")
        return message.seconds

    @handles(Grow)
    async def grow(self, message: Grow, ctx: Context) -> int:
        for _ in range(message.children):
            child = await spawn(ctx.spawn, self.chance)
            if message.depth:
                child.tell(Grow(message.children, message.depth - 1))
        return message.children

    @handles(Pass)
    async def onward(self, message: Pass) -> int:
        if not message.way:
            return 0
        try:
            return 1 + await message.way[0].ask(Pass(message.way[1:]))
        except AskUnknown:
            Node.unknown += 1
            raise
        except ENDS as error:
            Node.cycles += isinstance(error, AskCycle)
            if self.chance.random() < 0.3:
                raise  # a crash of this one, too
            raise Reject(f"not reached: {type(error).__name__}") from None

    @handles(Flood)
    async def flood(self, message: Flood) -> None:
        for _ in range(message.count):
            await message.to.send(Note())

    @handles(Live)
    def live(self, message: Live, ctx: Context) -> None:
        ctx.after(self.chance.random(), Note(self.chance.random() < 0.2))
        ctx.every(0.05 + self.chance.random(), Note(), key="beat")
        ctx.pipe(trio.sleep, self.chance.random(), to=Piped)
        if message.other is not ctx.self_ref:
            ctx.watch(message.other)
            if self.chance.random() < 0.3:
                ctx.link(message.other)

    @handles(Later)
    def later(self, message: Later, ctx: Context) -> None:
        if self.chance.random() < 0.7:
            ctx.stash()
        ctx.unstash_all()

    @handles(Piped)
    def piped(self, message: Piped) -> None:
        self.seen += 1

    @handles(Terminated)
    def gone(self, message: Terminated) -> None:
        Node.ends += 1

    async def stopping(self, ctx: Context, why: Exit) -> None:
        if self.chance.random() < 0.1:
            raise Boom("in the hook")
        if self.chance.random() < 0.1:
            await trio.sleep(self.chance.random())


class Starter(Node):
    """One that also has something to do before its first message."""

    async def started(self, ctx: Context) -> None:
        if self.chance.random() < 0.2:
            await ctx.spawn(Node, self.chance)
        await trio.lowlevel.checkpoint()
        if self.chance.random() < 0.05:
            raise Boom("in started")


async def talker(ctx: Context[Any], chance: random.Random) -> None:
    """Receive selectively, answer out of order, keep some waiting, and fail now and then."""
    Node.made += 1
    held: list[Asking[Any, Any]] = []
    async with trio.open_nursery() as nursery:
        while True:
            with trio.move_on_after(chance.random()):
                message = await ctx.inbox.receive(*chance.choice(((), (Sum,), (is_asked,))))
                if getattr(message, "fails", False):
                    raise Boom("in a protocol")
                if isinstance(message, Asking):
                    held.append(message)
                elif isinstance(message, Later):
                    nursery.start_soon(trio.sleep, chance.random())
            chance.shuffle(held)
            while held and chance.random() < 0.7:
                answer(held.pop(), chance)


def is_asked(message: Any) -> bool:
    return isinstance(message, Request)


def answer(asking: Asking[Any, Any], chance: random.Random) -> None:
    if chance.random() < 0.1:
        raise Boom("before an answer")
    if chance.random() < 0.3:
        asking.fail(Reject("not now"))
    else:
        asking.reply(0)


def by_type(message: Any) -> int:
    """Serve what is asked before what is told."""
    return 0 if isinstance(message, Request) else 1


async def spawn(how: Callable[..., Any], chance: random.Random, **options: Any) -> Ref[Any]:
    """Spawn an actor of a random kind."""
    given: dict[str, Any] = {
        "restart": chance.choice(RESTARTS),
        "strategy": chance.choice(STRATEGIES),
        "mailbox": chance.choice((1, 4, 64)),
        "overflow": chance.choice(("reject", "wait", "drop_oldest", "drop_newest")),
        "priority": chance.choice((None, None, by_type)),
        "shutdown": 2.0,
        "dedicated": chance.random() < 0.05,
    } | options
    make = chance.choice((Node, Starter, Node, Starter, talker))
    if make is not talker and given["restart"] != "never":
        given["redeliver"] = chance.choice((0, 0, 2))
    ref: Ref[Any] = await how(make, chance, **given)
    return ref


class Round:
    """One load on a system: makes a troupe, plays with it, and stops what is left."""

    def __init__(self, system: ActorSystem, seed: int, *, players: int = 12) -> None:
        self.system = system
        self.chance = random.Random(seed)
        self.players = players
        self.refs: list[Ref[Any]] = []
        self.ends: Counter[str] = Counter()

    async def play(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self.players):
                nursery.start_soon(self.player)
        for ref in self.refs:
            self.chance.choice((ref.stop, ref.drain, ref.kill))()
        for ref in self.refs:
            await ref.stopped()

    async def player(self) -> None:
        for _ in range(self.chance.randrange(4, 10)):
            await self.act(self.top)
            if self.refs:
                await self.act(partial(self.chance.choice(self.acts), self))

    async def act(self, fn: Callable[[], Any]) -> None:
        """Do one thing, perhaps cancelled on the way; it must end in a known way."""
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            if self.chance.random() < 0.3:
                nursery.start_soon(self.cancel, scope, self.chance.randrange(30))
            with scope:
                try:
                    await fn()
                    self.ends["done"] += 1
                except ENDS as error:
                    self.ends[type(error).__name__] += 1
            nursery.cancel_scope.cancel()
        self.ends["cancelled"] += scope.cancelled_caught

    async def cancel(self, scope: trio.CancelScope, steps: int) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    def any(self) -> Ref[Any]:
        return self.chance.choice(self.refs)

    async def top(self) -> None:
        self.refs.append(await spawn(self.system.spawn, self.chance, restart="permanent"))

    async def grow(self) -> None:
        await self.any().ask(Grow(self.chance.randrange(1, 4), self.chance.randrange(3)))

    async def crash(self) -> None:
        ref = self.any()
        for n in range(self.chance.randrange(1, 6)):
            await ref.send(Note(fails=n % 2 == 0))

    async def ask_and_crash(self) -> None:
        fails = self.chance.random() < 0.3
        await self.any().ask(self.chance.choice((Sum(fails), Nap(self.chance.random(), fails))))

    async def circle(self) -> None:
        way = [self.any() for _ in range(self.chance.randrange(2, 8))]
        async with trio.open_nursery() as nursery:
            for start in range(0, len(way), 2):
                turned = (*way[start:], *way[:start])
                nursery.start_soon(self.one_circle, turned)

    async def one_circle(self, way: tuple[Ref[Any], ...]) -> None:
        try:
            await way[0].ask(Pass(way[1:]))
        except ENDS as error:
            self.ends[f"circle {type(error).__name__}"] += 1

    async def flood(self) -> None:
        a, b = self.any(), self.any()
        a.tell(Flood(b, 8))
        b.tell(Flood(a, 8))

    async def live(self) -> None:
        ref = self.any()
        await ref.send(Live(self.any()))
        for _ in range(self.chance.randrange(4)):
            ref.tell(Later())

    async def stop_some(self) -> None:
        ref = self.any()
        self.chance.choice((ref.stop, ref.drain, ref.kill))()
        if self.chance.random() < 0.5:
            await ref.stopped()

    acts = (
        grow,
        grow,
        crash,
        crash,
        ask_and_crash,
        ask_and_crash,
        circle,
        flood,
        live,
        live,
        stop_some,
    )


class Soak:
    """Rounds until the time is up, and what must be true between them."""

    def __init__(self, seconds: float) -> None:
        self.before = living()  # what earlier tests still hold
        self.until = time.monotonic() + seconds
        self.rounds = 0
        self.ends: Counter[str] = Counter()
        # Arrays: a list of ints would be what grows.
        self.references = array("q")  # to what everybody shares, between rounds
        self.blocks = array("q")  # allocated blocks, looked at between rounds

    async def run(self) -> None:
        async with open_system("soak", strategy=ENDLESS, seed=SEED, ask_safety=SAFETY) as system:
            await fill_the_pool(system)
            while time.monotonic() < self.until or self.rounds < ROUNDS:
                seed = SEED + self.rounds
                try:
                    await self.round(system, seed)
                except BaseException as error:
                    error.add_note(f"repeat with TROUPER_SOAK_SEED={seed}\n{picture(system)}")
                    raise
                self.rounds += 1
            tasks = task_names()
            assert [name for name in tasks if name.startswith("/soak")] == []
        assert [name for name in task_names() if "trouper" in name or "/soak" in name] == []

    async def round(self, system: ActorSystem, seed: int) -> None:
        round_ = Round(system, seed, players=200 if seed % 16 == 5 else 12)
        with trio.move_on_after(PATIENCE) as patience:
            await round_.play()
        assert not patience.cancelled_caught, "the round hangs"
        self.ends += round_.ends
        if seed % 4 == 0:
            await leave_early(seed)
        del round_
        await self.check_nothing_is_left(system)

    async def check_nothing_is_left(self, system: ActorSystem) -> None:
        await trio.testing.wait_all_tasks_blocked()
        seen = system.statistics()
        assert (seen.actors, seen.asks_pending, seen.dispatcher.ready) == (0, 0, 0)
        assert not (busy := busy_workers(system)), "\n".join(busy)
        runtime: Any = system._runtime
        assert len(runtime.waits) == 0
        # What the last thousand dead letters and the cache of askers hold, they hold by design.
        probe = await system.spawn(Node, random.Random(1), restart="permanent", name="last")
        probe.kill()
        await probe.stopped()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(1000):
            probe.tell(Note())
        runtime.dispatcher.askers.clear()
        del probe
        left = living() - self.before
        assert left["LocalRef"] <= 2, left  # the root, and the last target of dead letters
        assert left["Ask"] + left["Job"] + left["Node"] + left["Starter"] == 0, left
        # Whatever is left of an actor, a task or a job refers to one of these.
        shared = (Node, Starter, Boom, runtime.dispatcher, runtime.root, runtime)
        self.references.append(sum(map(sys.getrefcount, shared)))
        self.blocks.append(sys.getallocatedblocks())


WATCHED = frozenset({LocalRef, Ask, Job, Node, Starter})


async def fill_the_pool(system: ActorSystem) -> None:
    """Block as many actors at once as the pool keeps idle workers, so that it grows no more."""
    refs = [await system.spawn(Node, random.Random(1)) for _ in range(300)]
    for ref in refs:
        ref.tell(Nap(1.0))
        ref.drain()
    for ref in refs:
        await ref.stopped()


def living() -> Counter[str]:
    gc.collect()
    return Counter(type(o).__name__ for o in gc.get_objects() if type(o) in WATCHED)


async def leave_early(seed: int) -> None:
    """Open a system of its own, load it, and leave it by an error or by an outer cancel."""
    chance = random.Random(seed)
    steps = chance.randrange(400)
    kind = chance.choice(("error", "cancel", "body"))
    with trio.CancelScope() as outer:
        try:
            async with open_system("early", strategy=ENDLESS) as system, trio.open_nursery() as n:
                n.start_soon(Round(system, seed, players=4).play)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                if kind == "error":
                    system.fail(Boom("from outside"))
                elif kind == "cancel":
                    outer.cancel()
                else:
                    raise Boom("in the body")
        except* (Boom, *ENDS):
            pass
    assert [name for name in task_names() if name.startswith("/early")] == []


def task_names() -> list[str]:
    names: list[str] = []
    pending = [trio.lowlevel.current_root_task()]
    while pending:
        task = pending.pop()
        if task is not None:
            names.append(task.name)
            pending += [t for nursery in task.child_nurseries for t in nursery.child_tasks]
    return names


def busy_workers(system: ActorSystem) -> list[str]:
    """Return what each worker that is not idle does, with its stack."""
    d = system.dispatcher
    return [
        f"{getattr(worker.running, 'path', None)}: "
        + "".join(traceback.StackSummary.extract(task.iter_await_frames()).format())
        for task, worker in d.workers.items()
        if worker not in d.idle
    ]


def picture(system: ActorSystem) -> str:
    return f"{render_text(system.tree())[:4000]}\n{system.statistics()}"


@pytest.fixture
def quiet() -> Generator[None]:
    """Keep crashes out of the log: pytest would keep every record, and what it refers to."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def check(soak: Soak) -> None:
    for kind in ("done", "cancelled", "ActorCrashed", "ActorStopped"):
        assert soak.ends[kind], (kind, soak.ends)
    assert Node.cycles
    assert Node.ends
    assert Node.unknown == 0
    print(f"{soak.rounds} rounds, {Node.made} actors, {Node.cycles} cycles: {dict(soak.ends)}")
    print(f"allocated blocks: {soak.blocks[:3]} ... {soak.blocks[-3:]}")
    print(f"references: {soak.references[:3]} ... {soak.references[-3:]}")
    assert peak_grows_by(soak.references) < 4, soak.references
    assert quiet_grows_by(soak.blocks) < 1000, soak.blocks


def peak_grows_by(series: array[int]) -> int:
    """Return how much more the last quarter holds at its peak than the first one.

    For references: each worker of the pool has some, the pool is filled before the first round,
    workers that are cut leave and others come. Only a leak goes above a full pool.
    """
    quarter = max(1, len(series) // 4)
    return max(series[-quarter:]) - max(series[:quarter])


def quiet_grows_by(series: array[int]) -> int:
    """Return how much more the last half holds at its quietest than the first one.

    For allocated blocks: a round may leave many for the next collection; a leak lifts the least.
    """
    half = max(1, len(series) // 2)
    return min(series[-half:]) - min(series[:half])


def test_a_leak_is_told_from_a_pool_that_shrinks_and_fills_again() -> None:
    pool = [548] * 10 + [534] * 20 + [548] * 10
    leak = [held + round_ for round_, held in enumerate(pool)]
    assert peak_grows_by(array("q", pool)) == 0
    assert peak_grows_by(array("q", leak)) >= 4
    rubbish = [270_000 + 3_000 * (round_ % 2) for round_ in range(40)]
    assert quiet_grows_by(array("q", rubbish)) == 0
    assert quiet_grows_by(array("q", [b + 60 * n for n, b in enumerate(rubbish)])) >= 1000


async def test_actors_under_load_hang_nowhere_and_leave_nothing(
    autojump_clock: MockClock, quiet: None
) -> None:
    soak = Soak(SHORT)
    await soak.run()
    check(soak)


@pytest.mark.soak
async def test_the_same_for_minutes(
    autojump_clock: MockClock, quiet: None, soak_left: float
) -> None:
    soak = Soak(min(LONG, soak_left))
    await soak.run()
    check(soak)

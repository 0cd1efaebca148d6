"""Small scenarios on real actors, to compare searches and to prove what is explored."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import trio

from trouper import Actor, Context, Ref, Request, handles
from trouper.actors import Terminated
from trouper.testing.schedules import Rules, Scenario, Simulation

Scene = AsyncGenerator[None, None]


@dataclass(frozen=True)
class Go:
    pass


@dataclass(frozen=True)
class Max(Request[int]):
    pass


@dataclass(frozen=True)
class Put:
    n: int | None


@dataclass(frozen=True)
class Ranks(Request[list[int]]):
    pass


@dataclass(frozen=True)
class Get(Request[int]):
    pass


@dataclass(frozen=True)
class Item:
    n: int


class Store(Actor[Max | Put | Ranks]):
    def __init__(self) -> None:
        self.ranks: list[int] = []

    @handles(Max)
    def on_max(self, message: Max) -> int:
        return max(self.ranks, default=0)

    @handles(Put)
    def on_put(self, message: Put) -> None:
        n = max(self.ranks, default=0) + 1 if message.n is None else message.n
        self.ranks.append(n)

    @handles(Ranks)
    def on_ranks(self, message: Ranks) -> list[int]:
        return list(self.ranks)


class Allocator(Actor[Go]):
    def __init__(self, store: Ref[Max | Put], fixed: bool) -> None:
        self.store, self.fixed = store, fixed

    @handles(Go)
    async def go(self, message: Go) -> None:
        if self.fixed:
            self.store.tell(Put(None))
            return
        top = await self.store.ask(Max())
        await self.store.send(Put(top + 1))


class Hop(Actor[Go]):
    def __init__(self, onward: Ref[Go]) -> None:
        self.onward = onward

    @handles(Go)
    def go(self, message: Go) -> None:
        self.onward.tell(message)


def allocators(count: int = 2, *, fixed: bool, stagger: int = 0) -> Scenario:
    """Read-then-max: a rank is read and one more is written, in two messages."""

    async def scenario(sim: Simulation) -> Scene:
        store = await sim.system.spawn(Store, name="store")
        for n in range(count):
            first: Ref[Go] = await sim.system.spawn(Allocator, store, fixed, name=f"d{n}")
            for hop in range(stagger * n):
                first = await sim.system.spawn(Hop, first, name=f"hop{n}.{hop}")
            first.tell(Go())
        yield
        ranks = await store.ask(Ranks())
        assert len(set(ranks)) == len(ranks) == count, f"a rank was given twice: {ranks}"

    return scenario


@dataclass
class Echo(Actor[Get]):
    """Answers, after asking another one if there is one."""

    behind: Ref[Get] | None = None

    @handles(Get)
    async def get(self, message: Get) -> int:
        return 1 if self.behind is None else await self.behind.ask(message) + 1


@dataclass
class Asker(Actor[Go]):
    targets: list[Ref[Get]]
    got: list[int] = field(default_factory=list)

    @handles(Go)
    async def go(self, message: Go) -> None:
        async with trio.open_nursery() as nursery:
            for target in self.targets:
                nursery.start_soon(self._ask, target)

    async def _ask(self, target: Ref[Get]) -> None:
        self.got.append(await target.ask(Get()))


async def asks(sim: Simulation) -> Scene:
    """A chain of asks and a rival for its middle."""
    end = await sim.system.spawn(Echo, name="end")
    middle = await sim.system.spawn(Echo, end, name="middle")
    for name in "ab":
        (await sim.system.spawn(Asker, [middle], name=name)).tell(Go())
    yield


async def two_at_once(sim: Simulation) -> Scene:
    """Two asks at once, whose answers come in any order, and a rival."""
    x = await sim.system.spawn(Echo, name="x")
    y = await sim.system.spawn(Echo, name="y")
    (await sim.system.spawn(Asker, [x, y], name="a")).tell(Go())
    (await sim.system.spawn(Asker, [x], name="b")).tell(Go())
    yield


@dataclass
class Sink(Actor[Item]):
    items: list[int]

    @handles(Item)
    def item(self, message: Item) -> None:
        self.items.append(message.n)


@dataclass
class Producer(Actor[Go]):
    sink: Ref[Item]
    first: int

    @handles(Go)
    async def go(self, message: Go) -> None:
        for n in (self.first, self.first + 1):
            await self.sink.send(Item(n))


async def bounded(sim: Simulation) -> Scene:
    """Two producers and a mailbox with room for one."""
    items: list[int] = []
    sink = await sim.system.spawn(Sink, items, name="sink", mailbox=1)
    for n in (0, 10):
        (await sim.system.spawn(Producer, sink, n, name=f"p{n}")).tell(Go())
    yield
    assert sorted(items) == [0, 1, 10, 11]
    for n in (0, 10):
        assert items.index(n) < items.index(n + 1)


async def roomy(sim: Simulation) -> Scene:
    """The same, where there is always room: who was first does not count."""
    items: list[int] = []
    sink = await sim.system.spawn(Sink, items, name="sink")
    for n in (0, 10):
        (await sim.system.spawn(Producer, sink, n, name=f"p{n}")).tell(Go())
    yield
    assert sorted(items) == [0, 1, 10, 11]


async def clients(sim: Simulation) -> Scene:
    """Two tasks beside the actors that both ask one."""
    end = await sim.system.spawn(Echo, name="end")
    got: list[int] = []

    async def client() -> None:
        got.append(await end.ask(Get()))
        end.tell(Get())

    for name in "ab":
        sim.start(client, name=name)
    yield
    assert got == [1, 1]


# --- what the life-cycle does ---------------------------------------------------------------------


class Boom(Exception):
    pass


@dataclass(frozen=True)
class Fail:
    pass


class Fragile(Actor[Fail | Get]):
    def __init__(self, lives: list[int]) -> None:
        self.lives = lives
        self.lives.append(0)

    @handles(Fail)
    def fail(self, message: Fail) -> None:
        raise Boom

    @handles(Get)
    def get(self, message: Get) -> int:
        self.lives[-1] += 1
        return self.lives[-1]


async def restarts(sim: Simulation) -> Scene:
    """A child that fails at one message and takes another, before or in its next life."""
    lives: list[int] = []
    child = await sim.system.spawn(Fragile, lives, name="child", restart="permanent")

    async def client() -> None:
        await child.ask(Get())

    sim.start(client, name="a")
    child.tell(Fail())
    yield
    assert lives in ([1, 0], [0, 1])


@dataclass
class Watcher(Actor[Go | Terminated]):
    watched: Ref[Fail | Get]
    heard: list[str]

    @handles(Go)
    def go(self, message: Go, ctx: Context[Go | Terminated]) -> None:
        ctx.watch(self.watched)
        self.heard.append("go")

    @handles(Terminated)
    def terminated(self, message: Terminated) -> None:
        self.heard.append(message.why.kind)


async def watches(sim: Simulation) -> Scene:
    """An end that is watched, before or after it."""
    heard: list[str] = []
    child = await sim.system.spawn(Fragile, [], name="child")
    watcher = await sim.system.spawn(Watcher, child, heard, name="watcher")
    watcher.tell(Go())

    async def client() -> None:
        child.stop()
        await child.stopped()

    sim.start(client, name="client")
    yield
    assert heard == ["go", "stopped"]


@dataclass
class Sleeper(Actor[Go]):
    seconds: float
    log: list[str]
    name: str

    @handles(Go)
    async def go(self, message: Go) -> None:
        await trio.sleep(self.seconds)
        self.log.append(self.name)


async def sleepers(sim: Simulation) -> Scene:
    """Handlers that sleep; two of them equally long."""
    log: list[str] = []
    for name, seconds in (("a", 2), ("b", 1), ("c", 1)):
        (await sim.system.spawn(Sleeper, seconds, log, name, name=name)).tell(Go())
    yield
    assert sorted(log) == ["a", "b", "c"]
    assert log[-1] == "a"


@dataclass
class Ticker(Actor[Go | Item | Get]):
    log: list[int]
    is_steady: bool

    @handles(Go)
    def go(self, message: Go, ctx: Context[Go | Item | Get]) -> None:
        ctx.after(1, Item(1))
        ctx.after(2, Item(2), key="late")
        if self.is_steady:
            ctx.every(5, Item(5), key="every")

    @handles(Item)
    def item(self, message: Item, ctx: Context[Go | Item | Get]) -> None:
        self.log.append(message.n)
        if self.log.count(5) == 2:
            ctx.cancel_timer("every")

    @handles(Get)
    def get(self, message: Get, ctx: Context[Go | Item | Get]) -> int:
        return int(ctx.cancel_timer("late"))


def timers(*, is_steady: bool = False) -> Scenario:
    """Timers of an actor, one of which may be cancelled, and a rival."""

    async def scenario(sim: Simulation) -> Scene:
        log: list[int] = []
        ticker = await sim.system.spawn(Ticker, log, is_steady, name="ticker")
        targets: list[Ref[Get]] = [ticker]
        ticker.tell(Go())
        (await sim.system.spawn(Asker, targets, name="a")).tell(Go())
        yield
        assert log.count(1) == 1
        assert log.count(5) == 2 * is_steady

    return scenario


@dataclass
class Hasty(Actor[Go]):
    target: Ref[Get]
    got: list[int | None]

    @handles(Go)
    async def go(self, message: Go) -> None:
        answer = None
        with trio.move_on_after(1):
            answer = await self.target.ask(Get())
        self.got.append(answer)


async def hasty(sim: Simulation) -> Scene:
    """An ask that is given up, before it is taken or after."""
    got: list[int | None] = []
    end = await sim.system.spawn(Echo, name="end")
    (await sim.system.spawn(Hasty, end, got, name="a")).tell(Go())
    end.tell(Get())
    yield
    assert got in ([1], [None])


@dataclass
class Killer(Actor[Go]):
    victim: Ref[Go]

    @handles(Go)
    def go(self, message: Go) -> None:
        self.victim.kill()


async def kills(sim: Simulation) -> Scene:
    """A kill of an actor that may be in the middle of a turn."""
    log: list[str] = []
    victim = await sim.system.spawn(Sleeper, 1, log, "victim", name="victim")
    (await sim.system.spawn(Killer, victim, name="killer")).tell(Go())
    victim.tell(Go())
    yield


@dataclass
class Piper(Actor[Go | Item]):
    target: Ref[Get]
    log: list[int]

    @handles(Go)
    def go(self, message: Go, ctx: Context[Go | Item]) -> None:
        ctx.pipe(self.target.ask, Get(), to=Item)

    @handles(Item)
    def item(self, message: Item) -> None:
        self.log.append(message.n)


async def pipes(sim: Simulation) -> Scene:
    """Work beside the turns of an actor, and mail for it meanwhile."""
    log: list[int] = []
    end = await sim.system.spawn(Echo, name="end")
    piper = await sim.system.spawn(Piper, end, log, name="piper")
    piper.tell(Go())
    (await sim.system.spawn(Producer, piper, 10, name="p")).tell(Go())
    yield
    assert sorted(log) == [1, 10, 11]


async def reader(ctx: Context[Go | Item], log: list[int]) -> None:
    await ctx.inbox.receive(Go)
    async for message in ctx.inbox:
        assert isinstance(message, Item)
        log.append(message.n)


async def protocols(sim: Simulation) -> Scene:
    """A protocol that wants one message before all others."""
    log: list[int] = []
    ref = await sim.system.spawn(reader, log, name="reader")
    (await sim.system.spawn(Producer, ref, 10, name="p")).tell(Go())
    (await sim.system.spawn(Hop, ref, name="hop")).tell(Go())
    yield
    assert log == [10, 11]


# --- what is shared without a message -------------------------------------------------------------


class Registrar(Actor[Go]):
    @handles(Go)
    def go(self, message: Go, ctx: Context[Go]) -> None:
        ctx.registry.register("the one", ctx.self_ref)


@dataclass
class Finder(Actor[Go]):
    found: list[bool]

    @handles(Go)
    def go(self, message: Go, ctx: Context[Go]) -> None:
        self.found.append(ctx.registry.whereis("the one") is not None)


async def names(sim: Simulation) -> Scene:
    """A name that is given and looked up at the same time."""
    found: list[bool] = []
    (await sim.system.spawn(Registrar, name="a")).tell(Go())
    (await sim.system.spawn(Finder, found, name="b")).tell(Go())
    yield
    assert len(found) == 1


@dataclass
class Reader(Actor[Go]):
    times: list[float]

    @handles(Go)
    def go(self, message: Go) -> None:
        self.times.append(trio.current_time())


async def clocks(sim: Simulation) -> Scene:
    """A look at the clock while time may pass."""
    times: list[float] = []
    log: list[str] = []
    (await sim.system.spawn(Sleeper, 1, log, "a", name="a")).tell(Go())
    (await sim.system.spawn(Reader, times, name="b")).tell(Go())
    yield
    assert times in ([0], [1])


async def gate_of_trio(sim: Simulation) -> Scene:
    """A handler that another one wakes by an event of trio, and mail for it meanwhile."""
    event, log = trio.Event(), list[str]()

    async def wait(ctx: Context[Item]) -> None:
        async for message in ctx.inbox:
            assert isinstance(message, Item)
            if message.n == 0:
                sim.touch("event")
                await event.wait()
            log.append(f"{message.n}")

    async def set_it(ctx: Context[Go]) -> None:
        await ctx.inbox.receive(Go)
        sim.touch("event")
        event.set()
        log.append("set")

    waiter = await sim.system.spawn(wait, name="waiter")
    setter = await sim.system.spawn(set_it, name="setter")
    waiter.tell(Item(0))
    setter.tell(Go())
    (await sim.system.spawn(Producer, waiter, 5, name="p")).tell(Go())
    yield
    assert sorted(log) == ["0", "5", "6", "set"]


ANYTIME = Rules(time="anytime")
COMPARED: dict[str, tuple[Scenario, Rules]] = {
    "read-then-max": (allocators(fixed=False), Rules()),
    "read-then-max, staggered": (allocators(fixed=False, stagger=2), Rules()),
    "put at once": (allocators(fixed=True), Rules()),
    "asks": (asks, Rules()),
    "two asks at once": (two_at_once, Rules()),
    "bounded mailbox": (bounded, Rules()),
    "roomy mailbox": (roomy, Rules()),
    "roomy mailbox, pairwise": (roomy, Rules(delivery="pairwise")),
    "clients": (clients, Rules()),
    "restarts": (restarts, Rules()),
    "watches": (watches, Rules()),
    "sleepers when idle": (sleepers, Rules()),
    "sleepers at any time": (sleepers, ANYTIME),
    "timers when idle": (timers(), Rules()),
    "timers at any time": (timers(), ANYTIME),
    "a steady timer": (timers(is_steady=True), Rules()),
    "an ask that is given up when idle": (hasty, Rules()),
    "an ask that is given up": (hasty, ANYTIME),
    "kills when idle": (kills, Rules()),
    "kills at any time": (kills, ANYTIME),
    "pipes": (pipes, Rules()),
    "protocols": (protocols, Rules()),
    "names": (names, Rules()),
    "looks at the clock": (clocks, ANYTIME),
    "an event of trio": (gate_of_trio, Rules()),
}

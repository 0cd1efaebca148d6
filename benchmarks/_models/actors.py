"""The planted bugs of `planted`, in actors as they are written, for scenarios on the real runtime.

Each is a function that returns a scenario: an async generator function, to give to `explore`. As
there, no bug shows in the ordinary order, and each has a fixed form. ``noise`` adds messages that
nothing depends on, ``more`` makes the chains longer through which the first messages come.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from trouper import Actor, Context, Ref, Request, handles
from trouper.store import Store, Tx, record, row_key
from trouper.testing import Rules, Simulation

Scenario: TypeAlias = Callable[[Simulation], AsyncGenerator[None, None]]


@dataclass(frozen=True, slots=True)
class Go:
    """Starts an actor; goes on through a chain of relays unchanged."""


class Relay(Actor[Go]):
    def __init__(self, onward: Ref[Go]) -> None:
        self.onward = onward

    @handles(Go)
    def pass_on(self, message: Go) -> None:
        self.onward.tell(message)


class Sink(Actor[Go]):
    @handles(Go)
    def take(self, message: Go) -> None: ...


async def behind(sim: Simulation, hops: int, target: Ref[Go], name: str = "hop") -> Ref[Go]:
    """Spawn a chain of relays before an actor; return whom to send to."""
    first = target
    for n in reversed(range(hops)):
        first = await sim.system.spawn(Relay, first, name=f"{name}{n}")
    return first


async def start(sim: Simulation, more: int, *targets: Ref[Go]) -> None:
    """Tell actors to go, through longer chains than there would have to be."""
    far = [await behind(sim, more, ref, f"more-{n}-") for n, ref in enumerate(targets)]
    for ref in far:
        ref.tell(Go())


async def chatter(sim: Simulation, messages: int) -> None:
    """Send messages that nothing depends on: half as many actors that tell another one."""
    if not messages:
        return
    sink = await sim.system.spawn(Sink, name="sink")
    for n in range(messages // 2):
        relay = await sim.system.spawn(Relay, sink, name=f"noise{n}")
        relay.tell(Go())


# --- read-then-max --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Max(Request[int]):
    pass


@dataclass(frozen=True, slots=True)
class Put(Request[None]):
    rank: int | None


@dataclass(frozen=True, slots=True)
class Ranks(Request[list[int]]):
    pass


class Ledger(Actor[Max | Put | Ranks]):
    def __init__(self) -> None:
        self.ranks: list[int] = []

    @handles(Max)
    def max(self, message: Max) -> int:
        return max(self.ranks, default=0)

    @handles(Put)
    def put(self, message: Put) -> None:
        self.ranks.append(self.max(Max()) + 1 if message.rank is None else message.rank)

    @handles(Ranks)
    def all(self, message: Ranks) -> list[int]:
        return list(self.ranks)


class Driver(Actor[Go]):
    def __init__(self, ledger: Ref[Max | Put], fixed: bool) -> None:
        self.ledger, self.fixed = ledger, fixed

    @handles(Go)
    async def drive(self, message: Go) -> None:
        top = None if self.fixed else await self.ledger.ask(Max())
        await self.ledger.ask(Put(None if top is None else top + 1))


def allocators(*, fixed: bool, noise: int = 0, more: int = 0) -> Scenario:
    """Read-then-max: a rank is read and one more is written, in two messages."""

    async def two_drivers(sim: Simulation) -> AsyncGenerator[None, None]:
        await chatter(sim, noise)
        ledger = await sim.system.spawn(Ledger, name="ledger")
        drivers = [
            await sim.system.spawn(Driver, ledger, fixed, name=name) for name in ("d0", "d1")
        ]
        late = await behind(sim, 3, drivers[1])
        await start(sim, more, drivers[0], late)
        yield
        ranks = await ledger.ask(Ranks())
        assert len(set(ranks)) == len(ranks) == 2, f"a rank was given twice: {ranks}"

    return two_drivers


# --- bump before fence ----------------------------------------------------------------------------


@record("models.fence", version=1)
@dataclass(frozen=True, slots=True)
class Fence:
    epoch: int


@record("models.row", version=1)
@dataclass(frozen=True, slots=True)
class Row:
    writers: list[int] = field(default_factory=list[int])


FENCE: Final = row_key(b"F", "fence")
ROW: Final = row_key(b"R", "row")
RANK: Final = row_key(b"R", "rank")


class Owner(Actor[Go]):
    def __init__(self, store: Store, epoch: int) -> None:
        self.store, self.epoch = store, epoch

    @handles(Go)
    async def work(self, message: Go) -> None:
        if self.store.get("record", ROW, Row) is None:
            await self.store.commit(self.write)

    def write(self, tx: Tx) -> None:
        fence = tx.get("record", FENCE, Fence)
        if fence is not None and fence.epoch > self.epoch:
            return
        row = tx.get("record", ROW, Row) or Row()
        tx.put("record", ROW, Row([*row.writers, self.epoch]))


@dataclass(frozen=True, slots=True)
class Moved(Request[None]):
    pass


class Registry(Actor[Moved]):
    @handles(Moved)
    def moved(self, message: Moved) -> None: ...


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    pass


class Supervisor(Actor[Go | LeaseEnded]):
    def __init__(
        self, store: Store, owners: tuple[Ref[Go], Ref[Go]], registry: Ref[Moved], fixed: bool
    ) -> None:
        self.store, self.owners, self.registry, self.fixed = store, owners, registry, fixed

    @handles(Go)
    def start(self, message: Go, ctx: Context[Go | LeaseEnded]) -> None:
        self.owners[0].tell(Go())
        ctx.after(30, LeaseEnded())

    @handles(LeaseEnded)
    async def take_over(self, message: LeaseEnded) -> None:
        if self.fixed:
            await self.store.commit(self.fence)
            self.owners[1].tell(Go())
        else:
            self.owners[1].tell(Go())
            await self.registry.ask(Moved())
            await self.store.commit(self.fence)

    @staticmethod
    def fence(tx: Tx) -> None:
        tx.put("record", FENCE, Fence(2))


def takeover(*, fixed: bool, noise: int = 0, more: int = 0) -> Scenario:
    """Bump before fence: the successor of a lease starts before the old owner is fenced off."""

    async def lease_takeover(sim: Simulation) -> AsyncGenerator[None, None]:
        await chatter(sim, noise)
        old = await sim.system.spawn(Owner, sim.system.store, 1, name="old")
        new = await sim.system.spawn(Owner, sim.system.store, 2, name="new")
        registry = await sim.system.spawn(Registry, name="registry")
        supervisor = await sim.system.spawn(
            Supervisor, sim.system.store, (old, new), registry, fixed, name="supervisor"
        )
        await start(sim, more, supervisor)
        yield
        row = sim.journal.get("record", ROW, Row)
        assert row is not None
        assert len(row.writers) == 1, f"the row was written by {row.writers}"

    return lease_takeover


# --- two-transaction finalise ---------------------------------------------------------------------


class Child(Actor[Go]):
    def __init__(self, store: Store, fixed: bool) -> None:
        self.store, self.fixed = store, fixed

    @handles(Go)
    async def settle(self, message: Go) -> None:
        if self.store.get("record", ROW, Row) is not None:
            return  # settled already
        if self.fixed:
            await self.store.commit(self.both)
        else:
            await self.store.commit(self.row)
            await self.store.commit(self.rank)

    @staticmethod
    def row(tx: Tx) -> None:
        tx.put("record", ROW, Row([1]))

    @staticmethod
    def rank(tx: Tx) -> None:
        tx.put("record", RANK, Row([1]))

    def both(self, tx: Tx) -> None:
        self.row(tx)
        self.rank(tx)


def finalise(*, fixed: bool, noise: int = 0, more: int = 0) -> Scenario:
    """Two-transaction finalise: a crash between a row and its rank leaves a row without a rank."""

    async def boot(sim: Simulation) -> None:
        child = await sim.system.spawn(Child, sim.system.store, fixed, name="child")
        await start(sim, more, child)

    async def settlement(sim: Simulation) -> AsyncGenerator[None, None]:
        sim.crash_points("journal", budget=1)
        sim.on_boot(boot)
        await chatter(sim, noise)
        await boot(sim)
        yield
        rank = sim.journal.get("record", RANK, Row)
        assert rank is not None, "the child was settled and has no rank"

    return settlement


# --- ancestor pool --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire(Request[None]):
    pass


@dataclass(frozen=True, slots=True)
class Release:
    pass


class Pool(Actor[Acquire | Release]):
    def __init__(self) -> None:
        self.free = 2

    @handles(Acquire)
    def acquire(self, message: Acquire, ctx: Context[Acquire | Release]) -> None:
        if not self.free:
            ctx.stash()
        self.free -= 1

    @handles(Release)
    def release(self, message: Release, ctx: Context[Acquire | Release]) -> None:
        self.free += 1
        ctx.unstash_all()


@dataclass(frozen=True, slots=True)
class Run(Request[None]):
    pass


class Inner(Actor[Run]):
    def __init__(self, pool: Ref[Acquire | Release], fixed: bool) -> None:
        self.pool, self.fixed = pool, fixed

    @handles(Run)
    async def run(self, message: Run) -> None:
        if not self.fixed:  # else it runs in its parent's slot
            await self.pool.ask(Acquire())
            self.pool.tell(Release())


class Outer(Actor[Go]):
    def __init__(self, pool: Ref[Acquire | Release], inner: Ref[Run]) -> None:
        self.pool, self.inner = pool, inner

    @handles(Go)
    async def run(self, message: Go) -> None:
        await self.pool.ask(Acquire())
        await self.inner.ask(Run())
        self.pool.tell(Release())


def pool(*, fixed: bool, noise: int = 0, more: int = 0) -> Scenario:
    """Ancestor-pool deadlock: a parent holds a slot while its child waits for one."""

    async def two_parents(sim: Simulation) -> AsyncGenerator[None, None]:
        await chatter(sim, noise)
        slots = await sim.system.spawn(Pool, name="pool")
        parents: list[Ref[Go]] = []
        for n in range(2):
            inner = await sim.system.spawn(Inner, slots, fixed, name=f"c{n}")
            parents.append(await sim.system.spawn(Outer, slots, inner, name=f"p{n}"))
        late = await behind(sim, 6, parents[1])
        await start(sim, more, parents[0], late)
        yield

    return two_parents


# --- lost wake-up ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Poll(Request[bool]):
    pass


@dataclass(frozen=True, slots=True)
class Await(Request[None]):
    pass


class Box(Actor[Go | Poll | Await]):
    def __init__(self, fixed: bool) -> None:
        self.fixed, self.items, self.sleeps = fixed, 0, False

    @handles(Go)
    def put(self, message: Go, ctx: Context[Any]) -> None:
        self.items += 1
        ctx.unstash_all()

    @handles(Poll)
    def poll(self, message: Poll) -> bool:
        return self.items > 0

    @handles(Await)
    def wait(self, message: Await, ctx: Context[Any]) -> None:
        if not self.sleeps and not (self.fixed and self.items):
            self.sleeps = True
            ctx.stash()


class Consumer(Actor[Go]):
    def __init__(self, box: Ref[Poll | Await]) -> None:
        self.box = box

    @handles(Go)
    async def consume(self, message: Go) -> None:
        if not await self.box.ask(Poll()):
            await self.box.ask(Await())


def wake_up(*, fixed: bool, noise: int = 0, more: int = 0) -> Scenario:
    """Lost wake-up: what comes between looking and waiting wakes nobody."""

    async def producer_and_consumer(sim: Simulation) -> AsyncGenerator[None, None]:
        await chatter(sim, noise)
        box = await sim.system.spawn(Box, fixed, name="box")
        consumer = await sim.system.spawn(Consumer, box, name="consumer")
        late = await behind(sim, 6, box)
        await start(sim, more, late, consumer)
        yield

    return producer_and_consumer


# --- announce after arm ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announce(Request[None]):
    pass


@dataclass(frozen=True, slots=True)
class Due:
    pass


@dataclass(frozen=True, slots=True)
class Fired(Request[bool]):
    pass


class Hub(Actor[Announce | Due | Fired]):
    def __init__(self) -> None:
        self.known, self.fired = False, False

    @handles(Announce)
    def announce(self, message: Announce) -> None:
        self.known = True

    @handles(Due)
    def due(self, message: Due) -> None:
        self.fired = self.known

    @handles(Fired)
    def has_fired(self, message: Fired) -> bool:
        return self.fired


class Alarm(Actor[Go | Due]):
    """Is told to arm itself, and tells the hub when it is time."""

    def __init__(self, hub: Ref[Due]) -> None:
        self.hub = hub

    @handles(Go)
    def arm(self, message: Go, ctx: Context[Go | Due]) -> None:
        ctx.after(1, Due())

    @handles(Due)
    def due(self, message: Due) -> None:
        self.hub.tell(message)


class Planner(Actor[Go]):
    def __init__(
        self, hub: Ref[Announce], alarm: Ref[Go], registry: Ref[Moved], fixed: bool
    ) -> None:
        self.hub, self.alarm, self.registry, self.fixed = hub, alarm, registry, fixed

    @handles(Go)
    async def plan(self, message: Go) -> None:
        if self.fixed:
            await self.hub.ask(Announce())
            self.alarm.tell(Go())
        else:
            self.alarm.tell(Go())
            await self.registry.ask(Moved())
            await self.hub.ask(Announce())


def announce(*, fixed: bool, noise: int = 0, more: int = 0) -> Scenario:
    """Announce after arm: the timer may fire before anybody knows what it is for."""

    async def alarm_and_hub(sim: Simulation) -> AsyncGenerator[None, None]:
        await chatter(sim, noise)
        hub = await sim.system.spawn(Hub, name="hub")
        alarm = await sim.system.spawn(Alarm, hub, name="alarm")
        registry = await sim.system.spawn(Registry, name="registry")
        planner = await sim.system.spawn(Planner, hub, alarm, registry, fixed, name="planner")
        await start(sim, more, planner)
        yield
        assert await hub.ask(Fired()), "it was due and nobody heard of it"

    return alarm_and_hub


ANYTIME: Final = Rules(time="anytime")
Make: TypeAlias = Callable[..., Scenario]
PLANTED: Final[dict[str, tuple[Make, Rules]]] = {
    "read-then-max": (allocators, Rules()),
    "bump before fence": (takeover, ANYTIME),
    "two-transaction finalise": (finalise, Rules()),
    "ancestor pool": (pool, Rules()),
    "lost wake-up": (wake_up, Rules()),
    "announce after arm": (announce, ANYTIME),
}

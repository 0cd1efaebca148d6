"""trouper with many actors that write to each other: fan-in, Big, Chameneos, and a whole troupe."""

from __future__ import annotations

from collections.abc import Iterator

from _kit.sample import Sample, Stopwatch
from trouper import Actor, Ref, handles, open_system

from .crowd import others, shares
from .gate import POKE, Poke, Tally, on_trio


class Sink(Actor[Poke]):
    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @handles(Poke)
    async def poke(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


class Source(Actor[Poke]):
    def __init__(self, sink: Ref[Poke], count: int) -> None:
        self.sink = sink
        self.count = count

    @handles(Poke)
    async def poke(self, message: Poke) -> None:
        for _ in range(self.count):
            self.sink.tell(POKE)


async def fan_in(ops: int, actors: int) -> Sample:
    tally, count = Tally(), shares(ops, actors)
    async with open_system("bench") as system:
        sink = await system.spawn(Sink, tally, mailbox=count * actors)
        sources = [await system.spawn(Source, sink, count) for _ in range(actors)]
        tally.expect(count * actors)
        with Stopwatch() as watch:
            for source in sources:
                source.tell(POKE)
            await tally.done.wait()
    return watch.sample(count * actors)


class Ping:
    __slots__ = ("sender",)

    def __init__(self, sender: Ref[Pong]) -> None:
        self.sender = sender


class Pong:
    __slots__ = ()


PONG = Pong()


class Player(Actor[Ping | Pong]):
    refs: list[Ref[Ping | Pong]]
    ping: Ping

    def __init__(self, tally: Tally, left: int, whom: Iterator[int]) -> None:
        self.tally = tally
        self.left = left
        self.whom = whom

    @handles(Ping)
    async def pinged(self, message: Ping) -> None:
        message.sender.tell(PONG)

    @handles(Pong)
    async def ponged(self, message: Pong) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()
        self.left -= 1
        if self.left:
            self.refs[next(self.whom)].tell(self.ping)


async def big(ops: int, actors: int) -> Sample:
    tally, count = Tally(), shares(ops, actors)
    players: list[Player] = []

    def make() -> Player:
        players.append(Player(tally, count, others(len(players), actors)))
        return players[-1]

    async with open_system("bench") as system:
        refs = [await system.spawn(make) for _ in range(actors)]
        for player, ref in zip(players, refs, strict=True):
            player.refs, player.ping = refs, Ping(ref)
        tally.expect(count * actors)
        with Stopwatch() as watch:
            for i, player in enumerate(players):
                refs[(i + 1) % actors].tell(player.ping)
            await tally.done.wait()
    return watch.sample(count * actors)


class Meet:
    __slots__ = ("creature",)

    def __init__(self, creature: Ref[Met]) -> None:
        self.creature = creature


class Met:
    __slots__ = ()


MET = Met()


class Place(Actor[Meet]):
    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.first: Ref[Met] | None = None

    @handles(Meet)
    async def meet(self, message: Meet) -> None:
        first, tally = self.first, self.tally
        if first is None:
            self.first = message.creature
            return
        self.first = None
        tally.left -= 1
        if tally.left <= 0:
            tally.done.set()
            return
        first.tell(MET)
        message.creature.tell(MET)


class Creature(Actor[Met]):
    meet: Meet

    def __init__(self, place: Ref[Meet]) -> None:
        self.place = place

    @handles(Met)
    async def met(self, message: Met) -> None:
        self.place.tell(self.meet)


async def chameneos(ops: int, actors: int) -> Sample:
    tally, creatures = Tally(), list[Creature]()
    async with open_system("bench") as system:
        place = await system.spawn(Place, tally)

        def make() -> Creature:
            creatures.append(Creature(place))
            return creatures[-1]

        refs = [await system.spawn(make) for _ in range(actors)]
        for creature, ref in zip(creatures, refs, strict=True):
            creature.meet = Meet(ref)
        tally.expect(ops)
        with Stopwatch() as watch:
            for ref in refs:
                ref.tell(MET)
            await tally.done.wait()
    return watch.sample(ops)


async def troupe(ops: int, actors: int) -> Sample:
    """Open a system, start so many actors, and leave the block: every one stops in order."""
    with Stopwatch() as watch:
        async with open_system("bench") as system:
            for _ in range(ops):
                await system.spawn(Creature, None)  # type: ignore[arg-type]
    return watch.sample(ops)


BENCHES = {
    "fan-in": on_trio(fan_in),
    "big": on_trio(big),
    "chameneos": on_trio(chameneos),
    "troupe": on_trio(troupe),
}

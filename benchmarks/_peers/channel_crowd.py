"""The crowd benches with a task per actor that reads a memory channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import trio
import trio.testing

from _kit.sample import Sample, Stopwatch

from .crowd import others, shares
from .gate import POKE, Tally, on_trio

CAPACITY = 1024


class Reader:
    """A task's state and its channel."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.send, self.receive = trio.open_memory_channel[Any](capacity)

    async def run(self) -> None:
        async for message in self.receive:
            await self.handle(message)

    async def handle(self, message: Any) -> None:
        """Do nothing: a bystander."""


class Sink(Reader):
    def __init__(self, tally: Tally, capacity: int) -> None:
        super().__init__(capacity)
        self.tally = tally

    async def handle(self, message: Any) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


class Source(Reader):
    def __init__(self, sink: Sink, count: int) -> None:
        super().__init__()
        self.sink, self.count = sink, count

    async def handle(self, message: Any) -> None:
        for _ in range(self.count):
            self.sink.send.send_nowait(POKE)


async def fan_in(ops: int, actors: int) -> Sample:
    tally, count = Tally(), shares(ops, actors)
    async with trio.open_nursery() as nursery:
        sink = Sink(tally, count * actors)
        nursery.start_soon(sink.run)
        sources = [Source(sink, count) for _ in range(actors)]
        for source in sources:
            nursery.start_soon(source.run)
        tally.expect(count * actors)
        with Stopwatch() as watch:
            for source in sources:
                source.send.send_nowait(POKE)
            await tally.done.wait()
        nursery.cancel_scope.cancel()
    return watch.sample(count * actors)


class Player(Reader):
    players: list[Player]

    def __init__(self, tally: Tally, left: int, whom: Iterator[int]) -> None:
        super().__init__()
        self.tally, self.left, self.whom = tally, left, whom

    async def handle(self, message: Player | None) -> None:
        if message is not None:
            message.send.send_nowait(None)
            return
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()
        self.left -= 1
        if self.left:
            self.players[next(self.whom)].send.send_nowait(self)


async def big(ops: int, actors: int) -> Sample:
    tally, count = Tally(), shares(ops, actors)
    players = [Player(tally, count, others(i, actors)) for i in range(actors)]
    async with trio.open_nursery() as nursery:
        for player in players:
            player.players = players
            nursery.start_soon(player.run)
        tally.expect(count * actors)
        with Stopwatch() as watch:
            for i, player in enumerate(players):
                players[(i + 1) % actors].send.send_nowait(player)
            await tally.done.wait()
        nursery.cancel_scope.cancel()
    return watch.sample(count * actors)


class Place(Reader):
    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally
        self.first: Creature | None = None

    async def handle(self, message: Creature) -> None:
        first, tally = self.first, self.tally
        if first is None:
            self.first = message
            return
        self.first = None
        tally.left -= 1
        if tally.left <= 0:
            tally.done.set()
            return
        first.send.send_nowait(None)
        message.send.send_nowait(None)


class Creature(Reader):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    async def handle(self, message: None) -> None:
        self.place.send.send_nowait(self)


async def chameneos(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        place = Place(tally)
        creatures = [Creature(place) for _ in range(actors)]
        for reader in (place, *creatures):
            nursery.start_soon(reader.run)
        tally.expect(ops)
        with Stopwatch() as watch:
            for creature in creatures:
                creature.send.send_nowait(None)
            await tally.done.wait()
        nursery.cancel_scope.cancel()
    return watch.sample(ops)


async def troupe(ops: int, actors: int) -> Sample:
    """Start so many tasks, let each reach its channel, close all channels, leave the block."""
    with Stopwatch() as watch:
        async with trio.open_nursery() as nursery:
            readers = [Reader() for _ in range(ops)]
            for reader in readers:
                nursery.start_soon(reader.run)
            await trio.testing.wait_all_tasks_blocked()
            for reader in readers:
                reader.send.close()
    return watch.sample(ops)


BENCHES = {
    "fan-in": on_trio(fan_in),
    "big": on_trio(big),
    "chameneos": on_trio(chameneos),
    "troupe": on_trio(troupe),
}

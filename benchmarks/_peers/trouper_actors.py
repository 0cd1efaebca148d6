"""trouper through its public surface, as a program would use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from _kit.sample import Sample, Scales, Stopwatch
from trouper import Actor, Ref, Request, handles, open_system

from .gate import POKE, Poke, Tally, bursts, on_trio
from .trouper_crowd import BENCHES as CROWD


class Question(Request[int]):
    __slots__ = ()


class Counter(Actor[Poke | Question]):
    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @handles(Poke)
    async def poke(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()

    @handles(Question)
    async def question(self, message: Question) -> int:
        return 7


class PlainCounter(Actor[Poke | Question]):
    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @handles(Poke)
    def poke(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()

    @handles(Question)
    def question(self, message: Question) -> int:
        return 7


class Blocking(Actor[Poke]):
    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @handles(Poke)
    async def poke(self, message: Poke) -> None:
        await trio.lowlevel.checkpoint()
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


class Node(Actor[Poke]):
    next: Ref[Poke]

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @handles(Poke)
    async def poke(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if tally.left:
            self.next.tell(message)
        else:
            tally.done.set()


class Bystander(Actor[Poke]):
    __slots__ = ()  # as the leanest peer has

    @handles(Poke)
    async def poke(self, message: Poke) -> None: ...


async def tell(ops: int, actors: int, kind: Callable[[Tally], Actor[Any]]) -> Sample:
    tally = Tally()
    async with open_system("bench") as system:
        refs = [await system.spawn(kind, tally) for _ in range(actors)]
        return await bursts(ops, [ref.tell for ref in refs], tally)


async def ring(ops: int, actors: int) -> Sample:
    tally = Tally()
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node(tally))
        return nodes[-1]

    async with open_system("bench") as system:
        refs = [await system.spawn(make) for _ in range(actors)]
        for i, node in enumerate(nodes):
            node.next = refs[(i + 1) % actors]
        tally.expect(ops)
        with Stopwatch() as watch:
            refs[0].tell(POKE)
            await tally.done.wait()
    return watch.sample(ops)


async def ask(ops: int, actors: int, kind: type[Counter | PlainCounter]) -> Sample:
    async with open_system("bench") as system:
        ref = await system.spawn(kind, Tally())
        question = Question()
        with Stopwatch() as watch:
            for _ in range(ops):
                assert await ref.ask(question) == 7
    return watch.sample(ops)


async def spawn(ops: int, actors: int) -> Sample:
    """Spawn, tell, wait until it is handled, stop; so many actors alive at once."""
    times = max(ops // actors, 1)
    tally = Tally()
    async with open_system("bench") as system:
        with Stopwatch() as watch:
            for _ in range(times):
                tally.expect(actors)
                refs = []
                for _ in range(actors):
                    ref = await system.spawn(Counter, tally)
                    ref.tell(POKE)
                    refs.append(ref)
                await tally.done.wait()
                for ref in refs:
                    ref.stop()
                await ref.stopped()
        assert system.statistics().actors == 0
    return watch.sample(times * actors)


async def drained(ops: int, actors: int) -> Sample:
    """Spawn, tell, and let it end by itself once the message is handled."""
    times = max(ops // actors, 1)
    async with open_system("bench") as system:
        with Stopwatch() as watch:
            for _ in range(times):
                refs = []
                for _ in range(actors):
                    ref = await system.spawn(Bystander)
                    ref.tell(POKE)
                    ref.drain()
                    refs.append(ref)
                await refs[-1].stopped()
        assert system.statistics().dead_letters == 0
    return watch.sample(times * actors)


async def send(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with open_system("bench") as system:
        ref = await system.spawn(Counter, tally, mailbox=64)
        tally.expect(ops)
        with Stopwatch() as watch:
            for _ in range(ops):
                await ref.send(POKE)
            await tally.done.wait()
    return watch.sample(ops)


async def idle(ops: int, actors: int) -> Sample:
    """Memory per actor that was told ``ops`` messages each."""
    async with open_system("bench") as system:
        first = [await system.spawn(Bystander) for _ in range(100)]
        scales = Scales()
        refs = [await system.spawn(Bystander) for _ in range(actors)]
        for _ in range(ops):
            for ref in refs:
                ref.tell(POKE)
            await trio.testing.wait_all_tasks_blocked()
        sample = scales.sample(actors)
        assert system.statistics().actors == actors + len(first)
    return sample


BENCHES = CROWD | {
    "tell": on_trio(tell, Counter),
    "tell-plain": on_trio(tell, PlainCounter),
    "blocking": on_trio(tell, Blocking),
    "ring": on_trio(ring),
    "ask": on_trio(ask, Counter),
    "ask-plain": on_trio(ask, PlainCounter),
    "spawn": on_trio(spawn),
    "drain": on_trio(drained),
    "send": on_trio(send),
    "idle": on_trio(idle),
}

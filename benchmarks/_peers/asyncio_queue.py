"""The same by hand on asyncio: a task per actor that reads an ``asyncio.Queue``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from _kit.sample import Sample, Stopwatch

from .gate import POKE, Poke, spread

CAPACITY = 1024


class Tally:
    """Counts down to the end of a burst."""

    __slots__ = ("done", "left")

    def __init__(self) -> None:
        self.left = 0
        self.done = asyncio.Event()

    def expect(self, count: int) -> None:
        """Begin to count."""
        self.left = count
        self.done = asyncio.Event()


class Counter:
    def __init__(self, tally: Tally, capacity: int = CAPACITY) -> None:
        self.tally = tally
        self.mail: asyncio.Queue[Any] = asyncio.Queue(capacity)

    async def run(self) -> None:
        while (message := await self.mail.get()) is not None:
            await self.poke(message)

    async def run_plain(self) -> None:
        while (message := await self.mail.get()) is not None:
            self.plain(message)

    async def poke(self, message: Poke) -> None:
        self.plain(message)

    def plain(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


class Node(Counter):
    next: Node

    async def poke(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if tally.left:
            self.next.mail.put_nowait(message)
        else:
            tally.done.set()


class Oracle(Counter):
    async def poke(self, message: Any) -> None:
        message.set_result(await self.question(message))

    def plain(self, message: Any) -> None:
        message.set_result(self.question_plain(message))

    async def question(self, message: Any) -> int:
        return 7

    def question_plain(self, message: Any) -> int:
        return 7


Loop = Callable[[Any], Any]


async def tell(ops: int, actors: int, loop: Loop) -> Sample:
    tally = Tally()
    made = [Counter(tally) for _ in range(actors)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop(actor)) for actor in made]
        calls = spread(ops, [actor.mail.put_nowait for actor in made])
        times = max(ops // len(calls), 1)
        with Stopwatch() as watch:
            for _ in range(times):
                tally.expect(len(calls))
                for put in calls:
                    put(POKE)
                await tally.done.wait()
        for task in tasks:
            task.cancel()
    return watch.sample(times * len(calls))


async def ring(ops: int, actors: int) -> Sample:
    tally = Tally()
    nodes = [Node(tally) for _ in range(actors)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(node.run()) for node in nodes]
        for i, node in enumerate(nodes):
            node.next = nodes[(i + 1) % actors]
        await asyncio.sleep(0)
        tally.expect(ops)
        with Stopwatch() as watch:
            nodes[0].mail.put_nowait(POKE)
            await tally.done.wait()
        for task in tasks:
            task.cancel()
    return watch.sample(ops)


async def ask(ops: int, actors: int, loop: Loop) -> Sample:
    oracle = Oracle(Tally())
    make = asyncio.get_running_loop().create_future
    async with asyncio.TaskGroup() as group:
        task = group.create_task(loop(oracle))
        with Stopwatch() as watch:
            for _ in range(ops):
                question = make()
                oracle.mail.put_nowait(question)
                assert await question == 7
        task.cancel()
    return watch.sample(ops)


async def spawn(ops: int, actors: int) -> Sample:
    times = max(ops // actors, 1)
    tally = Tally()
    with Stopwatch() as watch:
        for _ in range(times):
            tally.expect(actors)
            async with asyncio.TaskGroup() as group:
                made = []
                for _ in range(actors):
                    actor = Counter(tally)
                    group.create_task(actor.run())
                    actor.mail.put_nowait(POKE)
                    made.append(actor)
                await tally.done.wait()
                for actor in made:
                    actor.mail.put_nowait(None)
    return watch.sample(times * actors)


async def send(ops: int, actors: int) -> Sample:
    tally = Tally()
    actor = Counter(tally, 64)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(actor.run())
        tally.expect(ops)
        with Stopwatch() as watch:
            for _ in range(ops):
                await actor.mail.put(POKE)
            await tally.done.wait()
        task.cancel()
    return watch.sample(ops)


def on_asyncio(bench: Callable[..., Any], *args: Any) -> Callable[[int, int], Sample]:
    """Make a plain bench of an async one: a fresh event loop each time."""

    def run(ops: int, actors: int) -> Sample:
        sample: Sample = asyncio.run(bench(ops, actors, *args))
        return sample

    return run


BENCHES = {
    "tell": on_asyncio(tell, Counter.run),
    "tell-plain": on_asyncio(tell, Counter.run_plain),
    "ring": on_asyncio(ring),
    "ask": on_asyncio(ask, Oracle.run),
    "ask-plain": on_asyncio(ask, Oracle.run_plain),
    "spawn": on_asyncio(spawn),
    "drain": on_asyncio(spawn),
    "send": on_asyncio(send),
}

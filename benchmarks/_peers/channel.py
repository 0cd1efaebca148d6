"""What one writes on trio without actors: a task per actor that reads a memory channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from _kit.sample import Sample, Scales, Stopwatch

from .channel_crowd import BENCHES as CROWD
from .gate import POKE, Poke, Tally, bursts, on_trio

CAPACITY = 1024  # the same as trouper's default mailbox


class Counter:
    def __init__(self, tally: Tally, capacity: int = CAPACITY) -> None:
        self.tally = tally
        self.send, self.receive = trio.open_memory_channel[Any](capacity)

    async def run(self) -> None:
        async for message in self.receive:
            await self.poke(message)

    async def run_plain(self) -> None:
        async for message in self.receive:
            self.plain(message)

    async def poke(self, message: Poke) -> None:
        self.plain(message)

    def plain(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


class Blocking(Counter):
    async def poke(self, message: Poke) -> None:
        await trio.lowlevel.checkpoint()
        self.plain(message)


class Node(Counter):
    next: Node

    async def poke(self, message: Poke) -> None:
        tally = self.tally
        tally.left -= 1
        if tally.left:
            self.next.send.send_nowait(message)
        else:
            tally.done.set()


class Oracle(Counter):
    """Answers into a channel that came with the request."""

    async def poke(self, message: Any) -> None:
        question, reply = message
        reply.send_nowait(await self.question(question))

    def plain(self, message: Any) -> None:
        question, reply = message
        reply.send_nowait(self.question_plain(question))

    async def question(self, message: Poke) -> int:
        return 7

    def question_plain(self, message: Poke) -> int:
        return 7


Loop = Callable[[Any], Any]


async def tell(ops: int, actors: int, kind: type[Counter], loop: Loop) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        made = [kind(tally) for _ in range(actors)]
        for actor in made:
            nursery.start_soon(loop, actor)
        sample = await bursts(ops, [actor.send.send_nowait for actor in made], tally)
        nursery.cancel_scope.cancel()
    return sample


async def ring(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        nodes = [Node(tally) for _ in range(actors)]
        for i, node in enumerate(nodes):
            node.next = nodes[(i + 1) % actors]
            nursery.start_soon(node.run)
        await trio.testing.wait_all_tasks_blocked()
        tally.expect(ops)
        with Stopwatch() as watch:
            nodes[0].send.send_nowait(POKE)
            await tally.done.wait()
        nursery.cancel_scope.cancel()
    return watch.sample(ops)


async def ask(ops: int, actors: int, loop: Loop) -> Sample:
    async with trio.open_nursery() as nursery:
        oracle = Oracle(Tally())
        nursery.start_soon(loop, oracle)
        with Stopwatch() as watch:
            for _ in range(ops):
                reply, answer = trio.open_memory_channel[int](1)
                oracle.send.send_nowait((POKE, reply))
                assert await answer.receive() == 7
        nursery.cancel_scope.cancel()
    return watch.sample(ops)


async def spawn(ops: int, actors: int) -> Sample:
    times = max(ops // actors, 1)
    tally = Tally()
    with Stopwatch() as watch:
        for _ in range(times):
            tally.expect(actors)
            async with trio.open_nursery() as nursery:
                made = []
                for _ in range(actors):
                    actor = Counter(tally)
                    nursery.start_soon(actor.run)
                    actor.send.send_nowait(POKE)
                    made.append(actor)
                await tally.done.wait()
                for actor in made:
                    actor.send.close()
    return watch.sample(times * actors)


async def send(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        actor = Counter(tally, 64)
        nursery.start_soon(actor.run)
        tally.expect(ops)
        with Stopwatch() as watch:
            for _ in range(ops):
                await actor.send.send(POKE)
            await tally.done.wait()
        nursery.cancel_scope.cancel()
    return watch.sample(ops)


async def idle(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        scales = Scales()
        made = [Counter(tally) for _ in range(actors)]
        for actor in made:
            nursery.start_soon(actor.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(ops):
            for actor in made:
                actor.send.send_nowait(POKE)
            await trio.testing.wait_all_tasks_blocked()
        sample = scales.sample(actors)
        nursery.cancel_scope.cancel()
    return sample


BENCHES = CROWD | {
    "tell": on_trio(tell, Counter, Counter.run),
    "tell-plain": on_trio(tell, Counter, Counter.run_plain),
    "blocking": on_trio(tell, Blocking, Blocking.run),
    "ring": on_trio(ring),
    "ask": on_trio(ask, Oracle.run),
    "ask-plain": on_trio(ask, Oracle.run_plain),
    "spawn": on_trio(spawn),
    "drain": on_trio(spawn),
    "send": on_trio(send),
    "idle": on_trio(idle),
}

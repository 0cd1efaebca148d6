"""thespian on its simple base: every actor in this one thread, a handler runs in its sender's call.

Its other bases give each actor an OS process, which is another kind of thing. Plain handlers only;
actors take no constructor arguments, so the count is a global.
"""

from __future__ import annotations

from typing import Any

from thespian.actors import Actor, ActorExitRequest, ActorSystem

from _kit.sample import Sample, Stopwatch

from .crowd import shares
from .gate import POKE, spread

QUIET = {"version": 1, "disable_existing_loggers": True, "root": {"level": "ERROR"}}
SYSTEM: Any = ActorSystem("simpleSystemBase", logDefs=QUIET)


class Left:
    """What is left of a burst; everything is handled when the call that sent it returns."""

    count = 0


class Counter(Actor):
    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message is POKE:
            Left.count -= 1


class Oracle(Actor):
    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message is POKE:
            self.send(sender, 7)


class Node(Actor):
    next: Any = None

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message is POKE:
            Left.count -= 1
            if Left.count:
                self.send(self.next, message)
        elif isinstance(message, tuple):
            (self.next,) = message


class Source(Actor):
    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(message, tuple):
            sink, count = message
            for _ in range(count):
                self.send(sink, POKE)


def end(refs: list[Any]) -> None:
    for ref in refs:
        SYSTEM.tell(ref, ActorExitRequest())


def tell(ops: int, actors: int) -> Sample:
    ref = SYSTEM.createActor(Counter)
    calls = spread(ops, [lambda message: SYSTEM.tell(ref, message)])
    times = max(ops // len(calls), 1)
    with Stopwatch() as watch:
        for _ in range(times):
            Left.count = len(calls)
            for put in calls:
                put(POKE)
            assert Left.count == 0
    end([ref])
    return watch.sample(times * len(calls))


def ring(ops: int, actors: int) -> Sample:
    nodes = [SYSTEM.createActor(Node) for _ in range(actors)]
    for i, node in enumerate(nodes):
        SYSTEM.tell(node, (nodes[(i + 1) % actors],))
    Left.count = ops
    with Stopwatch() as watch:
        SYSTEM.tell(nodes[0], POKE)
        assert Left.count == 0
    end(nodes)
    return watch.sample(ops)


def ask(ops: int, actors: int) -> Sample:
    ref = SYSTEM.createActor(Oracle)
    with Stopwatch() as watch:
        for _ in range(ops):
            assert SYSTEM.ask(ref, POKE) == 7
    end([ref])
    return watch.sample(ops)


def spawn(ops: int, actors: int) -> Sample:
    times = max(ops // actors, 1)
    with Stopwatch() as watch:
        for _ in range(times):
            refs = []
            for _ in range(actors):
                ref = SYSTEM.createActor(Counter)
                SYSTEM.tell(ref, POKE)
                refs.append(ref)
            end(refs)
    return watch.sample(times * actors)


def fan_in(ops: int, actors: int) -> Sample:
    count = shares(ops, actors)
    sink = SYSTEM.createActor(Counter)
    sources = [SYSTEM.createActor(Source) for _ in range(actors)]
    Left.count = count * actors
    with Stopwatch() as watch:
        for source in sources:
            SYSTEM.tell(source, (sink, count))
        assert Left.count == 0
    end([sink, *sources])
    return watch.sample(count * actors)


BENCHES = {
    "tell-plain": tell,
    "ring": ring,
    "ask-plain": ask,
    "spawn": spawn,
    "fan-in": fan_in,
}

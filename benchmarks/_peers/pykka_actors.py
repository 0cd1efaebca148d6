"""pykka: a thread per actor, plain handlers only."""

from __future__ import annotations

import threading
from typing import Any

import pykka

from _kit.sample import Sample, Stopwatch

from .gate import POKE, spread
from .pykka_crowd import BENCHES as CROWD


class Tally:
    """Counts down to the end of a burst; written by one actor at a time."""

    __slots__ = ("done", "left")

    def __init__(self) -> None:
        self.left = 0
        self.done = threading.Event()

    def expect(self, count: int) -> None:
        """Begin to count."""
        self.left = count
        self.done.clear()


class Counter(pykka.ThreadingActor):
    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally

    def on_receive(self, message: Any) -> Any:
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


class Node(pykka.ThreadingActor):
    def __init__(self, tally: Tally, nodes: list[Any], at: int) -> None:
        super().__init__()
        self.tally, self.nodes, self.at = tally, nodes, at

    def on_receive(self, message: Any) -> Any:
        tally = self.tally
        tally.left -= 1
        if tally.left:
            self.nodes[self.at].tell(message)
        else:
            tally.done.set()


class Oracle(pykka.ThreadingActor):
    def on_receive(self, message: Any) -> Any:
        return 7


def tell(ops: int, actors: int) -> Sample:
    tally = Tally()
    ref = Counter.start(tally)
    calls = spread(ops, [ref.tell])
    times = max(ops // len(calls), 1)
    with Stopwatch() as watch:
        for _ in range(times):
            tally.expect(len(calls))
            for put in calls:
                put(POKE)
            tally.done.wait()
    pykka.ActorRegistry.stop_all()
    return watch.sample(times * len(calls))


def ring(ops: int, actors: int) -> Sample:
    tally, nodes = Tally(), list[Any]()
    for i in range(actors):
        nodes.append(Node.start(tally, nodes, (i + 1) % actors))
    tally.expect(ops)
    with Stopwatch() as watch:
        nodes[0].tell(POKE)
        tally.done.wait()
    pykka.ActorRegistry.stop_all()
    return watch.sample(ops)


def ask(ops: int, actors: int) -> Sample:
    ref = Oracle.start()
    with Stopwatch() as watch:
        for _ in range(ops):
            assert ref.ask(POKE) == 7
    pykka.ActorRegistry.stop_all()
    return watch.sample(ops)


def spawn(ops: int, actors: int) -> Sample:
    times = max(ops // actors, 1)
    with Stopwatch() as watch:
        for _ in range(times):
            refs = []
            for _ in range(actors):
                ref = Oracle.start()
                ref.tell(POKE)
                refs.append(ref)
            ends = [ref.stop(block=False) for ref in refs]
            for end in ends:
                end.get()
    return watch.sample(times * actors)


BENCHES = CROWD | {
    "tell": tell,
    "tell-plain": tell,
    "ring": ring,
    "ask": ask,
    "ask-plain": ask,
    "spawn": spawn,
    "drain": spawn,
}

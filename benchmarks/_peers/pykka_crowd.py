"""The crowd benches that pykka has a target for: fan-in and Big."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pykka

from _kit.sample import Sample, Stopwatch

from .crowd import others, shares
from .gate import POKE


class Sink(pykka.ThreadingActor):
    def __init__(self, left: int, done: threading.Event) -> None:
        super().__init__()
        self.left, self.done = left, done

    def on_receive(self, message: Any) -> Any:
        self.left -= 1
        if not self.left:
            self.done.set()


class Source(pykka.ThreadingActor):
    def __init__(self, sink: Any, count: int) -> None:
        super().__init__()
        self.sink, self.count = sink, count

    def on_receive(self, message: Any) -> Any:
        for _ in range(self.count):
            self.sink.tell(POKE)


def fan_in(ops: int, actors: int) -> Sample:
    count, done = shares(ops, actors), threading.Event()
    sink = Sink.start(count * actors, done)
    sources = [Source.start(sink, count) for _ in range(actors)]
    with Stopwatch() as watch:
        for source in sources:
            source.tell(POKE)
        done.wait()
    pykka.ActorRegistry.stop_all()
    return watch.sample(count * actors)


class Player(pykka.ThreadingActor):
    def __init__(self, refs: list[Any], left: int, whom: Iterator[int], sink: Any) -> None:
        super().__init__()
        self.refs, self.left, self.whom, self.sink = refs, left, whom, sink

    def on_receive(self, message: Any) -> Any:
        if message is not None:
            message.tell(None)
            return
        self.left -= 1
        if self.left:
            self.refs[next(self.whom)].tell(self.actor_ref)
        else:
            self.sink.tell(POKE)  # one count at the end: a shared one would need a lock


def big(ops: int, actors: int) -> Sample:
    count, done, refs = shares(ops, actors), threading.Event(), list[Any]()
    sink = Sink.start(actors, done)
    for i in range(actors):
        refs.append(Player.start(refs, count, others(i, actors), sink))
    with Stopwatch() as watch:
        for i, ref in enumerate(refs):
            refs[(i + 1) % actors].tell(ref)
        done.wait()
    pykka.ActorRegistry.stop_all()
    return watch.sample(count * actors)


BENCHES = {"fan-in": fan_in, "big": big}

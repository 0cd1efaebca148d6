"""How the systems on trio are driven: bursts, and a count that opens a gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec

import trio

from _kit.sample import Sample, Stopwatch

P = ParamSpec("P")

BURST = 1000  # fits the default mailbox


class Poke:
    """A message that says nothing."""

    __slots__ = ()


POKE = Poke()


class Tally:
    """Counts down to the end of a burst."""

    __slots__ = ("done", "left")

    def __init__(self) -> None:
        self.left = 0
        self.done = trio.Event()

    def expect(self, count: int) -> None:
        """Begin to count."""
        self.left = count
        self.done = trio.Event()


def spread(ops: int, puts: Sequence[Callable[[Poke], Any]]) -> list[Callable[[Poke], Any]]:
    """Return the calls of one burst: round robin over the actors, at least one each."""
    burst = max(min(BURST, ops), len(puts))
    return [puts[i % len(puts)] for i in range(burst)]


async def bursts(ops: int, puts: Sequence[Callable[[Poke], Any]], tally: Tally) -> Sample:
    """Put messages in, in bursts, each waited for."""
    calls = spread(ops, puts)
    times = max(ops // len(calls), 1)
    with Stopwatch() as watch:
        for _ in range(times):
            tally.expect(len(calls))
            for put in calls:
                put(POKE)
            await tally.done.wait()
    return watch.sample(times * len(calls))


def on_trio(
    bench: Callable[Concatenate[int, int, P], Awaitable[Sample]], *args: P.args, **kwargs: P.kwargs
) -> Callable[[int, int], Sample]:
    """Make a plain bench of an async one: a fresh event loop each time."""

    def run(ops: int, actors: int) -> Sample:
        return trio.run(lambda: bench(ops, actors, *args, **kwargs))

    return run


async def closed_loop(
    asks: Sequence[Callable[[], Awaitable[Any]]], times: int, watch: Stopwatch
) -> Sample:
    """Let each of them ask in a task of its own, so many times, with one request outstanding.

    The clock runs from when all have asked once and wait at the gate until the last has its last
    answer: what it costs to start a task, and to end it, is not what a request costs.
    """
    going, waiting = len(asks), len(asks)
    ready, gate, done = trio.Event(), trio.Event(), trio.Event()

    async def asker(ask: Callable[[], Awaitable[Any]]) -> None:
        nonlocal going, waiting
        await ask()
        waiting -= 1
        if not waiting:
            ready.set()
        await gate.wait()
        for _ in range(times):
            await ask()
        going -= 1
        if not going:
            done.set()

    async with trio.open_nursery() as nursery:
        for ask in asks:
            nursery.start_soon(asker, ask)
        await ready.wait()
        with watch:
            gate.set()
            await done.wait()
    return watch.sample(times * len(asks))

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

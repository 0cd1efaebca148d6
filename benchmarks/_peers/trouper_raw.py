"""The loads of the explorer on the runtime as it is: one system after another, each to its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio
import trio.testing

from _kit.sample import Sample, Stopwatch
from trouper import MemoryStore, open_system

from .loads import DELIVERIES, LOADS


def run(load: str, ops: int, actors: int) -> Sample:
    """Play the load until there were about so many deliveries."""
    systems = max(ops // DELIVERIES[load], 1)

    async def main() -> None:
        async with open_system("raw", store=MemoryStore()) as system:
            await LOADS[load](system)
            await trio.testing.wait_all_tasks_blocked()

    with Stopwatch() as watch:
        for _ in range(systems):
            trio.run(main)
    return watch.sample(systems * DELIVERIES[load])


BENCHES: dict[str, Callable[[int, int], Sample]] = {load: partial(run, load) for load in LOADS}

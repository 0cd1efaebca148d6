"""The same loads, each delivery chosen by the explorer: one schedule after another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial

from _kit.sample import Sample, Stopwatch
from trouper.testing import Rules, Simulation, explore

from .loads import DELIVERIES, LOADS

ENDLESS = Rules(fair_after=100_000, max_steps=100_000)


def run(load: str, ops: int, actors: int) -> Sample:
    """Explore random schedules until there were about so many deliveries."""
    schedules = max(ops // DELIVERIES[load], 1)

    async def scenario(sim: Simulation) -> AsyncGenerator[None, None]:
        await LOADS[load](sim.system)
        yield

    with Stopwatch() as watch:
        report = explore(scenario, strategy="walk", budget=schedules, rules=ENDLESS)
    assert (report.schedules, report.failures) == (schedules, 0)
    return watch.sample(schedules * DELIVERIES[load])


BENCHES: dict[str, Callable[[int, int], Sample]] = {load: partial(run, load) for load in LOADS}

"""What the checkers must refuse of tests that play schedules: each marked line, no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

from trouper.testing import Rules, Simulation, explore, schedule_test, simulate


async def scenario(sim: Simulation) -> AsyncIterator[None]:
    yield


async def without_a_yield(sim: Simulation) -> None: ...


async def without_a_simulation() -> AsyncIterator[None]:
    yield


@schedule_test()
async def with_fixtures(sim: Simulation, count: int) -> AsyncIterator[None]:
    yield


def refused() -> None:
    explore(without_a_yield)  # E1
    explore(without_a_simulation)  # E2
    explore(scenario, rules=Rules(time="never"))  # E3
    explore(scenario, budgett=3)  # E4
    with_fixtures("three")  # E5
    with_fixtures(scenario, 3)  # E6
    schedule_test(100)  # E7
    schedule_test()(without_a_yield)  # E8
    with simulate(scenario) as sim:
        sim.deliver(3)  # E9

"""What the checkers must infer for tests that play schedules. Checked, not run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import assert_type

from hypothesis import given
from hypothesis import strategies as st

from trouper.testing import (
    Failure,
    Options,
    Report,
    Rules,
    Simulation,
    Steering,
    explore,
    replay,
    schedule_test,
    simulate,
)
from trouper.testing.hypothesis import Schedule, schedules
from trouper.testing.schedules import Event


async def scenario(sim: Simulation) -> AsyncIterator[None]:
    yield


def explored() -> None:
    report = explore(scenario, strategy="dfs", budget=10, rules=Rules(time="anytime"))
    assert_type(report, Report)
    assert_type(report.first_failure, Failure | None)
    assert_type(report.check(), None)


@schedule_test()
async def plain(sim: Simulation) -> AsyncGenerator[None, None]:
    yield


@schedule_test
async def unadorned(sim: Simulation, tmp_path: Path, count: int = 3) -> AsyncIterator[None]:
    yield


@schedule_test(schedules=20, options=Options(mailbox=8))
@replay("T1.token")
async def with_fixtures(sim: Simulation, tmp_path: Path, count: int = 3) -> AsyncIterator[None]:
    yield


@replay("T1.token")
@schedule_test(strategy="pct:2", seed=7)
async def replayed(sim: Simulation, tmp_path: Path) -> AsyncIterator[None]:
    yield


class Together:
    @schedule_test()
    async def one(self, sim: Simulation, count: int) -> AsyncIterator[None]:
        yield

    @schedule_test
    async def two(self, sim: Simulation, count: int) -> AsyncIterator[None]:
        yield


assert_type(plain, Callable[[], None])
assert_type(plain(), None)
assert_type(with_fixtures(Path(), count=2), None)
assert_type(replayed(Path()), None)
assert_type(Together().one(3), None)
assert_type(Together().two(3), None)
assert_type(unadorned(Path(), count=2), None)


def by_hand() -> None:
    with simulate(scenario, seed=7) as sim:
        assert_type(sim, Steering)
        assert_type(sim.pending(), tuple[Event, ...])
        assert_type(sim.deliver("store", sender="d1"), Event)
        assert_type(sim.token, str)


@given(schedules(), st.lists(st.integers()))
def drawn(schedule: Schedule, numbers: list[int]) -> None:
    assert_type(schedule.check(scenario), None)

"""Schedules that Hypothesis draws: it owns the data, we own the order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextvars import Context
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, example, find, given, settings

from trouper.actors import Actor, handles
from trouper.errors import OptionRefused, TokenForeign, UnknownStrategy
from trouper.testing import Simulation, explore
from trouper.testing.hypothesis import Schedule, schedules

quick = settings(
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)


class Door(Actor[str]):
    def __init__(self, onward: Any) -> None:
        self.onward = onward

    @handles(str)
    def on(self, word: str) -> None:
        self.onward(word)


async def told(sim: Simulation, doors: int = 1) -> list[str]:
    heard: list[str] = []
    shop = far = await sim.system.spawn(Door, heard.append, name="shop")
    near = await sim.system.spawn(Door, shop.tell, name="near")
    for n in range(doors + 1):
        far = await sim.system.spawn(Door, far.tell, name=f"far{n}")
    near.tell("order")
    far.tell("close")
    return heard


async def racy(sim: Simulation) -> AsyncIterator[None]:
    heard = await told(sim)
    yield
    assert heard == ["order", "close"]


@pytest.mark.proves("Schedules: Hypothesis")
def test_one_run_of_hypothesis_plays_more_than_one_schedule() -> None:
    orders: set[tuple[str, ...]] = set()

    @quick
    @given(schedules())
    def test(schedule: Schedule) -> None:
        async def scenario(sim: Simulation) -> AsyncIterator[None]:
            heard = await told(sim)
            yield
            orders.add(tuple(heard))

        schedule.check(scenario)

    test()
    assert orders == {("order", "close"), ("close", "order")}


@pytest.mark.proves("Schedules: Hypothesis")
def test_the_smallest_data_come_with_the_smallest_order() -> None:
    @quick
    @given(schedules(), st.integers(0, 3), st.lists(st.integers()))
    def test(schedule: Schedule, doors: int, other: list[int]) -> None:
        async def scenario(sim: Simulation) -> AsyncIterator[None]:
            heard = await told(sim, doors)
            yield
            assert heard == ["order", "close"]

        schedule.check(scenario)

    with pytest.raises(AssertionError) as caught:
        Context().run(test)  # as if no plugin were there
    notes = "\n".join(caught.value.__notes__)
    assert "doors=0" in notes
    assert "at `" in notes
    assert "drawn by Hypothesis as Schedule('" in notes
    (line,) = [line for line in notes.splitlines() if line.startswith("T1.")]
    explicit = example(Schedule(token=line), 0, [])
    fixed = settings(quick, phases=[Phase.explicit])
    with pytest.raises(AssertionError):
        explicit(fixed(given(schedules(), st.integers(), st.lists(st.integers()))(_again)))()


def _again(schedule: Schedule, doors: int, other: list[int]) -> None:
    async def scenario(sim: Simulation) -> AsyncIterator[None]:
        heard = await told(sim, doors)
        yield
        assert heard == ["order", "close"]

    home = "test_the_smallest_data_come_with_the_smallest_order.<locals>.test.<locals>"
    scenario.__qualname__ = f"{home}.scenario"
    schedule.check(scenario)


def test_data_alone_are_to_blame_when_the_ordinary_order_fails() -> None:
    found = find(schedules(), lambda schedule: True, settings=quick)
    assert repr(found) == "Schedule('fifo', seed=0)"


def test_a_schedule_is_written_as_it_is_made() -> None:
    for schedule in (Schedule("pos", seed=3), Schedule(token="T1.x"), Schedule()):
        assert eval(repr(schedule)) == schedule


def test_outside_of_hypothesis_a_schedule_is_checked_as_well() -> None:
    found = explore(racy).first_failure
    assert found is not None
    with pytest.raises(AssertionError):
        Schedule(token=found.token).check(racy)
    Schedule("fifo").check(racy)


def test_a_token_of_another_scenario_is_refused() -> None:
    async def other(sim: Simulation) -> AsyncIterator[None]:
        yield

    found = explore(racy).first_failure
    assert found is not None
    with pytest.raises(TokenForeign):
        Schedule(token=found.token).check(other)


def test_strategies_without_a_seed_are_refused() -> None:
    for names, text in ((["dfs"], "dfs plays all schedules"), ([], "draw from one strategy or")):
        with pytest.raises(OptionRefused, match=text):
            schedules(names)
    with pytest.raises(UnknownStrategy):
        schedules(["best"])

"""`schedule_test` and `replay`: what they make of a scenario, with and without pytest."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from trouper.actors import Actor, handles
from trouper.errors import OptionRefused, ScenarioRefused, TokenGarbled, TokenStale, UnknownStrategy
from trouper.testing import Simulation, explore, replay, schedule_test
from trouper.testing._schedule_test import plan_of


class Door(Actor[str]):
    def __init__(self, onward: Any) -> None:
        self.onward = onward

    @handles(str)
    def on(self, word: str) -> None:
        self.onward(word)


async def told(sim: Simulation, shop_name: str = "shop") -> list[str]:
    heard: list[str] = []
    shop = await sim.system.spawn(Door, heard.append, name=shop_name)
    near = await sim.system.spawn(Door, shop.tell, name="near")
    middle = await sim.system.spawn(Door, shop.tell, name="middle")
    far = await sim.system.spawn(Door, middle.tell, name="far")
    near.tell("order")
    far.tell("close")
    return heard


async def racy(sim: Simulation, shop: str = "shop") -> AsyncIterator[None]:
    heard = await told(sim, shop)
    yield
    assert heard == ["order", "close"]


async def sound(sim: Simulation) -> AsyncIterator[None]:
    heard = await told(sim)
    yield
    assert sorted(heard) == ["close", "order"]


def bare(test: Callable[..., None], *args: object, **kwargs: object) -> None:
    """Run a test as if no plugin were there."""
    Context().run(test, *args, **kwargs)


@pytest.fixture
def token() -> str:
    found = explore(racy).first_failure
    assert found is not None
    return found.token


# --- this file's own tests of scenarios, run by pytest --------------------------------------------

MADE: list[int] = []


@pytest.fixture
def made() -> int:
    MADE.append(len(MADE))
    return len(MADE)


@schedule_test(schedules=20)
@pytest.mark.proves("Schedules: beside other tests")
async def test_fixtures_are_made_once_per_test(
    sim: Simulation, made: int, tmp_path: Path
) -> AsyncIterator[None]:
    await told(sim)
    yield
    assert (made, len(MADE)) == (1, 1)
    assert tmp_path.name


class TestMethods:
    """A class of tests, whose methods are scenarios."""

    word = "close"

    @pytest.mark.parametrize("count", [1, 2])
    @schedule_test(schedules=5)
    async def test_a_method_is_a_scenario(
        self, sim: Simulation, count: int, tmp_path: Path
    ) -> AsyncIterator[None]:
        heard = await told(sim)
        yield
        assert self.word in heard
        assert count in (1, 2)

    @schedule_test(schedules=5)
    @pytest.mark.parametrize("count", [1, 2])
    async def test_marks_may_be_below(self, sim: Simulation, count: int) -> AsyncIterator[None]:
        await told(sim)
        yield
        assert count in (1, 2)


@schedule_test
async def test_the_decorator_goes_without_parentheses_too(
    sim: Simulation, made: int, tmp_path: Path
) -> AsyncIterator[None]:
    await told(sim)
    yield
    assert made == len(MADE)
    assert tmp_path.name


# --- without pytest -------------------------------------------------------------------------------


@pytest.mark.proves("Schedules: beside other tests")
def test_the_simulation_is_no_parameter_of_the_test() -> None:
    test = schedule_test()(racy)
    assert list(inspect.signature(test).parameters) == ["shop"]
    assert not inspect.iscoroutinefunction(test)
    assert not inspect.isasyncgenfunction(test)
    assert (test.__name__, test.__doc__) == (racy.__name__, racy.__doc__)


def test_without_parentheses_it_is_what_it_is_with_empty_ones() -> None:
    test = schedule_test(racy)
    assert plan_of(test) == plan_of(schedule_test()(racy))
    assert inspect.signature(test) == inspect.signature(schedule_test()(racy))
    with pytest.raises(AssertionError, match="order"):
        bare(test)


@pytest.mark.parametrize("given", [100, told, lambda sim: None, "racy"])
def test_what_is_no_scenario_is_refused_without_parentheses_too(given: Any) -> None:
    with pytest.raises(ScenarioRefused, match=r"write `async def scenario\(sim\):`"):
        schedule_test(given)


def test_a_failure_carries_its_story_as_a_note() -> None:
    with pytest.raises(AssertionError) as caught:
        bare(schedule_test(schedules=50)(racy))
    (note,) = caught.value.__notes__
    assert note.startswith("at `")
    assert note.splitlines()[-1].endswith(" of 50")


def test_arguments_may_come_by_place_or_by_name() -> None:
    for args, kwargs in ((("door",), {}), ((), {"shop": "door"})):
        with pytest.raises(AssertionError) as caught:
            bare(schedule_test()(racy), *args, **kwargs)
        assert "door`: " in caught.value.__notes__[0]


def test_what_is_sound_passes() -> None:
    schedule_test(strategy="dfs")(sound)()


def test_the_traceback_shows_only_the_scenario() -> None:
    with pytest.raises(AssertionError) as caught:
        bare(schedule_test()(racy))
    *ours, last = [str(entry.path) for entry in caught.traceback[2:]]
    assert last == __file__
    assert {Path(path).name for path in ours} <= {"_schedule_test.py", "_conduct.py"}  # hidden


# --- replay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.proves("Schedules: replay")
def test_a_token_is_replayed_before_anything_is_explored(token: str, below: bool) -> None:
    explores, replays = schedule_test(strategy="fifo"), replay(token)
    test = explores(replays(racy)) if below else replays(explores(racy))
    with pytest.raises(AssertionError) as caught:
        bare(test)
    assert caught.value.__notes__[0].endswith("replayed its token")


def test_a_token_alone_makes_a_test_that_explores_nothing(token: str) -> None:
    test: Any = replay(token)(racy)
    assert list(inspect.signature(test).parameters) == ["shop"]
    with pytest.raises(AssertionError):
        bare(test)
    plan = plan_of(test)
    assert plan is not None
    assert plan.schedules is None


def test_tokens_are_replayed_from_the_top(token: str) -> None:
    test = schedule_test()(replay(token)(replay("T1.second")(racy)))
    plan = plan_of(test)
    assert plan is not None
    assert plan.tokens == (token, "T1.second")
    with pytest.raises(AssertionError) as caught:
        bare(test)
    assert caught.value.__notes__[0].endswith("replayed its 1st token")


@pytest.mark.proves("Schedules: replay")
def test_a_fixed_failure_does_not_come_back(token: str) -> None:
    async def fixed(sim: Simulation) -> AsyncIterator[None]:
        heard = await told(sim)
        yield
        assert sorted(heard) == ["close", "order"]

    fixed.__qualname__ = "racy"
    schedule_test()(replay(token)(fixed))()


@pytest.mark.proves("Schedules: tokens")
def test_a_stale_token_fails_the_test_and_says_what_to_do(token: str) -> None:
    test = schedule_test()(replay(token)(racy))
    with pytest.raises(TokenStale, match="drop the token and explore anew"):
        _other_check(test)


def _other_check(test: Any) -> None:
    plan = plan_of(test)
    assert plan is not None

    async def moved(sim: Simulation) -> AsyncIterator[None]:
        await told(sim, "store")
        yield

    moved.__qualname__ = "racy"
    replay(plan.tokens[0])(moved)()  # type: ignore[call-arg]


def test_a_garbled_token_fails_the_test() -> None:
    with pytest.raises(TokenGarbled, match="Copy the whole line"):
        schedule_test()(replay("T1.what?")(racy))()


# --- refusals -------------------------------------------------------------------------------------


def test_numbers_are_refused_where_they_are_written() -> None:
    with pytest.raises(OptionRefused, match="explore 1 schedule or more"):
        schedule_test(schedules=0)
    with pytest.raises(OptionRefused, match="a seed is a whole number"):
        schedule_test(seed=1.5)  # type: ignore[call-overload]
    with pytest.raises(UnknownStrategy):
        schedule_test(strategy="pct:x")
    with pytest.raises(OptionRefused, match=r"write @replay\('T1...'\)"):
        replay(racy)  # type: ignore[arg-type]


def test_what_is_no_scenario_is_refused_where_it_is_decorated() -> None:
    async def without_a_yield(sim: Simulation) -> None: ...

    mistaken: Any = without_a_yield
    for decorate in (schedule_test(), replay("T1.x")):
        with pytest.raises(ScenarioRefused, match="without_a_yield has no `yield`"):
            decorate(mistaken)


async def test_a_schedule_test_called_inside_a_run_is_refused() -> None:
    with pytest.raises(RuntimeError, match="a schedule test makes a trio run for every schedule"):
        schedule_test()(racy)()

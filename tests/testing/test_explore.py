"""`explore`: what it reports, and what it refuses."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from trouper.actors import Actor, Context, handles
from trouper.errors import (
    NeverQuiesced,
    OptionRefused,
    ScenarioRefused,
    TokenForeign,
    TokenGarbled,
    TokenStale,
    UnknownStrategy,
)
from trouper.testing import Options, Rules, Simulation, explore, simulate
from trouper.testing.schedules import _patience


class Door(Actor[str]):
    def __init__(self, onward: Any) -> None:
        self.onward = onward

    @handles(str)
    def on(self, word: str) -> None:
        self.onward(word)


class Runner(Actor[str]):
    def __init__(self, fn: Callable[[], Awaitable[None]]) -> None:
        self.fn = fn

    @handles(str)
    async def run(self, word: str) -> None:
        await self.fn()


async def told(sim: Simulation, shop_name: str = "shop") -> list[str]:
    """Tell a shop two words, of which the second has a door less to go through."""
    heard: list[str] = []
    shop = await sim.system.spawn(Door, heard.append, name=shop_name)
    near = await sim.system.spawn(Door, shop.tell, name="near")
    middle = await sim.system.spawn(Door, shop.tell, name="middle")
    far = await sim.system.spawn(Door, middle.tell, name="far")
    near.tell("order")
    far.tell("close")
    return heard


async def racy(sim: Simulation) -> AsyncIterator[None]:
    heard = await told(sim)
    yield
    assert heard == ["order", "close"]


async def sound(sim: Simulation) -> AsyncIterator[None]:
    heard = await told(sim)
    yield
    assert sorted(heard) == ["close", "order"]


def test_a_race_is_found_and_shrunk_to_one_constraint() -> None:
    report = explore(racy)
    assert report.failures == 1
    assert report.first_failure is not None
    assert isinstance(report.first_failure.error, AssertionError)
    assert len(report.first_failure.constraints) == 1


def test_check_raises_what_failed_with_its_story_as_a_note() -> None:
    report = explore(racy)
    with pytest.raises(AssertionError) as caught:
        report.check()
    assert report.first_failure is not None
    assert caught.value.__notes__ == [report.first_failure.story()]
    assert str(caught.traceback[-1].path) == __file__
    line = caught.value.__notes__[0].splitlines()[-2]
    assert line == f"explore(racy, token='{report.first_failure.token}')"


@pytest.mark.proves("Schedules: a budget is a result")
def test_a_report_without_a_failure_checks_well() -> None:
    report = explore(sound, strategy="dfs")
    assert report.exhausted
    assert report.traces > 1
    report.check()


@pytest.mark.proves("Schedules: a budget is a result")
def test_a_spent_budget_is_a_result() -> None:
    report = explore(sound, strategy="naive", budget=2)
    assert (report.schedules, report.exhausted) == (2, False)
    assert str(report).startswith("2 explored, not exhausted")


def test_failures_are_counted_on_request() -> None:
    assert explore(racy, strategy="naive", keep_going=True).failures > 1


def test_a_token_is_replayed_instead_of_exploring() -> None:
    found = explore(racy).first_failure
    assert found is not None
    report = explore(racy, token=found.token)
    assert str(report).endswith("1 failed")
    assert (report.schedules, report.failures) == (1, 1)
    assert report.first_failure is not None
    assert report.first_failure.constraints == found.constraints


@pytest.mark.proves("Schedules: tokens")
def test_a_token_survives_an_unrelated_edit_and_goes_stale_with_what_it_names() -> None:
    found = explore(racy).first_failure
    assert found is not None

    def edited(shop: str) -> Any:
        async def racy(sim: Simulation) -> AsyncIterator[None]:
            other = await sim.system.spawn(Door, str, name="other")
            other.tell("unrelated")
            heard = await told(sim, shop)
            yield
            assert heard == ["order", "close"]

        racy.__qualname__ = "racy"
        return racy

    assert explore(edited("shop"), token=found.token).failures == 1
    with pytest.raises(TokenStale, match="drop the token and explore anew") as caught:
        explore(edited("store"), token=found.token)
    assert caught.value.missing


@pytest.mark.parametrize("token", ["", "T1", "T1.", "T1.!!", "x.y"])
@pytest.mark.proves("Schedules: tokens")
def test_a_garbled_token_is_refused(token: str) -> None:
    with pytest.raises(TokenGarbled, match="Copy the whole line"):
        explore(racy, token=token)


@pytest.mark.proves("Schedules: tokens")
def test_a_token_of_another_scenario_is_refused() -> None:
    found = explore(racy).first_failure
    assert found is not None
    with pytest.raises(TokenForeign, match="another scenario"):
        explore(sound, token=found.token)


turns: list[int] = []


async def blind(sim: Simulation) -> AsyncIterator[None]:
    turns.append(len(turns))
    await told(sim)
    yield
    assert len(turns) != 2, "the second schedule fails, whatever it is"


def test_a_failure_too_long_for_a_token_is_told_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trouper.testing.schedules._token.TOKEN_CHARACTERS", 9)
    turns.clear()
    report = explore(blind, tries=1)
    failure = report.first_failure
    assert failure is not None
    assert (failure.token, failure.rerun) == ("", None)
    assert "Let the scenario do less" in failure.story().splitlines()[-1]


class Broken(Actor[str]):
    @handles(str)
    def on(self, word: str) -> None:
        raise LookupError(word)


async def broken(sim: Simulation) -> AsyncIterator[None]:
    (await sim.system.spawn(Broken, name="broken")).tell("word")
    yield


def test_what_is_explored_is_not_logged_to_stderr_and_what_is_replayed_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # as if nobody had set up logging
    found = explore(broken).first_failure
    assert found is not None
    assert capsys.readouterr().err == ""
    explore(broken, token=found.token)
    assert "dead letter: str for /sim/broken" in capsys.readouterr().err
    assert logging.getLogger("trouper").handlers == []


class Restless(Actor[str]):
    @handles(str)
    def again(self, word: str, ctx: Context[str]) -> None:
        ctx.self_ref.tell(word)


async def restless(sim: Simulation) -> AsyncIterator[None]:
    (await sim.system.spawn(Restless, name="restless")).tell("again")
    yield


@pytest.mark.proves("Schedules: bad input")
def test_a_scenario_that_never_rests_fails_with_a_sentence() -> None:
    report = explore(restless, rules=Rules(fair_after=20, max_steps=50))
    assert report.first_failure is not None
    error = report.first_failure.error
    assert isinstance(error, NeverQuiesced)
    assert error.steps == 50
    assert "End what polls or repeats" in str(error)


# --- refusals -------------------------------------------------------------------------------------


async def without_a_yield(sim: Simulation) -> None: ...


def generator(sim: Simulation) -> Any:
    yield


async def without_a_simulation() -> AsyncIterator[None]:
    yield


async def by_keyword(*, sim: Simulation) -> AsyncIterator[None]:
    yield


async def two_yields(sim: Simulation) -> AsyncIterator[None]:
    yield
    yield


async def told_more(sim: Simulation, word: str) -> AsyncIterator[None]:
    yield


async def no_yield_reached(sim: Simulation) -> AsyncIterator[None]:
    if not sim:
        yield


@pytest.mark.parametrize(
    ("scenario", "text"),
    [
        (without_a_yield, "without_a_yield has no `yield`: write `async def scenario"),
        (generator, "generator is no async generator function"),
        (without_a_simulation, "without_a_simulation has no parameter for the simulation"),
        (by_keyword, "by_keyword has no parameter for the simulation"),
        (7, "a scenario is a function, not 7"),
        (told_more, r"told_more.* argument: 'word'\): give it the rest by functools.partial"),
        (two_yields, "yield once"),
        (no_yield_reached, "yield once"),
    ],
)
@pytest.mark.proves("Schedules: bad input")
def test_what_is_no_scenario_is_refused(scenario: Any, text: str) -> None:
    with pytest.raises(ScenarioRefused, match=text):
        explore(scenario)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": 0}, "explore 1 schedule or more, a whole number, not 0"),
        ({"budget": 2.5}, "explore 1 schedule or more, a whole number, not 2.5"),
        ({"budget": True}, "explore 1 schedule or more, a whole number, not True"),
        ({"tries": -1}, "shrink with 1 schedule or more, a whole number, not -1"),
        ({"seed": "7"}, "a seed is a whole number, not '7'"),
        ({"rules": {"time": "anytime"}}, r"rules= takes trouper.testing.Rules\(...\)"),
        ({"options": 3}, r"options= trouper.testing.Options\(...\)"),
    ],
)
@pytest.mark.proves("Schedules: bad input")
def test_an_option_out_of_range_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionRefused, match=text):
        explore(sound, **options)


@pytest.mark.proves("Schedules: bad input")
def test_an_unknown_strategy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownStrategy, match="portfolio, dfs, sleep, naive, fifo, walk, pos"):
        explore(sound, strategy="best")


async def test_exploring_inside_a_run_is_refused() -> None:
    with pytest.raises(RuntimeError, match="explore makes a trio run for every schedule"):
        explore(sound)


def test_options_reach_the_system() -> None:
    async def full(sim: Simulation) -> AsyncIterator[None]:
        assert sim.system.name
        await trio.lowlevel.checkpoint()
        yield

    explore(full, options=Options(mailbox=4), budget=1).check()


async def endless() -> None:
    while True:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("where", ["an actor", "a client", "the set-up", "the checks", "a boot"])
def test_a_step_without_end_is_a_failure(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def boot(sim: Simulation) -> None:
        if sim.journal.life:
            await endless()

    async def scenario(sim: Simulation) -> AsyncIterator[None]:
        if where == "an actor":
            (await sim.system.spawn(Runner, endless, name="runner")).tell("go")
        elif where == "a client":
            sim.start(endless, name="client")
        elif where == "the set-up":
            await endless()
        elif where == "a boot":
            sim.crash_points()
            sim.on_boot(boot)
        yield
        if where == "the checks":
            await endless()

    monkeypatch.setattr(_patience, "TURNS", 300)
    failure = explore(scenario, strategy="dfs").first_failure
    assert failure is not None
    assert isinstance(failure.error, NeverQuiesced)
    assert "a step does not end" in str(failure.error)


@pytest.mark.parametrize("works", [True, False])
def test_ctrl_c_ends_an_exploration_as_what_it_is(works: bool) -> None:
    @trio.lowlevel.enable_ki_protection  # so it reaches the main task, as mostly
    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    async def interrupted() -> None:
        interrupt()
        if works:
            await endless()

    async def scenario(sim: Simulation) -> AsyncIterator[None]:
        (await sim.system.spawn(Runner, interrupted, name="runner")).tell("go")
        yield

    before = logging.getLogger("trouper").level
    with pytest.raises(KeyboardInterrupt):
        explore(scenario)
    assert logging.getLogger("trouper").level == before


@pytest.mark.parametrize("yields", [0, 2])
def test_who_does_not_yield_once_is_refused_by_name(yields: int) -> None:
    async def sloppy(sim: Simulation) -> AsyncIterator[None]:
        for _ in range(yields):
            yield

    with pytest.raises(ScenarioRefused, match=r"^[\w.<>]*sloppy must yield once"):
        explore(sloppy)
    with (
        pytest.raises(ScenarioRefused, match=r"^[\w.<>]*sloppy must yield once"),
        simulate(sloppy),
    ):
        pass


def test_explorations_can_go_on_inside_of_one_another() -> None:
    expected = explore(racy)
    with simulate(racy) as outer, simulate(racy) as inner:
        found = explore(racy)
        inner.settle()
        outer.settle()
        assert outer.steps == inner.steps
    assert (found.schedules, str(found)) == (expected.schedules, str(expected))

"""Schedules of real actors: what is found, what is left out, and what is the same each time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import trio
from tests.testing.schedules.scenarios import (
    COMPARED,
    Asker,
    Echo,
    Get,
    Go,
    Item,
    Producer,
    Scene,
    Sink,
    allocators,
)

from trouper import Actor, ActorSystem, Context, Ref, handles, open_system
from trouper.errors import Deadlock, NeverQuiesced, ScenarioRefused
from trouper.testing.schedules import (
    Course,
    Rules,
    Scenario,
    Simulation,
    scenario_play,
    search,
)
from trouper.testing.schedules._strategies import Fifo

FAIL = ("read-then-max", "read-then-max, staggered", "sleepers at any time")


@pytest.mark.proves("Schedules: reduction leaves out only what commutes")
@pytest.mark.parametrize("name", COMPARED)
def test_no_search_misses_a_kind_of_schedule_of_real_actors(name: str) -> None:
    scenario, rules = COMPARED[name]
    play = scenario_play(scenario)
    found = [
        search(play, strategy=strategy, budget=1000, rules=rules, keep_going=True)
        for strategy in ("naive", "sleep", "dfs")
    ]
    assert all(report.exhausted for report in found)
    naive, sleep, dfs = found
    assert naive.signatures == sleep.signatures == dfs.signatures
    assert dfs.schedules <= sleep.schedules <= naive.schedules
    assert bool(naive.failures) == (name in FAIL)


def test_a_lost_update_between_real_actors_is_found_and_its_fix_exhausts() -> None:
    report = search(scenario_play(allocators(fixed=False, stagger=2)), strategy="dfs")
    assert report.first_failure is not None
    assert report.schedules <= 10
    assert "a rank was given twice" in str(report.first_failure.error)
    fixed = search(scenario_play(allocators(fixed=True, stagger=2)), strategy="dfs")
    assert fixed.exhausted
    assert fixed.first_failure is None


async def test_the_ordinary_schedule_serves_as_production_does() -> None:
    async def scene(system: ActorSystem, log: list[int]) -> None:
        sink = await system.spawn(Sink, log, name="sink")
        for n in (0, 10, 20):
            (await system.spawn(Producer, sink, n, name=f"p{n}")).tell(Go())

    production: list[int] = []
    async with open_system("s") as system:
        await scene(system, production)
    assert len(production) == 6
    log: list[int] = []

    async def scenario(sim: Simulation) -> Scene:
        log.clear()
        await scene(sim.system, log)
        yield

    def play() -> None:
        course = Course(Fifo(), Rules())
        scenario_play(scenario)(course)
        assert course.failure is None

    await trio.to_thread.run_sync(play)
    assert log == production


# --- what never ends well -------------------------------------------------------------------------


class Keeper(Actor[Get]):
    """Answers nobody for ever."""

    @handles(Get)
    async def get(self, message: Get) -> int:
        await trio.sleep_forever()
        return 1


def failure_of(scenario: Scenario, rules: Rules | None = None) -> Exception:
    report = search(scenario_play(scenario), strategy="fifo", rules=rules)
    assert report.first_failure is not None
    return report.first_failure.error


@pytest.mark.proves("Schedules: deadlock")
def test_what_waits_for_ever_is_a_deadlock_that_says_who_waits_for_whom() -> None:
    async def scenario(sim: Simulation) -> Scene:
        keeper = await sim.system.spawn(Keeper, name="keeper")
        middle = await sim.system.spawn(Echo, keeper, name="middle")
        (await sim.system.spawn(Asker, [middle], name="asker")).tell(Go())
        yield

    error = failure_of(scenario)
    assert isinstance(error, Deadlock)
    assert error.waits == (("asker", "middle", "Get"), ("middle", "keeper", "Get"))


def test_a_set_up_that_waits_for_what_never_comes_is_a_deadlock() -> None:
    async def scenario(sim: Simulation) -> Scene:
        keeper = await sim.system.spawn(Keeper, name="keeper")
        await keeper.ask(Get())
        yield

    error = failure_of(scenario)
    assert isinstance(error, Deadlock)
    assert error.waits == (("scenario", "keeper", "Get"),)


@dataclass
class Spinner(Actor[Go]):
    @handles(Go)
    def go(self, message: Go, ctx: Context[Go]) -> None:
        ctx.self_ref.tell(message)


@pytest.mark.proves("Schedules: a fair order ends what polls")
def test_what_goes_on_for_ever_never_comes_to_rest() -> None:
    async def scenario(sim: Simulation) -> Scene:
        (await sim.system.spawn(Spinner, name="spinner")).tell(Go())
        yield

    error = failure_of(scenario, Rules(fair_after=20, max_steps=30))
    assert isinstance(error, NeverQuiesced)
    assert error.steps == 30


async def twice(sim: Simulation) -> Scene:
    yield
    yield


async def never(sim: Simulation) -> Scene:
    if sim.now < 0:
        yield


@pytest.mark.parametrize("scenario", [twice, never])
def test_a_scenario_that_does_not_yield_once_is_refused(scenario: Scenario) -> None:
    with pytest.raises(ScenarioRefused, match="once"):
        search(scenario_play(scenario), strategy="fifo")


class Broken(Actor[Go]):
    @handles(Go)
    async def go(self, message: Go) -> None:
        raise LookupError("of the user")


def test_what_an_actor_raises_past_its_supervisors_fails_the_schedule_as_it_is() -> None:
    async def scenario(sim: Simulation) -> Scene:
        (await sim.system.spawn(Broken, name="broken")).tell(Go())
        yield

    error = failure_of(scenario)
    assert isinstance(error, LookupError)
    assert error.args == ("of the user",)


def test_what_a_client_raises_fails_the_schedule_as_it_is() -> None:
    async def client() -> None:
        raise LookupError("of a client")

    async def scenario(sim: Simulation) -> Scene:
        sim.start(client, name="client")
        yield

    error = failure_of(scenario)
    assert isinstance(error, LookupError)


def test_a_set_up_may_wait_for_its_actors_and_so_may_the_checks() -> None:
    async def scenario(sim: Simulation) -> Scene:
        end: Ref[Get] = await sim.system.spawn(Echo, name="end")
        assert await end.ask(Get()) == 1
        items: list[int] = []
        sink = await sim.system.spawn(Sink, items, name="sink")
        sink.tell(Item(1))
        yield
        assert items == [1]
        await trio.sleep(5)
        assert sim.now == 5
        assert await end.ask(Get()) == 1

    report = search(scenario_play(scenario), strategy="dfs")
    assert report.exhausted
    assert report.first_failure is None
    assert report.schedules == 1


async def idle() -> None:
    pass


async def client_behind(sim: Simulation) -> Scene:
    await sim.system.spawn(Sink, [], name="one")
    sim.start(idle, name="one")
    yield


async def client_before(sim: Simulation) -> Scene:
    sim.start(idle, name="one")
    await sim.system.spawn(Sink, [], name="one")
    yield


async def client_in_the_next_life(sim: Simulation) -> Scene:
    async def boot(sim: Simulation) -> None:
        sim.start(idle, name="one")
        if sim.journal.epoch > 1:
            await sim.system.spawn(Sink, [], name="one")

    sim.on_boot(boot)
    await boot(sim)
    sim.crash_points()
    yield


async def client_during(sim: Simulation) -> Scene:
    sink = await sim.system.spawn(Sink, [], name="one")

    async def begin() -> None:
        sim.start(idle, name=sink.name)

    sim.start(begin, name="begin")
    yield


@pytest.mark.parametrize(
    "scenario", [client_behind, client_before, client_in_the_next_life, client_during]
)
def test_a_client_that_is_called_like_an_actor_is_refused_by_name(scenario: Scenario) -> None:
    """Their events would have one name, and a token could mean either."""
    with pytest.raises(ScenarioRefused, match="a client is called 'one', and so is an actor"):
        search(scenario_play(scenario), strategy="dfs", budget=50)


def test_a_client_may_have_the_name_of_the_last_life_again() -> None:
    ran: list[str] = []

    async def client() -> None:
        ran.append("client")

    async def boot(sim: Simulation) -> None:
        sim.start(client, name="one")

    async def scenario(sim: Simulation) -> Scene:
        sim.crash_points()
        sim.on_boot(boot)
        await boot(sim)
        yield

    report = search(scenario_play(scenario), strategy="dfs", budget=50)
    assert report.first_failure is None
    assert len(ran) > 1

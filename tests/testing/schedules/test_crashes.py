"""Crashes of real systems: at each commit boundary, as if the process had died."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.testing.schedules.scenarios import Go, Scene

from trouper import Actor, Context, handles
from trouper.errors import OptionRefused, ScenarioRefused, SimulatedCrash
from trouper.store import Store, Tx, record, row_key
from trouper.testing.schedules import Course, Scenario, Simulation, scenario_play, search


@record("crash test row", version=1)
@dataclass(frozen=True, slots=True)
class Row:
    n: int


ROW = row_key(b"z", "row")
RANK = row_key(b"z", "rank")


async def put(store: Store, **values: int) -> None:
    keys = {"row": ROW, "rank": RANK}

    def unit(tx: Tx) -> None:
        for name, n in values.items():
            tx.put("record", keys[name], Row(n))

    await store.commit(unit)


class Finaliser(Actor[Go]):
    """Writes a row and its rank, in two transactions or in one."""

    def __init__(self, store: Store, fixed: bool) -> None:
        self.store, self.fixed = store, fixed

    @handles(Go)
    async def go(self, message: Go) -> None:
        if self.store.get("record", ROW, Row) is not None:
            return  # it was done before
        if self.fixed:
            await put(self.store, row=1, rank=1)
        else:
            await put(self.store, row=1)
            await put(self.store, rank=1)


def finalise(*, fixed: bool, budget: int = 1, at: str | None = None) -> Scenario:
    async def boot(sim: Simulation) -> None:
        actor = await sim.system.spawn(Finaliser, sim.system.store, fixed, name="c")
        actor.tell(Go())

    async def scenario(sim: Simulation) -> Scene:
        if at is None:
            sim.crash_points("journal", budget=budget)
        else:
            sim.crash(at=at)
        sim.on_boot(boot)
        await boot(sim)
        yield
        assert sim.journal.get("record", ROW, Row) == Row(1)
        assert sim.journal.get("record", RANK, Row) == Row(1), "settled, and has no rank"

    return scenario


def test_a_crash_between_two_transactions_is_found_and_one_transaction_exhausts() -> None:
    report = search(scenario_play(finalise(fixed=False)), strategy="dfs")
    assert report.first_failure is not None
    assert report.schedules <= 10
    assert "has no rank" in str(report.first_failure.error)
    assert "crash" in report.first_failure.text()
    fixed = search(scenario_play(finalise(fixed=True, budget=2)), strategy="dfs")
    assert fixed.exhausted
    assert fixed.first_failure is None
    assert fixed.schedules > 3


@pytest.mark.parametrize("fixed", [True, False])
def test_no_search_misses_a_kind_of_schedule_with_crashes(fixed: bool) -> None:
    play = scenario_play(finalise(fixed=fixed, budget=2))
    found = [
        search(play, strategy=strategy, keep_going=True) for strategy in ("naive", "sleep", "dfs")
    ]
    assert all(report.exhausted for report in found)
    assert len({report.signatures for report in found}) == 1
    assert {bool(report.failures) for report in found} == {not fixed}


def test_a_crash_may_be_asked_for_at_one_boundary() -> None:
    places: list[list[str]] = []

    def play_and_note(course: Course) -> None:
        play(course)
        places.append([str(step.event) for step in course.trace.steps])

    play = scenario_play(finalise(fixed=False, at="commit:c#1:after"))
    for strategy in ("fifo", "dfs", "pos"):
        report = search(play_and_note, strategy=strategy, budget=3, keep_going=True)
        assert report.failures == report.schedules
    assert {steps[steps.index("the crash") - 1] for steps in places} == {"`c`: the commit unit"}
    with pytest.raises(OptionRefused, match="commit:NAME"):
        failure_of(finalise(fixed=False, at="nowhere"))


async def starts_again(sim: Simulation) -> None:
    pass


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda sim: sim.crash_points(), "crash_points"),
        (lambda sim: sim.crash(at="commit:c#1:after"), "crash"),
        (lambda sim: sim.on_boot(starts_again), "on_boot"),
    ],
)
def test_a_crash_asked_for_behind_the_yield_is_refused_by_name(
    call: Callable[[Simulation], None], name: str
) -> None:
    """Nothing is left to crash there: the scenario would seem to be explored with crashes."""

    async def scenario(sim: Simulation) -> Scene:
        yield
        call(sim)

    with pytest.raises(ScenarioRefused, match=rf"^{name}\(\) stands behind the `yield`"):
        search(scenario_play(scenario), strategy="fifo")


@pytest.mark.parametrize("options", [{"where": "disk"}, {"budget": -1}])
def test_crash_points_that_are_none_are_refused_as_options_are(options: dict[str, Any]) -> None:
    async def scenario(sim: Simulation) -> Scene:
        sim.crash_points(**options)
        yield

    with pytest.raises(OptionRefused, match="crashes"):
        failure_of(scenario)


def failure_of(scenario: Scenario) -> None:
    report = search(scenario_play(scenario), strategy="fifo")
    assert report.first_failure is not None
    raise report.first_failure.error


class Tidy(Actor[Go]):
    """Tries to write and to read on its way out, in a ``finally`` block and in its hook."""

    def __init__(self, store: Store, log: list[object]) -> None:
        self.store, self.log = store, log

    @handles(Go)
    async def go(self, message: Go, ctx: Context[Go]) -> None:
        try:
            await put(self.store, row=1)
        finally:
            for leave in (self._write, self._read):
                try:
                    leave()
                except SimulatedCrash as exc:
                    self.log.append(exc)

    def _write(self) -> None:
        self.store.submit(lambda tx: tx.put("record", RANK, Row(1)), lambda verdict: None)

    def _read(self) -> None:
        self.store.get("record", RANK, Row)

    async def stopping(self, ctx: Context[Go], why: object) -> None:
        self.log.append("a hook ran")


def test_what_has_crashed_writes_nothing_on_its_way_out() -> None:
    log: list[object] = []

    async def scenario(sim: Simulation) -> Scene:
        log.clear()
        sim.crash(at="commit:c:before")
        (await sim.system.spawn(Tidy, sim.system.store, log, name="c")).tell(Go())
        yield
        assert sim.journal.life == 1
        assert sim.journal.get("record", ROW, Row) is None
        assert sim.journal.get("record", RANK, Row) is None
        assert [type(entry) for entry in log] == [SimulatedCrash, SimulatedCrash]

    report = search(scenario_play(scenario), strategy="dfs")
    assert report.exhausted
    assert report.first_failure is None


def test_a_life_that_has_crashed_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Loud(Actor[Go]):
        def __init__(self, store: Store) -> None:
            self.store = store

        @handles(Go)
        async def go(self, message: Go) -> None:
            try:
                await put(self.store, row=1)
            finally:
                logging.getLogger("trouper.actors").error("the journal is gone")

    async def scenario(sim: Simulation) -> Scene:
        sim.crash(at="commit:c:before")
        (await sim.system.spawn(Loud, sim.system.store, name="c")).tell(Go())
        yield
        assert sim.journal.life == 1
        logging.getLogger("trouper.actors").error("all is well")

    report = search(scenario_play(scenario), strategy="fifo", budget=1)
    assert report.first_failure is None
    assert [record.message for record in caplog.records] == ["all is well"]

"""The durable side, explored: small scenarios whole, the larger ones by samples and crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from outcome import Value
from tests.testing.schedules import durables

from trouper.actors.operations import _actor as operation_actor
from trouper.testing.schedules import Options, Report, Rules, Scenario, scenario_play, search
from trouper.testing.schedules._journal import JournalStore

PLAIN = Options()
LATE = Options(activities=durables.ALL, late_verdicts=True)
ACTIVITIES = Options(activities=durables.ALL)

# Small enough to play many orders of steps that commute, too.
SMALL: dict[Scenario, Options] = {
    durables.group_cancels_its_losers: PLAIN,
    durables.activation_is_started_twice: ACTIVITIES,
    durables.durable_actor_of_two_clients: PLAIN,
}
WHOLE: dict[Scenario, Options] = {
    durables.operation_of_two_systems: PLAIN,
    durables.operation_and_a_deadline: PLAIN,
    durables.activation_is_cancelled: ACTIVITIES,
}
SAMPLED: dict[Scenario, Options] = {
    durables.group_race_keeps_its_rank: PLAIN,
    durables.group_of_two_hosts: PLAIN,
    durables.operation_across_a_crash: PLAIN,
    durables.operation_is_forgotten: PLAIN,
    durables.activation_is_cancelled_and_crashes: ACTIVITIES,
    durables.child_is_cancelled_and_crashes: ACTIVITIES,
    durables.activation_is_forgotten_and_crashes: ACTIVITIES,
    durables.signals_are_taken_once: ACTIVITIES,
    durables.durable_actor_keeps_what_it_acknowledged: PLAIN,
    durables.durable_actor_is_killed: PLAIN,
}


def explored(
    scenario: Scenario, options: Options, strategy: str, budget: int, **more: Any
) -> Report:
    return search(
        scenario_play(scenario, options), strategy=strategy, budget=budget, tries=50, **more
    )


def require_clean(report: Report) -> None:
    if report.first_failure is not None:
        raise AssertionError(report.first_failure.text()) from report.first_failure.error


@pytest.mark.parametrize("scenario", SMALL, ids=lambda each: each.__name__)
def test_reduction_leaves_nothing_out(scenario: Scenario) -> None:
    """What a step of the durable side touches and does not say would be seen here."""
    sleep, reduced = (
        explored(scenario, SMALL[scenario], strategy, 500, keep_going=True)
        for strategy in ("sleep", "dfs")
    )
    require_clean(sleep)
    require_clean(reduced)
    assert sleep.exhausted
    assert reduced.exhausted
    assert sleep.signatures == reduced.signatures


@pytest.mark.proves("Schedules: durable work")
@pytest.mark.parametrize("scenario", WHOLE, ids=lambda each: each.__name__)
def test_a_scenario_ends_well_in_every_schedule(scenario: Scenario) -> None:
    reduced, sampled = (
        explored(scenario, WHOLE[scenario], strategy, budget, keep_going=True)
        for strategy, budget in (("dfs", 500), ("portfolio", 25))
    )
    require_clean(reduced)
    assert reduced.exhausted
    assert sampled.signatures <= reduced.signatures


@pytest.mark.proves("Schedules: durable work")
@pytest.mark.parametrize("options", ["with", "late"])
@pytest.mark.parametrize("scenario", SAMPLED, ids=lambda each: each.__name__)
def test_samples_of_larger_scenarios_end_well(scenario: Scenario, options: str) -> None:
    chosen = SAMPLED[scenario] if options == "with" else LATE
    require_clean(explored(scenario, chosen, "portfolio", 20))


def test_a_lease_that_ends_early_gives_one_result() -> None:
    """At any time: a renewal may be late, and another host takes the child over meanwhile."""
    rules = Rules(time="anytime")
    scenario = durables.group_of_two_hosts_with_a_lease
    require_clean(explored(scenario, LATE, "portfolio", 40, rules=rules))


# --- planted --------------------------------------------------------------------------------------


def test_an_attempt_without_a_fence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two systems would attempt one operation at the same time."""
    monkeypatch.setattr(operation_actor, "_is_attempted", lambda *args: False)
    report = explored(durables.operation_of_two_systems, PLAIN, "dfs", 100)
    assert report.first_failure is not None


def test_an_answer_before_its_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that acknowledges what it has not written loses it by a crash."""
    submit = JournalStore.submit

    def hasty(store: JournalStore, unit: Any, done: Callable[[Any], None]) -> Any:
        done(Value(None))
        return submit(store, unit, lambda verdict: None)

    monkeypatch.setattr(JournalStore, "submit", hasty)
    report = explored(durables.durable_actor_keeps_what_it_acknowledged, PLAIN, "portfolio", 200)
    assert report.first_failure is not None
    assert isinstance(report.first_failure.error, AssertionError)


def test_a_repeat_without_an_idempotency_id_is_found() -> None:
    """Whoever asks again after a crash does it twice, where nothing tells that it is a repeat."""
    scenario = durables.durable_actor_asked_again_without_an_id
    report = explored(scenario, PLAIN, "portfolio", 200)
    assert report.first_failure is not None
    assert any(step.event.kind == "crash" for step in report.first_failure.steps)

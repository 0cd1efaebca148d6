"""A course narrows what can be next to what delivery and time allow, and checks its driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests.testing.schedules.models import circle, drawn

from _models.toy import play_of
from trouper.errors import Deadlock, InvariantError, OptionRefused, ScheduleDiverged
from trouper.testing.schedules import Course, Event, Footprint, Rules, Trace, Wait, search
from trouper.testing.schedules._strategies import Walk

ROOT = Path(__file__).parents[3]


class First:
    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        return options[0]


def message(target: str, sender: str, number: int = 1, life: int = 0) -> Event:
    return Event("deliver", target, sender, "M", number, life)


def course(*setup: Event, **rules: object) -> Course:
    made = Course(First(), Rules(**rules))  # type: ignore[arg-type]
    made.born(setup)
    return made


def took(made: Course, event: Event, *creates: Event, **touched: object) -> None:
    assert made.next([event]) == event
    made.done(event, Footprint(creates, **touched))  # type: ignore[arg-type]


def test_what_one_sender_sent_to_one_actor_keeps_its_order() -> None:
    first, second, other = message("a", "x"), message("a", "x", 2), message("a", "y")
    for delivery in ("causal", "pairwise"):
        made = course(first, second, other, delivery=delivery)
        assert made.narrow([second, other, first]) == [first, other]


def relayed(delivery: str) -> tuple[Course, Event, Event]:
    """x sends to the store and then to a relay, which sends to the store."""
    start, direct, hop = message("x", "main"), message("store", "x"), message("relay", "x")
    late = message("store", "relay")
    made = course(start, delivery=delivery)
    took(made, start, direct, hop)
    took(made, hop, late)
    return made, direct, late


def test_causal_delivery_keeps_a_message_behind_what_was_sent_before_it() -> None:
    made, direct, late = relayed("causal")
    assert made.narrow([direct, late]) == [direct]


def test_pairwise_delivery_lets_a_message_overtake_its_own_cause() -> None:
    made, direct, late = relayed("pairwise")
    assert made.narrow([direct, late]) == [direct, late]


@pytest.mark.parametrize("delivery", ["causal", "pairwise"])
def test_a_journal_writes_units_in_the_order_of_submission(delivery: str) -> None:
    made = course(message("a", "x"), message("b", "y"), delivery=delivery)
    one, other = (Event("commit", target, "journal", "rows") for target in ("a", "b"))
    elsewhere = Event("commit", "b", "another journal", "rows")
    took(made, message("a", "x"), one, message("b", "a"))
    took(made, message("b", "a"), other, elsewhere)
    assert made.narrow([one, other, elsewhere]) == [one, elsewhere]


def test_units_of_actors_that_know_nothing_of_each_other_are_written_in_any_order() -> None:
    made = course(message("a", "x"), message("b", "y"))
    one, other = (Event("commit", target, "journal", "rows") for target in ("a", "b"))
    took(made, message("a", "x"), one)
    took(made, message("b", "y"), other)
    assert made.narrow([one, other]) == [one, other]


def test_timers_fire_when_all_else_is_idle_or_at_any_time() -> None:
    timer, mail = Event("timer", "a", "a", "t"), message("b", "x")
    crash = Event("crash", "journal")
    idle, anytime = course(timer, mail), course(timer, mail, time="anytime")
    assert idle.narrow([timer, mail, crash]) == [mail, crash]
    assert idle.narrow([timer, crash]) == [timer, crash]
    assert anytime.narrow([timer, mail, crash]) == [timer, mail, crash]


def test_what_the_scenario_sends_later_comes_after_what_happened() -> None:
    first, second = message("a", "x"), message("b", "y")
    made = course(first)
    took(made, first, late := message("b", "a"))
    made.born([second])
    assert made.trace.precedes(late, second)
    assert made.narrow([second, late]) == [late]


def test_a_driver_that_mixes_up_events_is_told_so() -> None:
    made = course(message("a", "x"))
    with pytest.raises(InvariantError, match="nothing brought about"):
        made.next([message("a", "y")])
    with pytest.raises(InvariantError, match="one name"):
        made.born([message("a", "x")])
    with pytest.raises(InvariantError, match="wrong life"):
        made.born([message("b", "x", life=1)])
    assert made.next([message("a", "x")]) is not None
    with pytest.raises(InvariantError, match="neither done nor failed"):
        made.next([message("a", "x")])
    with pytest.raises(InvariantError, match="was to be next"):
        made.done(message("b", "x"), Footprint())


def test_a_crash_of_another_life_is_told_so() -> None:
    made = course()
    made.trace.append(Event("crash", "journal"), Footprint())
    with pytest.raises(InvariantError, match="wrong life"):
        made.trace.append(Event("crash", "journal"), Footprint())


def test_what_a_crash_took_away_without_a_trace_does_not_count() -> None:
    def crashed(*before: Event, **touched: object) -> bytes:
        made = course(message("a", "x"), message("b", "y"))
        for event in before:
            took(made, event, **touched)
        made.trace.append(Event("crash", "journal"), Footprint())
        return made.trace.canonical()

    written = {"writes": frozenset("k")}
    assert crashed(message("a", "x")) == crashed(message("b", "y")) == crashed()
    assert crashed(message("a", "x"), **written) != crashed()


@pytest.mark.parametrize("seed", range(40))
def test_a_step_lies_deeper_than_all_that_came_before_it(seed: int) -> None:
    scene, rules = drawn(Random(seed))
    played = Course(Walk(Random(seed)), rules)
    play_of(scene)(played)
    levels = played.trace._levels
    for step in played.trace.steps:
        before = [level for node, level in enumerate(levels) if step.past >> node & 1]
        assert levels[step.node] == 1 + max(before, default=0)


def test_a_chooser_that_chooses_what_is_not_offered_is_a_divergence() -> None:
    class Wrong:
        def choose(self, options: Sequence[Event], trace: Trace) -> Event:
            return message("z", "z")

    made = Course(Wrong(), Rules())
    made.born([message("a", "x")])
    with pytest.raises(ScheduleDiverged, match="what can: `a` gets x's M"):
        made.next([message("a", "x")])


def test_the_first_failure_counts() -> None:
    made = course()
    made.fail(ValueError("first"))
    made.fail(ValueError("second"))
    assert str(made.failure) == "first"


@pytest.mark.proves("Schedules: deadlock")
def test_what_waits_at_the_end_is_a_deadlock_with_the_circle_spelled_out() -> None:
    made = course()
    made.finish([Wait("a", "b", "Get"), Wait("b", "c", "Get"), Wait("c", "b", "Put")])
    error = made.failure
    assert isinstance(error, Deadlock)
    assert error.waits == (("a", "b", "Get"), ("b", "c", "Get"), ("c", "b", "Put"))
    assert "in a circle: b -> c -> b" in str(error)


def test_asks_in_a_circle_are_found_to_deadlock() -> None:
    report = search(play_of(circle()), strategy="dfs")
    assert report.first_failure is not None
    assert "in a circle: a -> b -> a" in report.first_failure.text()


@pytest.mark.parametrize(
    "rules",
    [
        *({"delivery": "no"}, {"time": "no"}, {"fair_after": 0}, {"fair_after": 9, "max_steps": 8}),
        *({"fair_after": "9"}, {"max_steps": None}, {"max_steps": 2e3}, {"fair_after": True}),
    ],
)
def test_rules_that_are_none_are_refused_as_options_are(rules: dict[str, object]) -> None:
    with pytest.raises(OptionRefused, match=r"delivery|time|fair_after"):
        Rules(**rules)  # type: ignore[arg-type]


SCRIPT = """
from _models.toy import play_of
from _models.planted import PLANTED, noise
from trouper.testing.schedules import search, svg_chart
for make, rules in PLANTED.values():
    for strategy in ("portfolio", "dfs"):
        scene = make(fixed=False)
        scene = noise(scene) if strategy == "portfolio" else scene
        report = search(play_of(scene), strategy=strategy, rules=rules)
        print(report, report.first_failure.text(), svg_chart(report.first_failure))
        print(sorted(report.signatures))
"""


def test_nothing_depends_on_the_order_of_a_set() -> None:
    def printed(seed: str) -> str:
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT / 'src'}",
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert printed("1") == printed("2") != ""


def test_importing_testing_does_not_load_the_explorer() -> None:
    code = "import sys, trouper.testing; print(*(m for m in sys.modules if 'schedules' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["trouper.errors._schedules"]


def test_in_the_fair_tail_timers_come_when_all_else_is_at_rest() -> None:
    timer, mail = Event("timer", "a", "a", "t"), message("b", "x")
    made = course(timer, message("c", "x"), time="anytime", fair_after=1)
    took(made, message("c", "x"), mail)
    assert made.next([timer, mail]) == mail
    made.done(mail, Footprint())
    assert made.next([timer]) == timer

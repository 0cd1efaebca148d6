"""A failure is found, told in few words, and found again from its token after unrelated edits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from _models.edits import EDITS
from _models.planted import PLANTED, allocators, finalise, go, noise, plain
from _models.toy import Scene, Toy, Turn, play_of
from trouper.errors import (
    Deadlock,
    ScheduleDiverged,
    TokenForeign,
    TokenGarbled,
    TokenStale,
    UnknownStrategy,
)
from trouper.testing.schedules import (
    Course,
    Event,
    Failure,
    Rules,
    Token,
    encode_token,
    model_digest,
    replay,
    search,
)


def found(name: str, **options: Any) -> Failure:
    make, rules = PLANTED[name]
    report = search(play_of(noise(make(fixed=False))), rules=rules, **options)
    assert report.first_failure is not None
    return report.first_failure


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_among_noise_is_found_within_a_hundred_schedules(name: str) -> None:
    make, rules = PLANTED[name]
    report = search(play_of(noise(make(fixed=False))), rules=rules, budget=100)
    assert report.first_failure is not None
    assert 1 < report.schedules <= 100  # never by the ordinary order, which is the first
    assert len(report.first_failure.constraints) <= 2
    assert not report.first_failure.needs_tape


@pytest.mark.parametrize("name", PLANTED)
def test_the_fixed_form_among_noise_is_clean_and_the_spent_budget_is_a_result(name: str) -> None:
    make, rules = PLANTED[name]
    report = search(play_of(noise(make(fixed=True))), rules=rules, budget=25)
    assert (report.failures, report.exhausted, report.schedules) == (0, False, 25)
    assert "25 explored, not exhausted" in str(report)


def test_the_first_schedule_of_the_portfolio_is_the_ordinary_one() -> None:
    taken: list[list[Event]] = []

    def play(course: Course) -> None:
        play_of(allocators(fixed=False))(course)
        taken.append([step.event for step in course.trace.steps])

    search(play, strategy="fifo")
    search(play, budget=1)
    assert taken[0] == taken[1]


def test_a_seed_is_a_set_of_schedules() -> None:
    def traces(seed: int) -> frozenset[bytes]:
        return search(play_of(noise(finalise(3, fixed=True))), budget=20, seed=seed).signatures

    assert traces(1) == traces(1)
    assert traces(1) != traces(2)


def test_after_a_failure_it_goes_on_only_when_told_to() -> None:
    play = play_of(allocators(3, fixed=False, stagger=0))
    assert search(play, strategy="walk", budget=30).failures == 1
    assert search(play, strategy="walk", budget=30, keep_going=True).failures > 1


@pytest.mark.parametrize(
    "strategy", ["", "DFS", "pct", "pct:0", "pct:10", "pct:-1", "pct:x", "pct:N"]
)
def test_an_unknown_strategy_is_refused_with_those_there_are(strategy: str) -> None:
    with pytest.raises(UnknownStrategy, match="portfolio, dfs") as caught:
        search(play_of(finalise(fixed=True)), strategy=strategy)
    assert caught.value.strategy == strategy


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        search(play_of(finalise(fixed=True)), budget=0)


# --- how it is told -------------------------------------------------------------------------------


def test_a_failure_is_told_in_the_order_in_which_it_is_read() -> None:
    make, rules = PLANTED["read-then-max"]
    report = search(
        play_of(make(fixed=False)),
        strategy="dfs",
        rules=rules,
        scenario="two drivers",
        rerun="pytest t.py::test --schedule-replay {token}",
        keep_going=True,
    )
    assert report.first_failure is not None
    lines = report.first_failure.text().splitlines()
    token = report.first_failure.token
    assert lines == [
        "AssertionError: a rank was given twice: [1, 1]",
        "",
        "at `store`: d1's Max before d0's Put",
        "",
        "  store  d0's Max, d1's Max, d0's Put, d1's Put",
        "",
        token,
        f"pytest t.py::test --schedule-replay {token}",
        f"schedule 2 of {report.schedules}, exhausted",
    ]


def test_a_failure_in_the_ordinary_order_says_so() -> None:
    scene = Scene(lambda: {"a": plain(lambda what, payload: 1 / 0)}, go("a"))
    report = search(play_of(scene))
    assert report.first_failure is not None
    assert "It fails in the ordinary order, too." in report.first_failure.text()
    assert "schedule 1 of 1000" in report.first_failure.text()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bump before fence", "before `old`: the commit rows (both touch journal key row)"),
        ("two-transaction finalise", "the crash right after `c0`: the commit row"),
        ("lost wake-up", "at `box`: producer.5's Put before consumer's Wait"),
        ("announce after arm", "at `hub`: timer of hub's Due before actor's Announce"),
    ],
)
def test_a_constraint_reads_like_the_explanation(name: str, says: str) -> None:
    assert says in found(name).text()


@pytest.mark.proves("Schedules: deadlock")
def test_a_deadlock_shows_who_waits_for_whom() -> None:
    error = found("ancestor pool").error
    assert isinstance(error, Deadlock)
    assert {(waiter, target) for waiter, target, _ in error.waits} == {
        ("p0", "c0"),
        ("p1", "c1"),
        ("c0", "pool"),
        ("c1", "pool"),
    }


# --- replay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANTED)
def test_a_token_replays_the_failure_and_passes_once_it_is_fixed(name: str) -> None:
    make, _ = PLANTED[name]
    failure = found(name, scenario=name)
    again = replay(play_of(noise(make(fixed=False))), failure.token, scenario=name)
    assert again is not None
    assert (type(again.error), str(again.error)) == (type(failure.error), str(failure.error))
    assert again.token == failure.token
    assert [step.event for step in again.steps] == [step.event for step in failure.steps]


def test_a_token_passes_where_the_bug_is_fixed_and_the_events_are_still_there() -> None:
    token = found("lost wake-up").token
    make, _ = PLANTED["lost wake-up"]
    assert replay(play_of(noise(make(fixed=True))), token) is None


@pytest.mark.proves("Schedules: tokens")
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("name", PLANTED)
def test_a_token_survives_unrelated_edits(name: str, edit: Callable[[Scene], Scene]) -> None:
    make, rules = PLANTED[name]
    report = search(play_of(make(fixed=False)), rules=rules, budget=200)
    assert report.first_failure is not None
    edited = edit(make(fixed=False))
    again = replay(play_of(edited), report.first_failure.token)
    assert again is not None
    assert type(again.error) is type(report.first_failure.error)


def test_a_token_of_another_scenario_is_refused() -> None:
    token = found("read-then-max", scenario="one").token
    with pytest.raises(TokenForeign, match="another scenario"):
        replay(play_of(allocators(fixed=False)), token, scenario="two")


def test_a_stale_token_names_what_is_gone() -> None:
    token = found("two-transaction finalise").token
    with pytest.raises(TokenStale, match="the commit row") as caught:
        replay(play_of(noise(finalise(1, fixed=True))), token)
    assert "`c0`: the commit row" in caught.value.missing


def test_what_is_no_token_is_refused() -> None:
    with pytest.raises(TokenGarbled):
        replay(play_of(finalise(fixed=True)), "T1.nonsense")


def taped(scene: Scene, rules: Rules, tape: tuple[Event, ...]) -> Failure | None:
    token = Token(model_digest("scenario"), (), tape, rules.delivery, rules.time)
    return replay(play_of(scene), encode_token(token))


@pytest.mark.proves("Schedules: divergence")
def test_a_tape_replays_every_step_and_names_the_first_divergence() -> None:
    failure = found("read-then-max")
    make, rules = PLANTED["read-then-max"]
    tape = tuple(step.event for step in failure.steps)
    again = taped(noise(make(fixed=False)), rules, tape)
    assert again is not None
    assert [step.event for step in again.steps] == list(tape)
    with pytest.raises(ScheduleDiverged, match="was recorded as"):
        taped(noise(make(fixed=True)), rules, tape)


def test_a_tape_ends_in_rest_or_in_the_ordinary_order() -> None:
    make, rules = PLANTED["two-transaction finalise"]
    failure = found("two-transaction finalise")
    tape = tuple(step.event for step in failure.steps)
    assert taped(noise(make(fixed=False)), rules, tape) is not None
    ordinary = search(play_of(make(fixed=False)), strategy="fifo", rules=rules)
    assert ordinary.failures == 0
    assert taped(make(fixed=False), rules, (Event("deliver", "c0", "main.0", "Go"),)) is None


def test_a_failure_that_no_order_explains_keeps_the_whole_schedule() -> None:
    """It depends on steps that touch, unknown to the explorer, a common object."""
    late = allocators(fixed=False)

    def actors() -> dict[str, Any]:
        log: list[str] = []

        def note(toy: Toy, what: str, payload: Any) -> Turn:
            log.append(what)
            assert log[:1] != ["Second"], "the second was first"
            return
            yield

        return {"a": note, "b": note} | late.actors()

    scene = Scene(actors, [("x", "a", "First", None), ("y", "b", "Second", None)])
    report = search(play_of(scene), strategy="walk", budget=50)
    failure = report.first_failure
    assert failure is not None
    assert failure.needs_tape
    assert "It takes the whole schedule" in failure.text()
    assert replay(play_of(scene), failure.token) is not None


@pytest.mark.parametrize("seed", range(5))
def test_shrinking_needs_few_replays(seed: int) -> None:
    played = 0

    def play(course: Course) -> None:
        nonlocal played
        played += 1
        play_of(noise(allocators(fixed=False, stagger=6)))(course)

    report = search(play, seed=Random(seed).getrandbits(32), budget=100)
    assert report.first_failure is not None
    assert len(report.first_failure.constraints) <= 2
    assert played - report.schedules <= 30

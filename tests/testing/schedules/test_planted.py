"""Planted bugs in real actors are found on the real runtime as fast as in the models."""

from __future__ import annotations

from typing import Any

import pytest

from _models.actors import PLANTED, Make
from trouper.errors import Deadlock
from trouper.testing import Failure, explore


def found(make: Make, *, noise: int = 0, **options: Any) -> Failure:
    rules = next(rules for known, rules in PLANTED.values() if known is make)
    report = explore(make(fixed=False, noise=noise), rules=rules, **options)
    assert report.first_failure is not None
    return report.first_failure


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_it_does_not_show_in_the_ordinary_order(name: str) -> None:
    make, rules = PLANTED[name]
    assert explore(make(fixed=False, noise=16), strategy="fifo", rules=rules).failures == 0


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_it_is_found_within_ten_reduced_schedules(name: str) -> None:
    make, rules = PLANTED[name]
    report = explore(make(fixed=False), strategy="dfs", budget=10, rules=rules)
    assert report.first_failure is not None
    assert not report.first_failure.needs_tape


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_it_is_found_among_noise_within_a_hundred_schedules(name: str) -> None:
    make, rules = PLANTED[name]
    report = explore(make(fixed=False, noise=16), budget=100, rules=rules)
    assert report.first_failure is not None
    assert len(report.first_failure.constraints) <= 2
    assert not report.first_failure.needs_tape


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_the_fixed_form_exhausts_clean(name: str) -> None:
    make, rules = PLANTED[name]
    report = explore(make(fixed=True), strategy="dfs", budget=100, rules=rules)
    assert (report.exhausted, report.failures) == (True, 0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("read-then-max", "at `ledger`: d1's Max before d0's Put"),
        ("lost wake-up", "at `box`: hop5's Go before consumer's Await"),
        ("announce after arm", "at `hub`: alarm's Due before planner's Announce"),
        ("two-transaction finalise", "the crash right after `child`: the commit"),
    ],
)
def test_a_constraint_reads_like_the_explanation(name: str, says: str) -> None:
    make, _ = PLANTED[name]
    assert says in found(make, strategy="dfs").text()


@pytest.mark.proves("Schedules: deadlock")
def test_a_deadlock_shows_who_waits_for_whom() -> None:
    error = found(PLANTED["ancestor pool"][0], noise=16).error
    assert isinstance(error, Deadlock)
    assert {(waiter, target) for waiter, target, _ in error.waits} == {
        ("p0", "c0"),
        ("p1", "c1"),
        ("c0", "pool"),
        ("c1", "pool"),
    }


# --- tokens survive edits -------------------------------------------------------------------------

EDITS: dict[str, dict[str, Any]] = {
    "an actor and a message": {"noise": 2},
    "messages": {"noise": 16},
    "a longer chain": {"more": 3},
    "everything": {"noise": 8, "more": 2},
}


@pytest.mark.proves("Schedules: tokens")
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", PLANTED)
def test_a_token_survives_unrelated_edits(name: str, edit: str) -> None:
    make, rules = PLANTED[name]
    failure = found(make, budget=200)
    report = explore(make(fixed=False, **EDITS[edit]), token=failure.token, rules=rules)
    assert report.first_failure is not None
    assert type(report.first_failure.error) is type(failure.error)

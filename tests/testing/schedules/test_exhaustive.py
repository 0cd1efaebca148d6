"""Reduction leaves out only what commutes: three searches see the same kinds of schedules."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.testing.schedules.models import COMPARED, drawn

from _models.planted import PLANTED, allocators, go, plain, takeover
from _models.toy import Ask, Scene, Tell, Touch, Toy, Turn, play_of
from trouper.errors import NeverQuiesced, ScheduleDiverged
from trouper.testing.schedules import Report, Rules, search


def explored(scene: Scene, rules: Rules, strategy: str, budget: int = 8000) -> Report:
    return search(
        play_of(scene), strategy=strategy, rules=rules, budget=budget, keep_going=True, tries=1
    )


@pytest.mark.proves("Schedules: reduction leaves out only what commutes")
@pytest.mark.parametrize("name", COMPARED)
def test_all_searches_see_the_same_traces(name: str) -> None:
    scene, rules = COMPARED[name]
    naive, sleep, reduced = (explored(scene, rules, s) for s in ("naive", "sleep", "dfs"))
    assert naive.exhausted
    assert sleep.exhausted
    assert reduced.exhausted
    assert naive.signatures == sleep.signatures == reduced.signatures
    assert bool(naive.failures) == bool(sleep.failures) == bool(reduced.failures)
    assert reduced.schedules <= sleep.schedules <= naive.schedules
    if not scene.crashes:
        # nothing is played twice; with a crash, what it took away without a trace may be
        assert reduced.schedules - reduced.redundant == reduced.traces


@pytest.mark.proves("Schedules: reduction leaves out only what commutes")
@settings(max_examples=25, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
@example(1189)  # a cut-off schedule hides what a busy actor never took
@example(1581)  # what a crash would take away cannot come after it
def test_all_searches_see_the_same_traces_of_any_program(seed: int) -> None:
    scene, rules = drawn(Random(seed))
    naive = explored(scene, rules, "naive", budget=410)
    assume(naive.exhausted)
    sleep, reduced = (explored(scene, rules, s) for s in ("sleep", "dfs"))
    assert naive.signatures == sleep.signatures == reduced.signatures


def test_reduction_saves_what_it_promises() -> None:
    scene = allocators(fixed=False, stagger=2)
    counts = [explored(scene, Rules(), s).schedules for s in ("naive", "sleep", "dfs")]
    assert counts == [792, 25, 6]


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_within_ten_reduced_schedules(name: str) -> None:
    make, rules = PLANTED[name]
    report = search(play_of(make(fixed=False)), strategy="dfs", rules=rules)
    assert report.first_failure is not None
    assert report.schedules <= 10


@pytest.mark.proves("Schedules: planted bugs")
@pytest.mark.parametrize("name", PLANTED)
def test_the_fixed_form_exhausts_clean(name: str) -> None:
    make, rules = PLANTED[name]
    report = search(play_of(make(fixed=True)), strategy="dfs", rules=rules)
    assert (report.exhausted, report.failures) == (True, 0)


def test_unrelated_messages_do_not_multiply_reduced_schedules() -> None:
    def chatty(scene: Scene) -> Scene:
        def actors() -> dict[str, Any]:
            return scene.actors() | {f"n{n}": plain(lambda what, payload: None) for n in range(8)}

        return Scene(actors, [*scene.mail, *go(*(f"n{n}" for n in range(8)))], scene.check)

    bare, with_noise = takeover(fixed=True), chatty(takeover(fixed=True))
    rules = Rules(time="anytime")
    assert explored(with_noise, rules, "dfs").schedules == explored(bare, rules, "dfs").schedules


def two(handler: Callable[..., Turn]) -> Scene:
    """Two actors that run one handler, and a third that they may send to."""
    third = plain(lambda what, payload: None)
    return Scene(lambda: {"a": handler, "b": handler, "c": third}, go("a", "b"))


@pytest.mark.proves("Schedules: divergence")
def test_a_step_that_touches_something_else_when_replayed_is_named() -> None:
    tick = count()

    def handler(toy: Toy, what: str, payload: Any) -> Turn:
        yield Touch(f"thing {next(tick)}")
        yield Tell("c", "Hello")

    with pytest.raises(ScheduleDiverged, match=r"step 1, `a` gets main\.0's Go"):
        search(play_of(two(handler)), strategy="dfs")


@pytest.mark.proves("Schedules: divergence")
def test_a_schedule_that_goes_another_way_when_replayed_is_named() -> None:
    tick = count()

    def handler(toy: Toy, what: str, payload: Any) -> Turn:
        yield Tell("c", f"Hello {next(tick)}")

    with pytest.raises(ScheduleDiverged) as caught:
        search(play_of(two(handler)), strategy="naive")
    assert "can" in str(caught.value)
    assert caught.value.step >= 1
    assert any("Hello" in option for option in caught.value.found)


def polling() -> Scene:
    """An actor that asks itself again, for ever, whether another has begun: never fairly."""

    def actors() -> dict[str, Any]:
        state = {"ready": False}

        def poller(toy: Toy, what: str, payload: Any) -> Turn:
            yield Touch("state")
            if not state["ready"]:
                yield Tell("poller", "Again")

        def setter(toy: Toy, what: str, payload: Any) -> Turn:
            yield Touch("state")
            state["ready"] = True

        return {"poller": poller, "setter": setter}

    return Scene(actors, go("poller", "setter"))


@pytest.mark.proves("Schedules: a fair order ends what polls")
def test_the_fair_order_ends_what_polls_and_the_search_is_not_exhausted() -> None:
    rules = Rules(fair_after=20, max_steps=100)
    report = explored(polling(), rules, "dfs", budget=100)
    assert report.failures == 0
    assert not report.exhausted


@pytest.mark.proves("Schedules: a fair order ends what polls")
@pytest.mark.parametrize("strategy", ["fifo", "pos", "walk", "pct:3", "dfs", "naive"])
def test_what_never_rests_fails_with_its_name(strategy: str) -> None:
    def handler(toy: Toy, what: str, payload: Any) -> Turn:
        yield Tell("c", "Again")

    scene = Scene(lambda: {"c": handler}, go("c"))
    report = search(play_of(scene), strategy=strategy, rules=Rules(fair_after=5, max_steps=30))
    assert report.first_failure is not None
    error = report.first_failure.error
    assert isinstance(error, NeverQuiesced)
    assert error.steps == 30
    assert "`c` gets c's Again" in str(error)


def test_a_step_that_fails_keeps_the_search_from_being_called_exhausted() -> None:
    def handler(toy: Toy, what: str, payload: Any) -> Turn:
        yield Ask("c", "Get")
        raise ValueError("no")

    report = explored(two(handler), Rules(), "dfs")
    assert report.failures >= 1
    assert not report.exhausted

"""Restart rules, as properties of pure functions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.supervision import (
    Backoff,
    Escalate,
    Forget,
    History,
    Intensity,
    Restart,
    RestartAfter,
    check_restart,
    decide,
    one_for_all,
    one_for_one,
)

times = st.lists(st.floats(0, 1000, allow_nan=False), max_size=40).map(sorted)
chances = st.floats(0, 1, exclude_max=True)
policies = st.sampled_from(["permanent", "transient", "never"])


@given(times=times, limit=st.integers(0, 5), period=st.floats(0.1, 100))
@pytest.mark.proves("Supervision: sliding-window intensity")
def test_no_window_holds_more_restarts_than_the_intensity_allows(
    times: list[float], limit: int, period: float
) -> None:
    intensity = Intensity(limit, period)
    window: tuple[float, ...] = ()
    admitted: list[float] = []
    for now in times:
        allowed = intensity.add(window, now)
        recent = [t for t in admitted if now - t < period]
        assert (allowed is None) == (len(recent) >= limit)
        if allowed is not None:
            window = allowed
            admitted.append(now)
        assert len(window) <= limit  # bounded, however long it goes on


@given(
    attempt=st.integers(0, 10**6),
    chance=chances,
    first=st.floats(0.001, 10),
    factor=st.floats(1, 100),
    spread=st.floats(1, 1000),
    jitter=st.floats(0, 1),
)
@pytest.mark.proves("Supervision: long periods do not overflow")
def test_a_delay_stays_within_its_cap_and_its_jitter_and_never_overflows(
    attempt: int, chance: float, first: float, factor: float, spread: float, jitter: float
) -> None:
    backoff = Backoff(first, factor, first * spread, jitter)
    full = backoff.delay(attempt, 0.0)
    assert 0 < full <= backoff.cap * (1 + 1e-9)
    assert backoff.delay(attempt + 1, 0.0) >= full * (1 - 1e-9)
    assert full * (1 - jitter) * (1 - 1e-9) <= backoff.delay(attempt, chance) <= full


@pytest.mark.proves("Supervision: exponential back-off")
def test_delays_grow_by_the_factor_up_to_the_cap() -> None:
    backoff = Backoff(first=1, factor=2, cap=5, jitter=0)
    assert [backoff.delay(n, 0.5) for n in range(5)] == [1, 2, 4, 5, 5]


@given(restart=policies, failed=st.booleans(), now=st.floats(0, 1e9))
@pytest.mark.proves("Supervision: policies")
def test_the_policy_decides_who_comes_back(restart: Restart, failed: bool, now: float) -> None:
    verdict = decide(one_for_one(), restart, History(), failed=failed, now=now)
    if restart == "permanent" or (restart == "transient" and failed):
        assert isinstance(verdict, RestartAfter)
        assert verdict.delay == 0.0
    elif failed:
        assert verdict == Escalate(is_limit=False)
    else:
        assert verdict == Forget()


@given(gaps=st.lists(st.floats(0, 2), min_size=1, max_size=30), limit=st.integers(0, 4))
@pytest.mark.proves("Supervision: over the budget")
def test_one_restart_too_many_escalates_as_the_limit(gaps: list[float], limit: int) -> None:
    strategy = one_for_one(intensity=Intensity(limit, 5.0))
    history, now = History(), 0.0
    restarts: list[float] = []
    for gap in gaps:
        now += gap
        verdict = decide(strategy, "permanent", history, failed=True, now=now)
        inside = [t for t in restarts if now - t < 5.0]
        if len(inside) >= limit:
            assert verdict == Escalate(is_limit=True)
            return
        assert isinstance(verdict, RestartAfter)
        history = verdict.history
        restarts.append(now)


@pytest.mark.proves("Supervision: seeded jitter and reset")
def test_a_child_that_lived_long_enough_begins_its_back_off_anew() -> None:
    strategy = one_for_one(
        intensity=Intensity(100, 1.0), backoff=Backoff(1, 2, 100, jitter=0, reset=10)
    )
    history, delays = History(), []
    for now in (0, 1, 3, 7, 25, 26):
        verdict = decide(strategy, "permanent", history, failed=True, now=now)
        assert isinstance(verdict, RestartAfter)
        history = verdict.history
        delays.append(verdict.delay)
    assert delays == [1, 2, 4, 8, 1, 2]


@given(waits=st.integers(1, 30), reset=st.floats(0.01, 100))
@pytest.mark.proves("Supervision: seeded jitter and reset")
def test_a_wait_is_no_life_however_long_it_was(waits: int, reset: float) -> None:
    """A child that fails at once, again and again, comes back ever more slowly."""
    backoff = Backoff(1, 2, 1e6, jitter=0, reset=reset)
    strategy = one_for_one(intensity=Intensity(100), backoff=backoff)
    history, now = History(), 0.0
    for attempt in range(waits):
        verdict = decide(strategy, "permanent", history, failed=True, now=now)
        assert isinstance(verdict, RestartAfter)
        assert verdict.delay == min(2.0**attempt, 1e6)
        history, now = verdict.history, now + verdict.delay


@given(
    gaps=st.lists(st.floats(0, 1e300), max_size=30),
    period=st.floats(1e-300, allow_nan=False),
    limit=st.integers(0, 3),
)
@pytest.mark.proves("Supervision: long periods do not overflow")
def test_periods_and_times_of_any_length_keep_the_window_exact_and_small(
    gaps: list[float], period: float, limit: int
) -> None:
    strategy = one_for_all(intensity=Intensity(limit, period), backoff=Backoff())
    history, now, counted = History(), 0.0, list[float]()
    for gap in gaps:
        now += gap
        verdict = decide(strategy, "permanent", history, failed=True, now=now)
        inside = [t for t in counted if now - t < period]
        assert isinstance(verdict, Escalate) == (len(inside) >= limit)
        if isinstance(verdict, RestartAfter):
            history = verdict.history
            counted.append(now)
            assert list(history.window) == [*inside, now]


@given(chance=chances)
@pytest.mark.proves("Supervision: seeded jitter and reset")
def test_the_same_random_number_gives_the_same_verdict(chance: float) -> None:
    strategy = one_for_one(backoff=Backoff())
    once, again = (
        decide(strategy, "permanent", History(), failed=True, now=1.0, chance=chance)
        for _ in range(2)
    )
    assert once == again


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Intensity(-1), "limit"),
        (lambda: Intensity(1, 0), "period"),
        (lambda: Backoff(first=0), "first"),
        (lambda: Backoff(first=2, cap=1), "cap"),
        (lambda: Backoff(cap=math.inf), "cap"),
        (lambda: Backoff(factor=0.5), "factor"),
        (lambda: Backoff(jitter=2), "jitter"),
        (lambda: Backoff(reset=0), "reset"),
        (lambda: check_restart("always"), "permanent, transient, never"),
    ],
)
def test_a_senseless_setting_is_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=says):
        make()

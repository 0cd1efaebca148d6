"""The rule of retries: which failures are followed by another attempt, and how long after."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper import Backoff, effect
from trouper.actors.groups import ErrorRecord, Failed
from trouper.actors.groups._outcome import timed_out
from trouper.actors.groups._retries import Retries, Retry, chance
from trouper.errors import Reject

FAILED = Failed(ErrorRecord.of(OSError("no route")))
backoffs = st.builds(
    Backoff,
    first=st.floats(0.01, 1),
    factor=st.floats(1, 4),
    cap=st.floats(1, 100),
    jitter=st.floats(0, 1),
)


class Declined(Exception):
    """A definite answer of somebody else's library."""


@given(st.integers(1, 50), backoffs, st.text(max_size=20))
def test_exactly_so_many_attempts_fail(attempts: int, backoff: Backoff, key: str) -> None:
    retries = Retries(attempts, backoff)
    for failures in range(attempts - 1):
        again = retries.decide(key, failures, FAILED)
        assert isinstance(again, Retry)
        assert again.failed is FAILED
        longest = min(backoff.cap, backoff.first * backoff.factor**failures)
        assert (1 - backoff.jitter) * longest <= again.after * (1 + 1e-9)
        assert again.after <= longest * (1 + 1e-9)
        assert again == retries.decide(key, failures, FAILED), "the same wait in every process"
    for failures in (attempts - 1, attempts, attempts + 3):  # more failed where more were allowed
        assert retries.decide(key, failures, FAILED) is FAILED


@given(st.text(), st.integers(0, 100))
def test_jitter_depends_on_the_effect_and_its_failures_alone(key: str, failures: int) -> None:
    drawn = chance(key, failures)
    assert 0 <= drawn < 1
    assert drawn == chance(key, failures)
    assert len({drawn, chance(key, failures + 1), chance(f"{key}'", failures)}) == 3


def test_effects_that_fail_together_do_not_come_back_together() -> None:
    retries = Retries(2, Backoff(10, jitter=0.5))
    waits = [retries.decide(f"k/{n}", 0, FAILED) for n in range(100)]
    assert len({w.after for w in waits if isinstance(w, Retry)}) == 100


def test_a_timeout_is_retried_and_unknown_when_it_was_the_last() -> None:
    late = timed_out("charge", "k/0", 5)
    assert isinstance(Retries(2).decide("k/0", 0, late), Retry)
    last = Retries(2).decide("k/0", 1, late)
    assert isinstance(last, Failed)
    assert last.unknown


@pytest.mark.parametrize(
    ("error", "definite"),
    [
        (Reject("no funds"), True),
        (Declined(), True),
        (type("Worse", (Declined,), {})(), True),
        (OSError(), False),
        (ExceptionGroup("two", [OSError(), Declined()]), True),
        (ExceptionGroup("two", [OSError(), ExceptionGroup("in", [Reject("no")])]), True),
        (ExceptionGroup("two", [OSError(), ValueError()]), False),
    ],
    ids=repr,
)
def test_an_answer_is_definite_wherever_it_is(error: Exception, definite: bool) -> None:
    assert Retries(9, definite=(Declined,)).is_definite(error) is definite


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"attempts": 0}, ValueError, "attempts must be a whole number from 1"),
        ({"attempts": -1}, ValueError, "attempts"),
        ({"attempts": 2.0}, ValueError, "attempts"),
        ({"attempts": float("inf")}, ValueError, "attempts"),
        ({"attempts": True}, ValueError, "attempts"),
        ({"definite": OSError}, TypeError, "tuple of exception types"),
        ({"definite": [OSError]}, TypeError, "tuple of exception types"),
        ({"definite": (OSError("x"),)}, TypeError, "tuple of exception types"),
        ({"definite": (KeyboardInterrupt,)}, TypeError, "tuple of exception types"),
        ({"timeout": 0}, ValueError, "timeout"),
    ],
)
def test_senseless_options_are_refused_at_the_decorator(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):

        @effect(name="never", **options)
        async def never() -> None: ...

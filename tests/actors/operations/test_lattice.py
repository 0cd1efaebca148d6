"""The status lattice, as a pure function: every order of arrival ends in the same record."""

from __future__ import annotations

from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.actors.operations import Observation, OperationState, OperationStatus, settle

PENDING, RUNNING, UNKNOWN, FAILED, COMPLETED = OperationStatus
ORDER = [PENDING, RUNNING, UNKNOWN, FAILED, COMPLETED]

statuses = st.sampled_from(ORDER)
results = st.sampled_from([b"a", b"b"])


def seen(status: OperationStatus, result: bytes = b"r", attempt: int = 1) -> Observation:
    return Observation(attempt, status, result if status.terminal else b"")


observations = st.builds(seen, statuses, results, st.integers(1, 3))


def merged(*observed: Observation) -> OperationState:
    return reduce(settle, observed, OperationState())


@given(st.lists(observations, max_size=6))
def test_the_status_is_the_highest_that_was_observed(observed: list[Observation]) -> None:
    highest = max([PENDING, *(o.status for o in observed)], key=ORDER.index)
    assert merged(*observed).status is highest


@given(st.lists(observations, max_size=5))
def test_every_prefix_is_monotone(observed: list[Observation]) -> None:
    state = OperationState()
    for observation in observed:
        after = settle(state, observation)
        assert ORDER.index(after.status) >= ORDER.index(state.status)
        if state.status is COMPLETED:
            assert (after.status, after.result, after.version) == (
                state.status,
                state.result,
                state.version,
            )
        state = after


@pytest.mark.parametrize(
    "observed",
    [
        [seen(RUNNING), seen(COMPLETED), seen(UNKNOWN)],
        [seen(RUNNING), seen(COMPLETED), seen(COMPLETED), seen(UNKNOWN)],
        [seen(RUNNING), seen(FAILED), seen(COMPLETED)],
        [seen(RUNNING), seen(UNKNOWN), seen(FAILED), seen(COMPLETED)],
    ],
)
def test_every_order_of_two_and_three_attempts_ends_in_the_same_record(
    observed: list[Observation],
) -> None:
    ends = {(s.status, s.result) for order in permutations(observed) for s in [merged(*order)]}
    assert ends == {(COMPLETED, b"r")}


def test_timeout_after_success_keeps_the_result() -> None:
    state = merged(seen(RUNNING), seen(COMPLETED), seen(UNKNOWN))
    assert (state.status, state.result, state.ignored) == (COMPLETED, b"r", 1)


def test_success_after_timeout_upgrades_with_its_result() -> None:
    state = merged(seen(RUNNING), seen(UNKNOWN), seen(COMPLETED))
    assert (state.status, state.result) == (COMPLETED, b"r")


def test_a_second_success_with_another_result_is_kept_as_a_conflict() -> None:
    state = merged(seen(COMPLETED, b"first"), seen(COMPLETED, b"second", attempt=2))
    assert (state.result, state.conflicts, state.version) == (b"first", 1, 1)
    assert state.observations[-1].note == "conflict"


def test_the_log_of_observations_is_bounded_and_keeps_the_newest() -> None:
    state = merged(*[seen(UNKNOWN, attempt=n) for n in range(1, 200)])
    assert len(state.observations) == 32
    assert state.observations[-1].attempt == 199

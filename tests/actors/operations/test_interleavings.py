"""Every interleaving of two and three attempts ends in the same record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.actors.operations import (
    Observation,
    OperationState,
    OperationStatus,
    refuse,
    settle,
)

PENDING, RUNNING, UNKNOWN, FAILED, COMPLETED = OperationStatus
ORDER = [PENDING, RUNNING, UNKNOWN, FAILED, COMPLETED]
STARTED = Observation(1, RUNNING)
TIMEOUT, CRASH = Observation(0, UNKNOWN), Observation(1, UNKNOWN, note="its owner is gone")
SUCCESS = Observation(1, COMPLETED, b"r")  # idempotent under the key: all successes are one
FAILURE = Observation(1, FAILED, b"e")

# What one attempt, and the caller who waits for it, may see, in this order.
ATTEMPTS: dict[str, tuple[Observation, ...]] = {
    "success": (STARTED, SUCCESS),
    "success, then the caller's timeout": (STARTED, SUCCESS, TIMEOUT),
    "timeout, then success": (STARTED, TIMEOUT, SUCCESS),
    "success, recorded twice": (STARTED, SUCCESS, SUCCESS),
    "failure": (STARTED, FAILURE),
    "timeout, then failure": (STARTED, TIMEOUT, FAILURE),
    "a lost answer": (STARTED, CRASH),
    "a crash between effect and record, then a takeover": (STARTED, CRASH, STARTED, SUCCESS),
    "nothing but a timeout": (TIMEOUT,),
}


def merged(state: OperationState, seen: Observation) -> OperationState:
    """Merge, and look at what every merge must keep."""
    after = settle(state, seen)
    assert ORDER.index(after.status) >= ORDER.index(state.status), "never downgraded"
    if state.status is COMPLETED:
        assert (after.result, after.version) == (state.result, state.version), "absorbing"
    assert bool(after.result) == after.status.terminal, "a result comes with its status, and stays"
    assert after.version == state.version + (after.status is not state.status)
    return after


def ends(attempts: Sequence[Sequence[Observation]]) -> set[tuple[OperationStatus, bytes]]:
    """Return the records that all interleavings end in: over prefixes, not over orders."""
    start = tuple(0 for _ in attempts)
    states: dict[tuple[int, ...], set[OperationState]] = {start: {OperationState()}}
    frontier = [start]
    while frontier:
        following: dict[tuple[int, ...], set[OperationState]] = {}
        for place in frontier:
            for which, attempt in enumerate(attempts):
                if place[which] == len(attempt):
                    continue
                step = (*place[:which], place[which] + 1, *place[which + 1 :])
                seen = attempt[place[which]]
                # The log and the counts say how it came; what it came to must not depend on that.
                found = {
                    replace(merged(state, seen), observations=(), ignored=0, version=state.version)
                    for state in (replace(s, version=0) for s in states[place])
                }
                following.setdefault(step, set()).update(found)
        states |= following
        frontier = list(following)
    last = states[tuple(len(attempt) for attempt in attempts)]
    assert all(state.conflicts == 0 for state in last)
    return {(state.status, state.result) for state in last}


def highest(attempts: Sequence[Sequence[Observation]]) -> tuple[OperationStatus, bytes]:
    best = max((o for attempt in attempts for o in attempt), key=lambda o: ORDER.index(o.status))
    return best.status, best.result


@pytest.mark.parametrize("count", [2, 3])
def test_all_interleavings_of_attempts_end_in_one_record(count: int) -> None:
    for names in combinations_with_replacement(ATTEMPTS, count):
        attempts = [ATTEMPTS[name] for name in names]
        assert ends(attempts) == {highest(attempts)}, names


observations = st.builds(
    lambda attempt, status, result: Observation(
        attempt, status, result if status.terminal else b""
    ),
    st.integers(0, 3),
    st.sampled_from(ORDER),
    st.sampled_from([b"a", b"b"]),
)


@given(st.permutations(range(6)), st.lists(observations, min_size=6, max_size=6))
def test_the_order_never_decides_the_status_nor_whether_there_is_a_conflict(
    order: list[int], observed: list[Observation]
) -> None:
    one = two = OperationState()
    for observation in observed:
        one = merged(one, observation)
    for place in order:
        two = merged(two, observed[place])
    results = {o.result for o in observed if o.status is COMPLETED}
    assert one.status is two.status
    assert (one.conflicts > 0) == (two.conflicts > 0) == (len(results) > 1)
    if len(results) == 1:
        assert one.result == two.result


@given(st.lists(observations, max_size=8), observations)
def test_what_is_refused_changes_nothing_but_the_log(
    before: list[Observation], late: Observation
) -> None:
    state = OperationState()
    for observation in before:
        state = merged(state, observation)
    after = refuse(state, late, why="late")
    assert (after.status, after.result, after.version) == (
        state.status,
        state.result,
        state.version,
    )
    assert after.observations[-1].attempt == late.attempt

"""Combinators: ECMA-262 results, and monotone in the ranks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.actors.groups import (
    Cancelled,
    Combinator,
    Completed,
    ErrorRecord,
    Failed,
    Outcome,
    Rank,
    Verdict,
    WakePolicy,
    Won,
    verdict,
)
from trouper.errors import ActivationCancelled, EffectFailed, Reject, TrouperError

outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.integers(0, 9).map(Completed),
    st.sampled_from("ab").map(lambda text: Failed(ErrorRecord.of(Reject(text, code=text)))),
    st.just(Cancelled()),
)


@st.composite
def complete_groups(draw: st.DrawFn) -> list[Rank]:
    positions = draw(st.permutations(range(draw(st.integers(1, 6)))))
    return [(position, draw(outcomes)) for position in positions]


def told(answer: Verdict | None) -> Any:
    """Make a verdict comparable: exceptions by type, text and facts."""
    return None if answer is None else (answer.value, error(answer.error), answer.consumed)


def error(each: BaseException | None) -> Any:
    if isinstance(each, BaseExceptionGroup):
        return [error(inner) for inner in each.exceptions]
    if isinstance(each, TrouperError):
        return type(each), str(each), each.facts
    return each


@given(st.sampled_from(list(Combinator)), complete_groups())
def test_more_ranks_never_change_an_answer(kind: Combinator, ranks: list[Rank]) -> None:
    final = verdict(kind, len(ranks), ranks)
    assert final is not None, "a settled group has an answer"
    for length in range(len(ranks)):
        early = verdict(kind, len(ranks), ranks[:length])
        assert early is None or told(early) == told(final)
        assert (early is None) is (length < final.consumed), "it comes with the rank that decides"


@given(st.sampled_from([Combinator.RACE, Combinator.ONE]), complete_groups())
def test_race_takes_the_first_settlement(kind: Combinator, ranks: list[Rank]) -> None:
    answer = verdict(kind, len(ranks), ranks)
    assert answer is not None
    position, outcome = ranks[0]
    assert answer.consumed == 1
    match outcome:
        case Completed(value):
            wins = Won(position, value, 1) if kind is Combinator.RACE else value
            assert (answer.value, answer.error) == (wins, None)
        case Failed():
            assert error(answer.error) == error(outcome.exception())
        case Cancelled():
            assert isinstance(answer.error, ActivationCancelled)


@given(complete_groups())
def test_any_of_takes_the_first_success_or_all_errors_in_input_order(ranks: list[Rank]) -> None:
    answer = verdict(Combinator.ANY_OF, len(ranks), ranks)
    assert answer is not None
    successes = [
        (number, position, outcome.value)
        for number, (position, outcome) in enumerate(ranks, 1)
        if isinstance(outcome, Completed)
    ]
    if successes:
        number, position, value = successes[0]
        assert told(answer) == (Won(position, value, number), None, number)
    else:
        assert isinstance(answer.error, ExceptionGroup)
        kinds = [type(each) for each in answer.error.exceptions]
        by_input = [outcome for _, outcome in sorted(ranks, key=lambda rank: rank[0])]
        assert kinds == [
            Reject if isinstance(outcome, Failed) else ActivationCancelled for outcome in by_input
        ]


@given(complete_groups())
def test_all_of_gives_input_order_or_the_first_failure_by_rank(ranks: list[Rank]) -> None:
    answer = verdict(Combinator.ALL_OF, len(ranks), ranks)
    assert answer is not None
    failures = [n for n, (_, outcome) in enumerate(ranks, 1) if not isinstance(outcome, Completed)]
    if failures:
        assert answer.error is not None
        assert answer.consumed == failures[0]
    else:
        by_input = sorted(ranks, key=lambda rank: rank[0])
        values = [outcome.value for _, outcome in by_input if isinstance(outcome, Completed)]
        assert told(answer) == (values, None, len(ranks))


@given(complete_groups())
def test_all_settled_gives_outcomes_in_input_order(ranks: list[Rank]) -> None:
    by_input = [outcome for _, outcome in sorted(ranks, key=lambda rank: rank[0])]
    answer = verdict(Combinator.ALL_SETTLED, len(ranks), ranks)
    assert told(answer) == (by_input, None, len(ranks))


@pytest.mark.parametrize(
    ("kind", "wake"),
    [
        (Combinator.ONE, WakePolicy.FIRST),
        (Combinator.RACE, WakePolicy.FIRST),
        (Combinator.ANY_OF, WakePolicy.FIRST_SUCCESS),
        (Combinator.ALL_OF, WakePolicy.ALL),
        (Combinator.ALL_SETTLED, WakePolicy.ALL),
    ],
)
def test_each_combinator_declares_its_wake_policy(kind: Combinator, wake: WakePolicy) -> None:
    assert kind.wake is wake


def test_an_unregistered_error_is_an_effect_failure() -> None:
    ranks: list[Rank] = [(0, Failed(ErrorRecord.of(KeyError("x"))))]
    answer = verdict(Combinator.RACE, 1, ranks)
    assert answer is not None
    assert isinstance(answer.error, EffectFailed)

"""Combinators: what a step gives, seen the ranks so far. Pure, and monotone in the ranks.

Monotone means that more ranks never change an answer once given, which is what lets a replay with a
longer journal take the same branch (ECMA-262 results, ruling 12). *Cancelled* counts as a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from ..._gathered import Gathered
from ...errors import ActivationCancelled, InvariantError
from ._outcome import Cancelled, Completed, Failed, Outcome
from ._policy import WakePolicy

T_co = TypeVar("T_co", covariant=True)


class Combinator(StrEnum):
    """How a group's ranks become one answer. ``one`` is a plain step."""

    ONE = "one"
    RACE = "race"
    ANY_OF = "any_of"
    ALL_OF = "all_of"
    ALL_SETTLED = "all_settled"

    @property
    def wake(self) -> WakePolicy:
        """Return the wake policy that groups of this combinator declare."""
        match self:
            case Combinator.RACE | Combinator.ONE:
                return WakePolicy.FIRST
            case Combinator.ANY_OF:
                return WakePolicy.FIRST_SUCCESS
            case _:
                return WakePolicy.ALL


@dataclass(frozen=True, slots=True)
class Won(Generic[T_co]):
    """The child that decided a `race` or an `any_of`."""

    position: int
    value: T_co
    rank: int


def in_time(won: Won[Any]) -> Won[Any] | None:
    """Return what a race of a call with its deadline gives: None when the deadline won."""
    return won if won.position == 0 else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a step: a value to send or an error to throw, and the rank that decided it."""

    value: Any
    error: BaseException | None
    consumed: int


Rank = tuple[int, Outcome]
"""Position and outcome; a sequence of them is in rank order."""


def error_of(outcome: Outcome) -> Exception | None:
    """Return the exception that a settled child stands for, or None when it completed."""
    match outcome:
        case Completed():
            return None
        case Failed():
            return outcome.exception()
        case Cancelled():
            return ActivationCancelled("this child was cancelled")


def may_decide(kind: Combinator, children: int, ranks: Sequence[Rank], known: int) -> bool:
    """Tell whether ranks may give an answer, where the first ``known`` of them gave none.

    A caller that asks this first looks at each rank once, however many wake it.
    """
    new = (outcome for _, outcome in ranks[known:])
    match kind:
        case Combinator.ALL_SETTLED:
            decisive = False
        case Combinator.ANY_OF:
            decisive = any(isinstance(outcome, Completed) for outcome in new)
        case Combinator.ALL_OF:
            decisive = any(not isinstance(outcome, Completed) for outcome in new)
        case _:
            decisive = bool(ranks)
    return decisive or len(ranks) >= children


def verdict(kind: Combinator, children: int, ranks: Sequence[Rank]) -> Verdict | None:
    """Return the answer, or None while more ranks are needed."""
    match kind:
        case Combinator.ONE:
            return _first(ranks, won=False)
        case Combinator.RACE:
            return _first(ranks, won=True)
        case Combinator.ANY_OF:
            return _any_of(children, ranks)
        case Combinator.ALL_OF:
            return _all_of(children, ranks)
        case Combinator.ALL_SETTLED:
            if len(ranks) < children:
                return None
            return Verdict(_gathered(ranks, (outcome for _, outcome in ranks)), None, children)
    raise InvariantError(f"no combinator {kind!r}")


def _first(ranks: Sequence[Rank], *, won: bool) -> Verdict | None:
    if not ranks:
        return None
    position, outcome = ranks[0]
    if isinstance(outcome, Completed):
        return Verdict(Won(position, outcome.value, 1) if won else outcome.value, None, 1)
    return Verdict(None, error_of(outcome), 1)


def _any_of(children: int, ranks: Sequence[Rank]) -> Verdict | None:
    for number, (position, outcome) in enumerate(ranks, 1):
        if isinstance(outcome, Completed):
            return Verdict(Won(position, outcome.value, number), None, number)
    if len(ranks) < children:
        return None
    errors = [error for _, outcome in _by_position(ranks) if (error := error_of(outcome))]
    return Verdict(None, ExceptionGroup("every child of any_of failed", errors), children)


def _all_of(children: int, ranks: Sequence[Rank]) -> Verdict | None:
    for number, (_, outcome) in enumerate(ranks, 1):
        if not isinstance(outcome, Completed):
            return Verdict(None, error_of(outcome), number)
    if len(ranks) < children:
        return None
    values = [outcome.value for _, outcome in ranks if isinstance(outcome, Completed)]
    return Verdict(_gathered(ranks, values), None, children)


def _gathered(ranks: Sequence[Rank], results: Iterable[Any]) -> Gathered[Any]:
    """Return results, which come in rank order, by position; their order goes with them."""
    order = [position for position, _ in ranks]
    by_position = dict(zip(order, results, strict=True))
    return Gathered((by_position[place] for place in sorted(order)), order)


def _by_position(ranks: Sequence[Rank]) -> list[Rank]:
    return sorted(ranks, key=lambda rank: rank[0])

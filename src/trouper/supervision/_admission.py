"""Admitting the children of a group as far as there is room: pure, in position order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import BudgetExhausted
from ._budget import Budget
from ._carving import COMES_BACK
from ._entries import Reserved
from ._ledger import NOBODY, Ledger


@dataclass(frozen=True, slots=True)
class Admission:
    """What became of a row of waiting children, in their order: no later one overtakes.

    ``refused`` holds, by place in the row, what the budget could not carry if it waited either; the
    last ``held`` of the row wait until a sibling retires, and hold nothing.
    """

    reserved: tuple[Reserved, ...]
    refused: tuple[tuple[int, BudgetExhausted], ...]
    held: int


def admit(ledger: Ledger, waiting: Sequence[tuple[str, Budget]]) -> Admission:
    """Carve the grants of a group's next children, as far as there is room for them.

    Those that are admitted together get equal parts of what they do not name. Call it again with
    those that are held once a child was settled.

    Args:
        ledger: The parent's. Apply ``reserved`` to it.
        waiting: Children and what is named for each, by position.

    Raises:
        OwnershipError: (*taken*) One of them holds a reservation.
        ShuttingDown: The ledger is closed.
    """
    reserved: list[Reserved] = []
    refused: list[tuple[int, BudgetExhausted]] = []
    for place, (child, asked) in enumerate(waiting):
        rest = len(waiting) - place
        members = max(1, min(rest, ledger.left.live_children))
        try:
            made = ledger.reserve(child, asked, members=members)
        except BudgetExhausted as error:
            if _may_wait(ledger, asked, error):
                return Admission(tuple(reserved), tuple(refused), rest)
            refused.append((place, error))
        else:
            reserved.append(made)
            ledger = ledger.apply(made)
    return Admission(tuple(reserved), tuple(refused), 0)


def _may_wait(ledger: Ledger, asked: Budget, error: BudgetExhausted) -> bool:
    """Tell whether a child that does not fit now would, once its siblings have retired."""
    if error.field not in COMES_BACK:
        return False
    alone = replace(ledger, live=NOBODY, accepted=frozenset())
    try:
        alone.reserve("", asked)
    except BudgetExhausted:
        return False
    return True

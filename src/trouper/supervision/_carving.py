"""How much of a parent's budget one child gets: pure arithmetic that refuses and never clamps."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from ..errors import BudgetExhausted
from ._budget import Budget, Grant

COMES_BACK: Final = frozenset({"memory", "live_children", "live_descendants"})
"""What a sibling gives back when it retires, so that a member of a group may wait for it."""


def carve(given: Grant, left: Grant, asked: Budget, members: int, where: str) -> Grant:
    """Return the grant of one child.

    What is named is granted as named, up to all that is left. Of what is not named, the child gets
    an equal part beside the other ``members`` that are admitted with it and the parent itself: half
    if it comes alone.

    Args:
        given: The parent's grant: the limits.
        left: What of it is neither used nor reserved.
        asked: What is named for this child.
        members: How many children are admitted together, this one counted.
        where: Parent and child, for error texts.

    Raises:
        BudgetExhausted: The parent cannot carry it; ``field`` is the first that falls short.
    """
    for field in ("depth", "live_children", "live_descendants", "calls"):
        if getattr(left, field) < 1:
            exhausted(field, 1, 0, where)
    # The child itself is one call and one living descendant, whatever it is granted beyond that.
    parts = {
        "fuel": (left.fuel, left.fuel),
        "calls": (left.calls - 1, left.calls - members),
        "io_bytes": (left.io_bytes, left.io_bytes),
        "memory": (left.memory, left.memory),
        "live_descendants": (left.live_descendants - 1, left.live_descendants - members),
    }
    granted: dict[str, Any] = {}
    for field, (most, shared) in parts.items():
        amount = getattr(asked, field)
        if amount is not None and amount > most:
            exhausted(field, amount, most, where)
        granted[field] = max(0, shared) // (members + 1) if amount is None else amount
    limits: dict[str, float] = {
        "deadline": given.deadline,
        "depth": given.depth - 1,
        "live_children": given.live_children,
    }
    for field, limit in limits.items():
        amount = getattr(asked, field)
        if amount is not None and amount > limit:
            exhausted(field, amount, limit, where)
        granted[field] = limit if amount is None else amount
    return Grant(**granted)


def exhausted(field: str, asked: float, left: float, where: str) -> NoReturn:
    """Raise the error of a budget that falls short."""
    if field == "deadline":
        what = (
            f"a deadline of {asked}, later than its parent's, {left}; name an earlier one, or none"
        )
    else:
        what = (
            f"{asked} of {field}, and {left} can be had; name less, wait until siblings have "
            "retired, or give the root a larger Budget"
        )
    raise BudgetExhausted(f"{where} asks for {what}", field=field, asked=asked, left=left)

"""A child between two attempts: its failure and its next start, as commands and as a unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ...errors import FenceMoved
from ...store import Tx
from ._rows import CHILD_TABLE, ChildRow, child_key
from ._rules import begin, postpone

if TYPE_CHECKING:
    from ._actor import RunningChild

Then: TypeAlias = Callable[[ChildRow], None]


@dataclass(frozen=True, slots=True)
class Lapse:
    """An attempt failed, and the next one is due at an instant (UTC)."""

    tick: int
    child: RunningChild
    due: float
    then: Then

    def moved(self, row: ChildRow) -> ChildRow:
        """Return the row after it. Raises `FenceMoved` when the claim was lost."""
        return postpone(row, self.child.held, self.due)


@dataclass(frozen=True, slots=True)
class Start:
    """The next attempt is due, and runs as soon as it is counted."""

    tick: int
    child: RunningChild
    then: Then

    def moved(self, row: ChildRow) -> ChildRow:
        """Return the row after it. Raises `FenceMoved` when the claim was lost."""
        return begin(row, self.child.held)


Move: TypeAlias = Lapse | Start


def move_all(tx: Tx, key: str, moves: Sequence[Move]) -> list[ChildRow | FenceMoved]:
    """Write down failures and starts; one that meets a moved fence changes nothing."""
    rows: list[ChildRow | FenceMoved] = []
    for move in moves:
        place = child_key(key, move.child.position)
        row = tx.get(CHILD_TABLE, place, ChildRow)
        try:
            after = _gone(key, move) if row is None else move.moved(row)
        except FenceMoved as moved:
            after = moved
        if not isinstance(after, FenceMoved):
            tx.put(CHILD_TABLE, place, after)
        rows.append(after)
    return rows


def _gone(key: str, move: Move) -> FenceMoved:
    return FenceMoved(
        f"group {key!r} is retired; child {move.child.position} is not tried again",
        key=key,
        position=move.child.position,
    )

"""The rows of a group in the journal. The group's actor is their one writer, through units.

`GroupRow` (table ``group``): shape fence, declared and effective disposition, close count and the
counter that ranks come from. `ChildRow` (table ``record``): envelope, claim and terminal of one
child. `SettleRow` (table ``settle``): the index from sequence to position, and the backstop that
one sequence is given once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from ..._ids import Incarnation
from ...errors import CorruptRecord
from ...store import record, row_key, upcaster

log = logging.getLogger("trouper.journal")

GROUP_TABLE, CHILD_TABLE, SETTLE_TABLE = "group", "record", "settle"
NOBODY = Incarnation(0, 0)


@record("group", version=2)
@dataclass(frozen=True, slots=True)
class GroupRow:
    """Shape fence beside the counter: whoever allocates a rank sees the shape it belongs to.

    ``past`` says that its scope has recorded past it, so that no replay reads its ranks again.
    ``retired`` makes the row a tombstone: the rest of the group is gone, or being swept.
    """

    key: str
    scope: str
    children: int
    wake: str
    declared: str
    effective: str
    closes: int
    counter: int
    opened_at: float
    past: bool = False
    retired: bool = False

    @property
    def progress(self) -> tuple[int, int, bool, bool, bool]:
        """Order the versions of one row: each part only grows, so the greater one is newer."""
        narrowed = self.effective != self.declared
        return self.closes, self.counter, narrowed, self.past, self.retired

    @property
    def closed(self) -> bool:
        """Tell whether the caller's interest ended durably."""
        return self.closes > 0

    @property
    def finished(self) -> bool:
        """Tell whether the interest ended and, by the counter, every child is settled."""
        return self.closes > 0 and self.counter >= self.children


@upcaster("group", 1)
def _before_retirement(*fields: Any) -> list[Any]:
    return [*fields, False, False]


@record("child", version=2)
@dataclass(frozen=True, slots=True)
class ChildRow:
    """One child. ``sequence`` 0 means unsettled; ``outcome`` is empty exactly then.

    ``token`` counts claims, ``attempt`` the executions whose start was claimed, ``failures`` those
    that are known to have failed: this is what the budget of an effect bounds. ``due`` is the
    instant (UTC) of a timer, or that of the next attempt.
    """

    group: str
    position: int
    replay_key: str
    fingerprint: bytes
    envelope: bytes
    due: float
    owner_epoch: int
    owner_number: int
    token: int
    expires: float
    sequence: int
    outcome: bytes
    settled_at: float
    attempt: int = 0
    failures: int = 0

    @property
    def settled(self) -> bool:
        """Tell whether this child has its terminal."""
        return self.sequence > 0

    @property
    def owner(self) -> Incarnation:
        """Return who claimed it last."""
        return Incarnation(self.owner_epoch, self.owner_number)


@upcaster("child", 1)
def _before_attempts(*fields: Any) -> list[Any]:
    token = fields[8]  # each claim was the start of an attempt then
    return [*fields, token, 0]


@record("settle", version=1)
@dataclass(frozen=True, slots=True)
class SettleRow:
    """Sequence -> position."""

    group: str
    sequence: int
    position: int


def group_key(key: str) -> bytes:
    """Return the row key of a group."""
    return row_key(b"G", key)


def child_key(group: str, position: int) -> bytes:
    """Return the row key of a child."""
    return row_key(b"C", group, position.to_bytes(4, "big"))


def children_prefix(group: str) -> bytes:
    """Return the prefix under which all children of a group lie, in position order."""
    return row_key(b"C", group)


def settle_key(group: str, sequence: int) -> bytes:
    """Return the row key of a sequence number."""
    return row_key(b"S", group, sequence.to_bytes(8, "big"))


def settle_prefix(group: str) -> bytes:
    """Return the prefix under which all sequences of a group lie, in rank order."""
    return row_key(b"S", group)


def report_damage(error: CorruptRecord) -> None:
    """Say that a row cannot be read and is passed over, where each row is a matter of its own."""
    log.error("passed over: %s", error)

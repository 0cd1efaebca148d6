"""The caller's handle on a group: the sole cursor of record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import CursorOutOfRange, ValueRefused
from ._outcome import Outcome


@dataclass(slots=True)
class GroupHandle:
    """A place in one group's ranks. Serialisable; a host keeps nothing per caller.

    ``consumed`` is advanced only by what `next_settlement` returned; ``closes`` is the group's
    close count when the handle was made (ruling 5).
    """

    key: str
    children: int
    consumed: int = 0
    closes: int = 0

    def __post_init__(self) -> None:
        if self.children < 1 or self.closes < 0:
            raise ValueRefused(
                f"no group has {self.children} children and {self.closes} closes",
                path="children",
                reason="out of range",
            )
        if not 0 <= self.consumed <= self.children:
            raise CursorOutOfRange(
                f"cursor {self.consumed} of group {self.key!r} is outside 0..{self.children}",
                key=self.key,
                consumed=self.consumed,
                children=self.children,
            )

    @property
    def exhausted(self) -> bool:
        """Tell whether every child has been consumed: arithmetic, no round trip."""
        return self.consumed == self.children

    def to_dict(self) -> dict[str, Any]:
        """Return the persisted form."""
        return {
            "children": self.children,
            "closes": self.closes,
            "consumed": self.consumed,
            "key": self.key,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GroupHandle:
        """Read the persisted form; it passes the constructor's checks again."""
        for field, kind in (("key", str), ("children", int), ("consumed", int), ("closes", int)):
            if type(data.get(field)) is not kind:
                raise ValueRefused(
                    f"handle field {field!r} must be {kind.__name__}, it is {data.get(field)!r}",
                    path=field,
                    reason="missing or of another type",
                )
        return cls(data["key"], data["children"], data["consumed"], data["closes"])


@dataclass(frozen=True, slots=True)
class Settlement:
    """One settled child, at its rank for ever.

    ``rank`` counts from 1 in settlement order; ``sequence`` is the recorded number behind it and
    may have gaps; ``at`` is the time of settlement (UTC, seconds).
    """

    rank: int
    sequence: int
    position: int
    replay_key: str
    outcome: Outcome
    at: float

"""What a tree of work may use: what is asked for, what is granted, what was used.

Plain values and their bounds. How a grant is carved from another stands in `_ledger.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

AMOUNTS: Final = ("fuel", "calls", "io_bytes")
"""What adds up over a tree, and does not come back once it is spent."""

CAPS: Final = {"depth": 16, "live_children": 32, "live_descendants": 256}
"""What no budget may go beyond, because a tree is held in memory while it lives."""

LARGEST: Final = 2**63 - 1
"""The largest amount: a journal holds no larger number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is asked for. What is not named is a default for a root, and a share for a child.

    A root gets what it names, and for the rest the defaults in brackets. A child is refused what
    its parent cannot carry. Of what it does not name it gets half of what its parent has not
    reserved, its parent's deadline and ``live_children``, and one level of depth less.

    Attributes:
        deadline: Absolute, in seconds on the clock of whoever keeps the ledger (never). Never later
            than the parent's.
        fuel: Units of WebAssembly fuel, as in `GuestLimits` (10,000,000,000).
        calls: Effects and children, each counts one, also if it fails (100,000).
        io_bytes: Bytes in and out through providers (1 GiB).
        memory: Bytes: a node's own peak and the grants of its living children (1 GiB).
        depth: Levels of children below (8, at most 16).
        live_children: Children of one parent that live at a time (8, at most 32).
        live_descendants: Everything below that lives at a time (64, at most 256).

    Raises:
        ValueError: A value is out of range, at the line that names it.
    """

    deadline: float | None = None
    fuel: int | None = None
    calls: int | None = None
    io_bytes: int | None = None
    memory: int | None = None
    depth: int | None = None
    live_children: int | None = None
    live_descendants: int | None = None

    def __post_init__(self) -> None:
        _require_range(self)

    def grant(self) -> Grant:
        """Return what a root gets: what is named, and the defaults."""
        named = {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        return Grant(**named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a node was given: a `Budget` with every field known. A plain row of numbers."""

    deadline: float = math.inf
    fuel: int = 10_000_000_000
    calls: int = 100_000
    io_bytes: int = 1 << 30
    memory: int = 1 << 30
    depth: int = 8
    live_children: int = 8
    live_descendants: int = 64

    def __post_init__(self) -> None:
        _require_range(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What was used, by a node or by everything under it: also a final account.

    Attributes:
        fuel: As in `Budget`.
        calls: As in `Budget`.
        io_bytes: As in `Budget`.
        memory: The node's own peak; it comes back when the node retires.
        lost: Memory that nobody accounted for; it does not come back within this tree.
    """

    fuel: int = 0
    calls: int = 0
    io_bytes: int = 0
    memory: int = 0
    lost: int = 0

    def __post_init__(self) -> None:
        _require_range(self)


def _require_range(value: Budget | Grant | Usage) -> None:
    kind = type(value).__name__
    for field in fields(value):
        amount: object = getattr(value, field.name)
        if amount is None and kind == "Budget":
            continue
        if field.name == "deadline":
            if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount != amount:
                raise ValueError(f"{kind}.deadline must be an absolute time, not {amount!r}")
            continue
        most = CAPS.get(field.name, LARGEST)
        # bool is an int, and would be journaled as something else
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= most:
            raise ValueError(
                f"{kind}.{field.name} must be a whole number from 0 to {most}, not {amount!r}"
            )


ANYTHING: Final = Budget()
NOTHING: Final = Usage()

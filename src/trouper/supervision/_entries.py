"""What happens to a ledger, as flat rows of plain values: the words of its journal.

A ledger decides an entry and changes by nothing else, so whoever journals the entries gets the same
ledger back. A reservation and the admission of its child belong into one unit of the journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ._budget import Grant


@dataclass(frozen=True, slots=True)
class Reserved:
    """A grant was carved for a child, before its admission. The fields from the fourth are it."""

    owner: str
    number: int
    child: str
    deadline: float
    fuel: int
    calls: int
    io_bytes: int
    memory: int
    depth: int
    live_children: int
    live_descendants: int

    @classmethod
    def of(cls, owner: str, number: int, child: str, grant: Grant) -> Reserved:
        """Spread a grant over the row."""
        return cls(
            owner,
            number,
            child,
            grant.deadline,
            grant.fuel,
            grant.calls,
            grant.io_bytes,
            grant.memory,
            grant.depth,
            grant.live_children,
            grant.live_descendants,
        )

    @property
    def grant(self) -> Grant:
        """What the child may use."""
        return Grant(
            deadline=self.deadline,
            fuel=self.fuel,
            calls=self.calls,
            io_bytes=self.io_bytes,
            memory=self.memory,
            depth=self.depth,
            live_children=self.live_children,
            live_descendants=self.live_descendants,
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """The child was admitted. It costs its parent one call from here on, however it ends."""

    number: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The child has retired, or was never admitted: this much is spent, the rest came back."""

    number: int
    fuel: int
    calls: int
    io_bytes: int
    lost: int


@dataclass(frozen=True, slots=True)
class Spent:
    """The node itself used this much more; ``memory`` is the level it reached."""

    fuel: int = 0
    calls: int = 0
    io_bytes: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Carried:
    """The sum of the entries before it, in a ledger that was written shorter."""

    issued: int
    fuel: int
    calls: int
    io_bytes: int
    memory: int
    lost: int


@dataclass(frozen=True, slots=True)
class LedgerClosed:
    """No child is granted anything any more; those that live are settled as they retire."""


@dataclass(frozen=True, slots=True)
class LedgerEnded:
    """The account is final."""


Entry: TypeAlias = Reserved | Accepted | Settled | Spent | Carried | LedgerClosed | LedgerEnded

"""What cells and guests refuse or end in."""

from __future__ import annotations

from ._base import TrouperError


class CellError(TrouperError):
    """Root of what cells raise."""


class CellsExhausted(CellError):
    """No cell is free and this call may not wait: back-pressure, no failure of the guest."""


class GuestTrapped(CellError):
    """The guest trapped. ``kind`` says how."""

    kind: str


class OutOfFuel(GuestTrapped):
    """The guest used up its fuel."""


class GuestDeadline(CellError):
    """The guest ran past its deadline and was stopped."""


class GuestRefused(CellError):
    """The module was not admitted. ``rule`` names the rule, ``where`` the place."""

    rule: str
    where: str


class LeaseError(CellError):
    """A cell lease was dropped live, returned twice, forged or returned to a foreign pool."""

    kind: str

"""What activations and their budgets refuse or end in."""

from __future__ import annotations

from ._base import TrouperError


class ActivationError(TrouperError):
    """Root of what activations raise to their callers."""


class NondeterministicAwait(ActivationError):
    """A durable function awaited something other than ``act.*``."""

    line: int


class UnknownActivity(ActivationError):
    """No durable function of this name is known here. The activation stays parked and visible."""


class ActivationCancelled(ActivationError):
    """The activation was cancelled."""


class ActivationMismatch(ActivationError):
    """The key belongs to another activity, or to other arguments."""


class HistoryLimit(ActivationError):
    """The activation took more steps than its limit."""


class SignalRefused(ActivationError):
    """A signal that nobody could ever take was not kept. ``reason`` is *unknown*, *ended* or *id*.

    *unknown*: the journal holds nothing under this key; *ended*: it has ended; *id*: the id of the
    signal was used for another one.
    """

    key: str
    name: str
    reason: str


class SignalsFull(ActivationError):
    """As many signals of this name as may wait under this key do. Nothing was kept."""

    key: str
    name: str
    limit: int


class BudgetExhausted(TrouperError):
    """A budget cannot carry this: back-pressure, at once, and nothing was charged.

    Name less for this call, wait until siblings have retired, or give the root a larger budget.
    ``left`` is what this call could have had of ``field``.
    """

    field: str
    asked: float
    left: float


class OwnershipError(TrouperError):
    """Something was settled, handed on or retired by whom, or when, its owner's books forbid it.

    Nothing was changed. ``kind`` says how: *forged*, *copied*, *foreign* or *settled* (a
    reservation), *taken*, *unknown*, *stale*, *admission*, *account*, *live*, *closed*, *ended*,
    or *entry* (a row that contradicts those before it).
    """

    kind: str

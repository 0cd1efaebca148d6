"""Monotonic settlement: the status lattice of a shared record, and its one merge function.

``pending, running < unknown < failed < completed``. A committed success is never overwritten by
what an attempt thought it saw, in whichever order the two arrive; no clock decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

OBSERVATIONS = 32


class OperationStatus(StrEnum):
    """What is known of an operation."""

    PENDING = "pending"
    RUNNING = "running"
    UNKNOWN = "unknown"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def terminal(self) -> bool:
        """Tell whether nothing will run for it again."""
        return self in (OperationStatus.FAILED, OperationStatus.COMPLETED)


_RANK = {
    OperationStatus.PENDING: 0,
    OperationStatus.RUNNING: 1,
    OperationStatus.UNKNOWN: 2,
    OperationStatus.FAILED: 3,
    OperationStatus.COMPLETED: 4,
}


@dataclass(frozen=True, slots=True)
class Observation:
    """What one attempt, or one caller, saw. ``result`` is its encoded outcome, empty when it has
    none; ``note`` says in words what kind of evidence it is."""

    attempt: int
    status: OperationStatus
    result: bytes = b""
    note: str = ""


@dataclass(frozen=True, slots=True)
class OperationState:
    """The canonical record: what is authoritative, apart from what attempts observed.

    ``version`` counts changes of the canonical part; the log of observations is bounded and decides
    nothing.
    """

    status: OperationStatus = OperationStatus.PENDING
    result: bytes = b""
    version: int = 0
    ignored: int = 0
    conflicts: int = 0
    observations: tuple[Observation, ...] = ()


def settle(state: OperationState, observation: Observation) -> OperationState:
    """Merge one observation into the record: pure, never downgrading, absorbing at ``completed``.

    The result enters in the same step as the status and is never cleared or replaced: a second
    success with another result changes nothing and is kept as a ``conflict``.
    """
    if _RANK[observation.status] > _RANK[state.status]:
        return replace(
            _logged(state, observation),
            status=observation.status,
            result=observation.result if observation.status.terminal else b"",
            version=state.version + 1,
        )
    differs = observation.status.terminal and observation.result != state.result
    if observation.status is state.status and differs:
        conflict = replace(observation, note=f"conflict: {observation.note}".rstrip(": "))
        return replace(_logged(state, conflict), conflicts=state.conflicts + 1)
    return replace(_logged(state, observation), ignored=state.ignored + 1)


def _logged(state: OperationState, observation: Observation) -> OperationState:
    return replace(state, observations=(*state.observations, observation)[-OBSERVATIONS:])

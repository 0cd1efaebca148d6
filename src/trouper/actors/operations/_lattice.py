"""Monotonic settlement: the status lattice of a shared record, and its one merge function.

``pending, running < unknown < failed < completed``. A committed success is never overwritten by
what an attempt thought it saw, in whichever order the two arrive; no clock decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256

OBSERVATIONS = 32
"""Observations that a record keeps. The oldest goes first, a conflict only behind all others."""

OBSERVED_BYTES = 4096
"""Bytes of another result that a conflict keeps; of a larger one it keeps the digest."""

OBSERVED_NOTE = 200
"""Characters of the note of an observation that are kept."""

_CONFLICT = "conflict"


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
    """What one attempt, or one caller, saw.

    ``attempt`` is the attempt's number, 0 for a caller. ``result`` is its encoded outcome; in the
    log only a conflict has one, since the record holds the result that counts. ``note`` says in
    words what kind of evidence it is.
    """

    attempt: int
    status: OperationStatus
    result: bytes = b""
    note: str = ""

    @property
    def conflicting(self) -> bool:
        """Tell whether it is a logged success with another result than the one that counts."""
        return self.status is OperationStatus.COMPLETED and self.note.startswith(_CONFLICT)


@dataclass(frozen=True, slots=True)
class OperationState:
    """The canonical record: what is authoritative, apart from what attempts observed.

    ``version`` counts changes of the canonical part, ``ignored`` what came too late to change it,
    ``conflicts`` successes with another result. The log of observations is bounded and decides
    nothing.
    """

    status: OperationStatus = OperationStatus.PENDING
    result: bytes = b""
    version: int = 0
    ignored: int = 0
    conflicts: int = 0
    observations: tuple[Observation, ...] = ()


def settle(
    state: OperationState, observation: Observation, *, keep: int = OBSERVATIONS
) -> OperationState:
    """Merge one observation into the record: pure, never downgrading, absorbing at ``completed``.

    The result enters in the same step as the status and is never cleared or replaced: a second
    success with another result changes nothing and is kept as a ``conflict``.

    Args:
        state: The record.
        observation: What was seen.
        keep: How many observations the log holds.
    """
    if _RANK[observation.status] > _RANK[state.status]:
        return replace(
            _logged(state, observation, keep),
            status=observation.status,
            result=observation.result if observation.status.terminal else b"",
            version=state.version + 1,
        )
    return refuse(state, observation, keep=keep)


def refuse(
    state: OperationState, observation: Observation, *, keep: int = OBSERVATIONS, why: str = ""
) -> OperationState:
    """Log what does not count: the record outranks it, or its attempt lost the claim (``why``).

    Never changes status, result or version. That an attempt starts is no evidence, so it is not
    counted as ignored.
    """
    note = f"{why}: {observation.note}".rstrip(": ") if why else observation.note
    if (
        state.status is observation.status is OperationStatus.COMPLETED
        and observation.result != state.result
    ):
        other = observation.result
        if len(other) > OBSERVED_BYTES:
            note = f"sha256 {sha256(other).hexdigest()} of {len(other)} bytes, {note}".rstrip(", ")
            other = b""
        kept = Observation(
            observation.attempt, observation.status, other, f"{_CONFLICT}: {note}".rstrip(": ")
        )
        return replace(_logged(state, kept, keep), conflicts=state.conflicts + 1)
    counts = _RANK[observation.status] > _RANK[OperationStatus.RUNNING]
    logged = _logged(state, replace(observation, note=note), keep)
    return replace(logged, ignored=state.ignored + counts)


def _logged(state: OperationState, observation: Observation, keep: int) -> OperationState:
    result = observation.result if observation.conflicting else b""
    entry = replace(observation, result=result, note=observation.note[:OBSERVED_NOTE])
    log = [*state.observations, entry]
    while len(log) > keep:
        log.pop(next((at for at, each in enumerate(log) if not each.conflicting), 0))
    return replace(state, observations=tuple(log))

"""The row of an operation. Its actor is the one writer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..._ids import Incarnation
from ...errors import CorruptRecord, ValueRefused
from ...store import decode, encode, record, row_key, upcaster
from ._lattice import Observation, OperationState, OperationStatus

TABLE = "record"
NOBODY = Incarnation(0, 0)


@record("operation", version=2)
@dataclass(frozen=True, slots=True)
class OperationRow:
    """Canonical record, claim and log of one operation; ``log`` is the encoded observations.

    ``expires`` is when the claim may be taken over though nobody knows its owner to be dead (trio
    time). ``changed_at`` is for people (UTC, seconds); nothing is decided by it.
    """

    key: str
    request: bytes
    status: str
    result: bytes
    version: int
    ignored: int
    conflicts: int
    log: bytes
    owner_epoch: int
    owner_number: int
    token: int
    expires: float = 0.0
    changed_at: float = 0.0

    @property
    def owner(self) -> Incarnation:
        """Return whose attempt runs, or ran when its process ended; nobody's otherwise."""
        return Incarnation(self.owner_epoch, self.owner_number)

    def state(self) -> OperationState:
        """Read the canonical record."""
        try:
            observations = tuple(
                Observation(attempt, OperationStatus(status), result, note)
                for attempt, status, result, note in decode(self.log)
            )
            status = OperationStatus(self.status)
        except (ValueError, ValueRefused) as error:
            raise CorruptRecord(
                f"operation {self.key!r} holds {error}; restore the store from a backup",
                table=TABLE,
                key=self.key,
            ) from error
        return OperationState(
            status, self.result, self.version, self.ignored, self.conflicts, observations
        )

    def with_state(self, state: OperationState) -> OperationRow:
        """Return this row with another canonical record."""
        return replace(
            self,
            status=str(state.status),
            result=state.result,
            version=state.version,
            ignored=state.ignored,
            conflicts=state.conflicts,
            log=encode([[o.attempt, str(o.status), o.result, o.note] for o in state.observations]),
        )

    def claimed_by(self, owner: Incarnation, expires: float) -> OperationRow:
        """Return this row under a new claim."""
        return replace(
            self,
            owner_epoch=owner.epoch,
            owner_number=owner.number,
            token=self.token + 1,
            expires=expires,
        )

    def is_held(self, owner: Incarnation, token: int) -> bool:
        """Tell whether a claim still stands."""
        return (self.owner, self.token) == (owner, token)

    def released(self) -> OperationRow:
        """Return this row without its claim; the number of attempts stays."""
        return replace(self, owner_epoch=NOBODY.epoch, owner_number=NOBODY.number)

    @classmethod
    def new(cls, key: str, request: bytes, now: float = 0.0) -> OperationRow:
        """Build the row of an operation that nobody has attempted."""
        state = OperationState()
        return cls(key, request, str(state.status), b"", 0, 0, 0, encode([]), 0, 0, 0, 0.0, now)


@upcaster("operation", 1)
def _before_leases(*fields: Any) -> list[Any]:
    return [*fields, 0.0, 0.0]


def operation_key(key: str) -> bytes:
    """Return the row key of an operation."""
    return row_key(b"O", key)

"""The rows of an activation. Its actor is their one writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...store import record, row_key, upcaster

TABLE = "record"

MOST_STEPS = 1 << 24
"""Steps of a run: their keys have three bytes for the number."""


@record("activation", version=1)
@dataclass(frozen=True, slots=True)
class ActivationRow:
    """One activation. Its run has a fence beside it, so that a step leaves this row alone.

    ``cancel_step`` is the step at which a cancel is seen, -1 while there is none; ``outcome`` is
    empty until the activation ended.
    """

    key: str
    run: int
    parent: str
    activity: str
    arguments: bytes
    created_at: float
    cancel_step: int
    outcome: bytes

    @property
    def ended(self) -> bool:
        """Tell whether it has its terminal."""
        return bool(self.outcome)

    @property
    def scope(self) -> str:
        """Return the durable identity of this run."""
        return f"{self.key}#{self.run}"


@record("fence", version=1)
@dataclass(frozen=True, slots=True)
class FenceRow:
    """The fence of a run against a second owner: ``head`` counts the units of the run."""

    scope: str
    head: int


@record("step", version=2)
@dataclass(frozen=True, slots=True)
class StepRow:
    """One step. A single call carries its envelope and, once it ended, its outcome; a group step
    carries the group's key. Its answer is derived from the group's ranks, until ``outcome`` holds
    those that the answer took: then the run has gone past the group.

    ``attempt`` counts the executions whose start was journaled, ``failures`` those known to have
    failed. ``due`` is the instant (UTC) of a timer, or that of the next attempt.
    """

    scope: str
    number: int
    combinator: str
    key: str
    fingerprint: bytes
    envelope: bytes
    due: float
    attempt: int
    outcome: bytes
    settled_at: float
    failures: int = 0

    @property
    def is_group(self) -> bool:
        """Tell whether this step opened a group."""
        return not self.envelope

    # Spelled out: `dataclasses.replace` costs three times as much, and these are for every step.

    def started(self) -> StepRow:
        """Return the row with one more attempt, whose start is journaled."""
        return self._with(self.due, self.attempt + 1, self.outcome, self.settled_at, self.failures)

    def settled(self, outcome: bytes, at: float) -> StepRow:
        """Return the row with its end."""
        return self._with(self.due, self.attempt, outcome, at, self.failures)

    def postponed(self, due: float) -> StepRow:
        """Return the row with one more failure, and the instant of the next attempt."""
        return self._with(due, self.attempt, self.outcome, self.settled_at, self.failures + 1)

    def _with(
        self, due: float, attempt: int, outcome: bytes, settled_at: float, failures: int
    ) -> StepRow:
        return StepRow(
            self.scope,
            self.number,
            self.combinator,
            self.key,
            self.fingerprint,
            self.envelope,
            due,
            attempt,
            outcome,
            settled_at,
            failures,
        )


@upcaster("step", 1)
def _before_failures(*fields: Any) -> list[Any]:
    return [*fields, 0]


def activation_key(key: str) -> bytes:
    """Return the row key of an activation."""
    return row_key(b"A", key)


def step_key(scope: str, number: int) -> bytes:
    """Return the row key of a step."""
    return row_key(b"T", scope, b"\0" + number.to_bytes(3, "big"))


def fence_key(scope: str) -> bytes:
    """Return the row key of the fence: behind the last step, whose page is written anyway."""
    return row_key(b"T", scope, b"\1")


def steps_prefix(scope: str) -> bytes:
    """Return the prefix under which all steps of a run lie, in order."""
    return row_key(b"T", scope, b"\0")


def run_prefix(scope: str) -> bytes:
    """Return the prefix of all that a run has beside the row of its activation."""
    return row_key(b"T", scope)

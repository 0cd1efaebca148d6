"""Read what a journal holds, for people and for tools: views, never rows.

Everything here only reads, from a store that is open.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from ..store import HISTORY, HeadRow, Invariant, Recorded, Store
from .activations import ActivationRow, StepRow, activation_invariants
from .durable_actors import history_invariants
from .groups import (
    ChildRow,
    EffectEnvelope,
    GroupRow,
    decode_outcome,
    group_invariants,
)
from .operations import OperationRow, operation_invariants

INVARIANTS: Final[tuple[Invariant, ...]] = (
    group_invariants,
    activation_invariants,
    operation_invariants,
    history_invariants,
)
"""What has to hold between the rows that actors write; for `trouper.store.check`."""


@dataclass(frozen=True, slots=True)
class ActivationView:
    """One activation. ``state`` is running, completed, failed or cancelled."""

    key: str
    activity: str
    parent: str
    state: str
    created_at: float
    units: int


@dataclass(frozen=True, slots=True)
class EffectView:
    """One unit of work: a step of an activation, or a child of a group.

    ``attempts`` counts those that were begun; ``state`` is open until it settled, then the word of
    its outcome.
    """

    key: str
    kind: str
    name: str
    arguments: tuple[Any, ...]
    state: str
    attempts: int

    @property
    def settled(self) -> bool:
        """Tell whether it has its terminal."""
        return self.state != "open"


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: how many of its children settled, and what its caller and its scope made of it.

    ``state`` is *open*, *closed* (the caller's interest ended; it may have losers that run), or
    *retired*: then this line is all that is left of it.
    """

    key: str
    children: int
    settled: int
    state: str
    disposition: str
    opened_at: float

    @property
    def closed(self) -> bool:
        """Tell whether its caller's interest ended."""
        return self.state != "open"


@dataclass(frozen=True, slots=True)
class OperationView:
    """One operation."""

    key: str
    status: str
    attempts: int
    version: int


@dataclass(frozen=True, slots=True)
class ActorView:
    """One durable actor: its class, and how many commits and records its history has.

    ``snapshot`` is the record up to which its latest snapshot goes, 0 without one; ``replies``
    counts those ever recorded under an idempotency id.
    """

    key: str
    actor: str
    units: int
    records: int
    snapshot: int
    replies: int


def actors(store: Store) -> list[ActorView]:
    """Return every durable actor that has recorded anything, by key."""
    rows = [row for _, row in store.scan(HISTORY, b"H", HeadRow)]
    return [
        ActorView(row.key, row.actor, row.units, row.records, row.snapshot, row.replies)
        for row in sorted(rows, key=lambda row: row.key)
    ]


def records(store: Store, key: str, *, after: int = 0) -> AsyncIterator[Recorded]:
    """Stream the history of a durable actor; as `Store.records`, and it need not live."""
    return store.records(key, after=after)


def activations(store: Store) -> list[ActivationView]:
    """Return every activation, oldest first."""
    rows = [row for _, row in store.scan("record", b"A", ActivationRow)]
    return [
        ActivationView(
            row.key,
            row.activity,
            row.parent,
            _word(row.outcome, "running"),
            row.created_at,
            row.head,
        )
        for row in sorted(rows, key=lambda row: (row.created_at, row.key))
    ]


def effects(store: Store) -> list[EffectView]:
    """Return every unit of work that the journal knows, by activation and in the order of steps."""
    steps = [row for _, row in store.scan("record", b"T", StepRow) if row.envelope]
    children = [row for _, row in store.scan("record", b"C", ChildRow)]
    rows: list[StepRow | ChildRow] = [*steps, *children]
    found = [_effect(row.envelope, row.outcome, row.attempt) for row in rows]
    return sorted(found, key=lambda view: _natural(view.key))


def _natural(key: str) -> list[tuple[int, str]]:
    """Order numbers inside of keys by value: step 10 comes after step 9."""
    parts = re.split(r"(\d+)", key)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def groups(store: Store) -> list[GroupView]:
    """Return every group, oldest first."""
    rows = [row for _, row in store.scan("group", b"G", GroupRow)]
    return [
        GroupView(
            row.key,
            row.children,
            row.counter,
            "retired" if row.retired else "closed" if row.closed else "open",
            row.effective,
            row.opened_at,
        )
        for row in sorted(rows, key=lambda row: (row.opened_at, row.key))
    ]


def operations(store: Store) -> list[OperationView]:
    """Return every operation, by key."""
    rows = [row for _, row in store.scan("record", b"O", OperationRow)]
    return [
        OperationView(row.key, row.status, row.token, row.version)
        for row in sorted(rows, key=lambda row: row.key)
    ]


def _effect(envelope: bytes, outcome: bytes, attempts: int) -> EffectView:
    read = EffectEnvelope.decoded(envelope)
    args, kwargs = read.call()
    return EffectView(
        read.replay_key,
        read.kind,
        read.name,
        (*args, *kwargs.values()),
        _word(outcome, "open"),
        attempts,
    )


def _word(outcome: bytes, otherwise: str) -> str:
    return type(decode_outcome(outcome)).__name__.lower() if outcome else otherwise


__all__ = (
    "INVARIANTS",
    "ActivationView",
    "ActorView",
    "EffectView",
    "GroupView",
    "OperationView",
    "activations",
    "actors",
    "effects",
    "groups",
    "operations",
    "records",
)

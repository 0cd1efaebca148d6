"""Read what a journal holds, for people and for tools: views, never rows.

Everything here only reads: from a store that is open, or from one that another process may have
open, by `trouper.store.read`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ..store import HISTORY, HeadRow, Invariant, Recorded, Store, decode
from .activations import (
    ActivationRow,
    FenceRow,
    StepRow,
    activation_invariants,
    fence_key,
    steps_prefix,
)
from .durable_actors import history_invariants
from .groups import (
    QUEUE,
    SIGNAL_TABLE,
    ChildRow,
    EffectEnvelope,
    GroupRow,
    SignalRow,
    children_prefix,
    decode_outcome,
    group_invariants,
    signal_invariants,
)
from .operations import OperationRow, operation_invariants

T = TypeVar("T")

Knows = Callable[[str, str], bool]
"""Tells whether there is code for a kind (``effect``, ``activation``, ...) and a name."""

INVARIANTS: Final[tuple[Invariant, ...]] = (
    group_invariants,
    activation_invariants,
    operation_invariants,
    signal_invariants,
    history_invariants,
)
"""What has to hold between the rows that actors write; for `trouper.store.check`."""


class Source(Protocol):
    """Where rows are read: a store that is open, or the rows of a `trouper.store.Reading`."""

    def scan(self, table: str, prefix: bytes, kind: type[T]) -> Iterable[tuple[bytes, T]]:
        """Return rows in key order."""
        ...


@dataclass(frozen=True, slots=True)
class ActivationView:
    """One activation. ``state`` is running, completed, failed or cancelled.

    ``waits_for`` is the step without an answer, of one that runs. ``routable`` says whether there
    is code for it, None where nobody told which code there is.
    """

    key: str
    activity: str
    parent: str
    state: str
    created_at: float
    units: int
    waits_for: str = ""
    routable: bool | None = None


@dataclass(frozen=True, slots=True)
class EffectView:
    """One unit of work: a step of an activation, or a child of a group.

    ``attempts`` counts those that were begun, ``failures`` those known to have failed; ``due`` is
    the instant (UTC) of a timer, or of the next attempt, 0 without one. ``state`` is open until it
    settled, then the word of its outcome.
    """

    key: str
    kind: str
    name: str
    arguments: tuple[Any, ...]
    state: str
    attempts: int
    failures: int = 0
    due: float = 0.0

    @property
    def settled(self) -> bool:
        """Tell whether it has its terminal."""
        return self.state != "open"


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: how many of its children settled, and what its caller and its scope made of it.

    ``state`` is *open*, *closed* (the caller's interest ended; it may have losers that run), or
    *retired*: then this line is all that is left of it. ``failures`` counts the failed attempts of
    children that are unsettled, ``due`` is the earliest instant (UTC) that one of them waits for,
    0 without one. ``unroutable`` counts those that there is no code for, None where nobody told
    which code there is.
    """

    key: str
    children: int
    settled: int
    state: str
    disposition: str
    opened_at: float
    failures: int = 0
    due: float = 0.0
    unroutable: int | None = None

    @property
    def closed(self) -> bool:
        """Tell whether its caller's interest ended."""
        return self.state != "open"


@dataclass(frozen=True, slots=True)
class OperationView:
    """One operation. ``attempted`` says that somebody holds the claim of an attempt."""

    key: str
    status: str
    attempts: int
    version: int
    attempted: bool = False
    conflicts: int = 0
    changed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class SignalView:
    """One signal that nobody has taken; ``number`` orders those of one key and name."""

    key: str
    name: str
    number: int
    payload: Any
    arrived_at: float


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


def actors(store: Source) -> list[ActorView]:
    """Return every durable actor that has recorded anything, by key."""
    rows = [row for _, row in store.scan(HISTORY, b"H", HeadRow)]
    return [
        ActorView(row.key, row.actor, row.units, row.records, row.snapshot, row.replies)
        for row in sorted(rows, key=lambda row: row.key)
    ]


def records(store: Store, key: str, *, after: int = 0) -> AsyncIterator[Recorded]:
    """Stream the history of a durable actor; as `Store.records`, and it need not live."""
    return store.records(key, after=after)


def activations(store: Source, *, knows: Knows | None = None) -> list[ActivationView]:
    """Return every activation, oldest first."""
    rows = [row for _, row in store.scan("record", b"A", ActivationRow)]
    return [
        ActivationView(
            row.key,
            row.activity,
            row.parent,
            _word(row.outcome, "running"),
            row.created_at,
            _units(store, row.scope),
            "" if row.ended else _open_step(store, row.scope),
            None if knows is None or row.ended else knows("activation", row.activity),
        )
        for row in sorted(rows, key=lambda row: (row.created_at, row.key))
    ]


def _units(store: Source, scope: str) -> int:
    return sum(fence.head for _, fence in store.scan("record", fence_key(scope), FenceRow))


def _open_step(store: Source, scope: str) -> str:
    last = None
    for _, step in store.scan("record", steps_prefix(scope), StepRow):
        last = step
    if last is None or last.outcome:
        return ""
    if last.is_group:
        return f"{last.combinator} #{last.number}"
    envelope = EffectEnvelope.decoded(last.envelope)
    return f"{envelope.kind} {envelope.name}"


def effects(store: Source) -> list[EffectView]:
    """Return every unit of work that the journal knows, by activation and in the order of steps."""
    rows_of_runs = [row for _, row in store.scan("record", b"T", object)]
    steps = [row for row in rows_of_runs if isinstance(row, StepRow) and row.envelope]
    children = [row for _, row in store.scan("record", b"C", ChildRow)]
    rows: list[StepRow | ChildRow] = [*steps, *children]
    found = [_effect(row) for row in rows]
    return sorted(found, key=lambda view: _natural(view.key))


def _natural(key: str) -> list[tuple[int, str]]:
    """Order numbers inside of keys by value: step 10 comes after step 9."""
    parts = re.split(r"(\d+)", key)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def groups(store: Source, *, knows: Knows | None = None) -> list[GroupView]:
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
            *_unsettled(store, row, knows),
        )
        for row in sorted(rows, key=lambda row: (row.opened_at, row.key))
    ]


def _unsettled(store: Source, row: GroupRow, knows: Knows | None) -> tuple[int, float, int | None]:
    """Return failures, earliest due instant and number of unroutable children of a group."""
    found: Sequence[ChildRow] = ()
    if row.counter < row.children:
        children = store.scan("record", children_prefix(row.key), ChildRow)
        found = [child for _, child in children if not child.settled]
    dues = [child.due for child in found if child.due]
    lost: int | None = None
    if knows is not None:
        envelopes = [EffectEnvelope.decoded(child.envelope) for child in found]
        lost = sum(not knows(envelope.kind, envelope.name) for envelope in envelopes)
    return sum(child.failures for child in found), min(dues, default=0.0), lost


def operations(store: Source) -> list[OperationView]:
    """Return every operation, by key."""
    rows = [row for _, row in store.scan("record", b"O", OperationRow)]
    return [
        OperationView(
            row.key,
            row.status,
            row.token,
            row.version,
            row.owner_number > 0,
            row.conflicts,
            row.changed_at,
        )
        for row in sorted(rows, key=lambda row: row.key)
    ]


def signals(store: Source) -> list[SignalView]:
    """Return every signal that nobody has taken, by key and name, oldest first."""
    rows = [row for _, row in store.scan(SIGNAL_TABLE, QUEUE, SignalRow)]
    return [
        SignalView(row.address, row.name, row.number, decode(row.payload), row.at)
        for row in sorted(rows, key=lambda row: (row.address, row.name, row.number))
    ]


def _effect(row: StepRow | ChildRow) -> EffectView:
    read = EffectEnvelope.decoded(row.envelope)
    args, kwargs = read.call()
    return EffectView(
        read.replay_key,
        read.kind,
        read.name,
        (*args, *kwargs.values()),
        _word(row.outcome, "open"),
        row.attempt,
        row.failures,
        0.0 if row.outcome else row.due,
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
    "SignalView",
    "Source",
    "activations",
    "actors",
    "effects",
    "groups",
    "operations",
    "records",
    "signals",
)

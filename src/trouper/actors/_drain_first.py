"""Whether the code that opens a store can take over the unfinished work in it.

An upcaster carries state and history over; nothing carries over a step that was journaled with
other arguments, or a result that its annotation no longer takes. Such work is found when the store
is opened, before anything of it runs. What cannot be seen from outside, a function that takes other
steps than it did, is found where it offers them, and parked. Plain annotations are not compared: a
plain value is journaled whatever its annotation says, so sound code that never changed may have an
`int` under `str`, and would be refused for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ..errors import CorruptRecord, DrainFirst, ReplayMismatch
from ..store import Store
from .activations import ActivationRow, StepRow, activation_key, steps_prefix
from .groups import (
    ActivityRegistry,
    ChildRow,
    EffectEnvelope,
    all_unfinished,
    children_prefix,
    decode_outcome,
    rebuilt,
)

T = TypeVar("T")
TABLE = "record"
LISTED = 20
"""Rows that a refusal names; it counts the others."""

FINGERPRINT_BYTES = 32
"""A fingerprint of version 1 is these bytes alone; one of a later version has its number before."""


def require_drained(store: Store, registry: ActivityRegistry) -> None:
    """Refuse to go on where unfinished work was begun by other code than there is now.

    Looks at what is unfinished, as recovery does. Work that there is no code for is no drift: it
    stays unroutable. A row that cannot be read is recovery's to report.

    Raises:
        DrainFirst: there is such work; nothing was touched.
    """
    found = [*_in_activations(store, registry), *_in_groups(store, registry)]
    if not found:
        return
    more = f", and {len(found) - LISTED} more" if len(found) > LISTED else ""
    raise DrainFirst(
        f"store {store.name!r} holds unfinished work of other code: {'; '.join(found[:LISTED])}"
        f"{more}. Open it with the code that began it and let it end, or cancel it there; or open "
        "it with drifted='park', and it waits",
        rows=found[:LISTED],
        count=len(found),
    )


def _in_activations(store: Store, registry: ActivityRegistry) -> Iterator[str]:
    for member in all_unfinished(store, "run"):
        row = _row(store, member.key)
        if row is None or row.ended:
            continue
        activity = registry.find("activation", row.activity)
        if activity is not None:
            try:
                activity.decode_call(row.arguments)
            except ReplayMismatch as drift:
                yield f"activation {row.key!r} of {row.activity!r} ({_why(drift)})"
        for step in _rows(store, steps_prefix(row.scope), StepRow):
            if step.envelope:
                yield from _in_work(registry, step, step.key)
            else:
                yield from _fingerprint(step.fingerprint, step.key)


def _in_groups(store: Store, registry: ActivityRegistry) -> Iterator[str]:
    for member in all_unfinished(store, "group"):
        for child in _rows(store, children_prefix(member.key), ChildRow):
            yield from _in_work(registry, child, child.replay_key)


def _in_work(registry: ActivityRegistry, row: StepRow | ChildRow, key: str) -> Iterator[str]:
    yield from _fingerprint(row.fingerprint, key)
    envelope = EffectEnvelope.decoded(row.envelope)
    activity = registry.find(envelope.kind, envelope.name)
    if activity is None:
        return
    try:
        if row.outcome:
            rebuilt(decode_outcome(row.outcome), activity.shapes.result, key)
        else:
            activity.decode_call(envelope.arguments)
    except ReplayMismatch as drift:
        what = "result" if row.outcome else "call"
        yield f"{what} {key!r} of {envelope.name!r} ({_why(drift)})"


def _why(drift: ReplayMismatch) -> BaseException:
    """Return what does not fit, without advice: what to do is said once, for all rows."""
    return drift.__cause__ or drift


def _fingerprint(stored: bytes, key: str) -> Iterator[str]:
    if len(stored) != FINGERPRINT_BYTES:
        version = stored[0] if stored else 0
        yield f"{key!r} (its fingerprint is of version {version}, which this code cannot verify)"


def _row(store: Store, key: str) -> ActivationRow | None:
    try:
        return store.get(TABLE, activation_key(key), ActivationRow)
    except CorruptRecord:
        return None


def _rows(store: Store, prefix: bytes, kind: type[T]) -> list[T]:
    try:
        return [row for _, row in store.scan(TABLE, prefix, kind)]
    except CorruptRecord:
        return []

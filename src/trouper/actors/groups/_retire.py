"""Retirement of groups: gone for good, and known to be gone.

A group retires whole: closed, every child terminal, and its scope past it. One write is the mark;
its row stays as a tombstone until its scope is retired, so that a replay can never run settled work
twice. The rest of it is swept away.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import CorruptGroup, GroupRetired, GroupShapeError, ScopeBusy
from ...store import Tx
from ._rows import GROUP_TABLE, SETTLE_TABLE, GroupRow, group_key, settle_prefix
from ._scopes import MemberRow, is_live, leave, require_finished
from ._signals import signal_remains
from ._sweep import GROUPS, SCOPES, begin_sweep, being_swept, everything_in, group_remains


def member_of(row: GroupRow) -> MemberRow:
    """Return a group as a member of its scope."""
    return MemberRow(row.scope, "group", row.key)


def retired(key: str) -> GroupRetired:
    """Build the refusal of a retired key."""
    return GroupRetired(
        f"group {key!r} was retired: its work is settled, and is not run again; use another key, "
        "or retire its whole scope first",
        key=key,
    )


def scope_retired(key: str, scope: str) -> GroupRetired:
    """Build the refusal of a key whose scope is being swept."""
    return GroupRetired(
        f"group {key!r}: scope {scope!r} was retired, and its rows are still being removed; try "
        "again when they are gone",
        key=key,
        scope=scope,
    )


def write_group(tx: Tx, before: GroupRow, after: GroupRow) -> GroupRow:
    """Write a group's row, with what follows from it: it may be finished, and may retire now."""
    if after == before:
        return after
    if after.finished and _is_whole(tx, after):
        leave(tx, member_of(after))
        if after.past:
            return _mark(tx, after)
    tx.put(GROUP_TABLE, group_key(after.key), after)
    return after


def _is_whole(tx: Tx, row: GroupRow) -> bool:
    """Tell whether every child has its rank. Sequences may have gaps: counters do not."""
    ranks = tx.keys(SETTLE_TABLE, settle_prefix(row.key), limit=row.children)
    return len(ranks) == row.children


def _mark(tx: Tx, row: GroupRow) -> GroupRow:
    tombstone = replace(row, retired=True)
    tx.put(GROUP_TABLE, group_key(row.key), tombstone)
    begin_sweep(tx, GROUPS, row.key, group_remains(row.key))
    return tombstone


def retire_group(tx: Tx, key: str) -> GroupRow:
    """Retire a group by hand; a retired one is fine.

    Raises:
        GroupShapeError: the journal does not hold it.
        ScopeBusy: it is open or unsettled, or an activation may still read its ranks.
    """
    row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
    if row is None:
        raise GroupShapeError(f"group {key!r} is not in the journal", key=key)
    if row.retired:
        return row
    if not row.finished:
        state = f"{row.children - row.counter} of its children are unsettled"
        raise _busy(row, state if row.closed else "it is open; close it first")
    if not _is_whole(tx, row):
        raise CorruptGroup(
            f"group {key!r} counts {row.counter} ranks, and not all of its {row.children} children "
            "have one; restore the store from a backup",
            key=key,
        )
    if not row.past and is_live(tx, row.scope):
        raise _busy(row, "its activation may still read it, and retires it by itself")
    return _mark(tx, row)


def retire_scope(tx: Tx, scope: str) -> None:
    """Retire a scope with everything in it, by one mark.

    Raises:
        ScopeBusy: anything in it is open, unsettled or live.
    """
    if being_swept(tx, scope):
        return
    require_finished(tx, scope)
    begin_sweep(tx, SCOPES, scope, [*signal_remains(scope), everything_in(scope)])


def _busy(row: GroupRow, why: str) -> ScopeBusy:
    return ScopeBusy(
        f"group {row.key!r} cannot be retired: {why}", key=row.key, scope=row.scope, why=why
    )

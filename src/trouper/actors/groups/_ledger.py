"""Units: the group's rules run on the journal's rows, each in one transaction.

Every function takes a `Tx` and may run more than once, so none has an effect besides its writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...errors import CorruptGroup, FenceMoved, GroupShapeError, TooLarge
from ...store import Tx
from ._group import EffectGroup
from ._outcome import ErrorRecord, Failed, encode_outcome
from ._policy import Disposition
from ._retire import member_of, retired, scope_retired, write_group
from ._rows import (
    CHILD_TABLE,
    GROUP_TABLE,
    SETTLE_TABLE,
    ChildRow,
    GroupRow,
    SettleRow,
    child_key,
    children_prefix,
    group_key,
    settle_key,
    settle_prefix,
)
from ._rules import Claim, Lease, claim, close, finalise, new_rows, renew, require_shape
from ._scopes import Reader, enter
from ._signals import SignalTake
from ._sweep import being_swept


@dataclass(frozen=True, slots=True)
class Opened:
    """What an open found or made: the group, its children, and which of them we claimed in it."""

    row: GroupRow
    children: tuple[ChildRow, ...]
    claimed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A child's end on its way to the journal, stamped with the tick in which it came.

    That of a wait for a signal is a ``take``: what it comes to is decided where it is ranked. If
    there is nothing to take any more it stays unsettled, and ``again`` makes it wait.
    """

    tick: int
    position: int
    held: Claim
    outcome: bytes
    take: SignalTake | None = None
    again: Callable[[], None] | None = None


End: TypeAlias = "ChildRow | FenceMoved | None"
"""What an arrival came to: a ranked child, a refusal, or None for one that goes on waiting."""


def load(tx: Tx, key: str) -> tuple[GroupRow, tuple[ChildRow, ...]] | None:
    """Read a group and its children, or None when the journal does not hold it.

    Raises:
        GroupRetired: only its tombstone is there.
    """
    row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
    if row is None:
        return None
    if row.retired:
        raise retired(key)
    if row.key != key:
        raise CorruptGroup(f"groups {row.key!r} and {key!r} share one row key", key=key)
    children = tuple(c for _, c in tx.scan(CHILD_TABLE, children_prefix(key), ChildRow))
    if len(children) != row.children:
        raise CorruptGroup(
            f"group {key!r} has {row.children} children, {len(children)} rows were found", key=key
        )
    return row, children


def open_group(
    tx: Tx,
    group: EffectGroup,
    lease: Lease,
    dues: Sequence[float],
    now: float,
    runnable: frozenset[int],
) -> Opened:
    """Open or reopen: write group and child rows in one transaction, or compare with what is there.

    What is free, unsettled and ``runnable`` here is claimed in the same transaction; a crash leaves
    the claim of a dead incarnation, which is free (ADR 0003). A closed group dispatches nothing
    (ruling 5), so nothing of it is claimed.

    Raises:
        GroupRetired: it was retired, or its scope was and is not gone yet.
    """
    if being_swept(tx, group.scope):
        raise scope_retired(group.key, group.scope)
    found = load(tx, group.key)
    if found is None and len(runnable) < len(group.children):
        # A first open brings a runner for each child. This one brought runners for a reopen, of a
        # group that was swept since.
        raise scope_retired(group.key, group.scope)
    if found is None:
        row, rows = new_rows(group, now, dues)
        enter(tx, member_of(row))
        tx.put(GROUP_TABLE, group_key(group.key), row)
        children: Sequence[ChildRow] = rows
    else:
        row, children = found
        require_shape(row, children, group)
        if row.closed:
            return Opened(row, tuple(children), ())
    return _claim_free(tx, row, children, lease, runnable, write_all=found is None)


def claim_unsettled(
    tx: Tx, key: str, lease: Lease, runnable: frozenset[int], *, starts: bool = True
) -> Opened:
    """Claim what is free and unsettled, whoever opened the group: the drain's first move."""
    found = load(tx, key)
    if found is None:
        raise GroupShapeError(f"group {key!r} is not in the journal", key=key)
    row, children = found
    return _claim_free(tx, row, children, lease, runnable, starts=starts)


def cancel_unsettled(
    tx: Tx, key: str, lease: Lease, outcome: bytes, now: float
) -> tuple[Opened, list[End]]:
    """Claim what is free and unsettled and rank it as cancelled, without running it (ruling 4)."""
    found = load(tx, key)
    if found is None:
        raise GroupShapeError(f"group {key!r} is not in the journal", key=key)
    everyone = frozenset(range(found[0].children))
    opened = claim_unsettled(tx, key, lease, everyone, starts=False)
    arrivals = [
        Arrival(0, position, held(opened.children[position]), outcome)
        for position in opened.claimed
    ]
    _, ends = finalise_all(tx, key, arrivals, now)
    return opened, ends


def held(child: ChildRow) -> Claim:
    """Return the claim that a child's row carries."""
    return Claim(child.owner, child.token)


def _claim_free(
    tx: Tx,
    row: GroupRow,
    children: Sequence[ChildRow],
    lease: Lease,
    runnable: frozenset[int],
    *,
    write_all: bool = False,
    starts: bool = True,
) -> Opened:
    after: list[ChildRow] = []
    claimed: list[int] = []
    for child in children:
        ours = claim(child, lease, starts=starts) if child.position in runnable else None
        if ours is not None:
            claimed.append(child.position)
        if ours is not None or write_all:
            tx.put(CHILD_TABLE, child_key(row.key, child.position), ours or child)
        after.append(ours or child)
    return Opened(row, tuple(after), tuple(claimed))


def finalise_all(
    tx: Tx, key: str, arrivals: Sequence[Arrival], now: float
) -> tuple[GroupRow | None, list[End]]:
    """Rank arrivals in the given order. One that meets a moved fence uses up no rank."""
    row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
    if row is None or row.retired:
        return row, [_too_late(key, arrival) for arrival in arrivals]
    before = row
    ends: list[End] = []
    for arrival in arrivals:
        child = tx.get(CHILD_TABLE, child_key(key, arrival.position), ChildRow)
        if child is None:
            raise CorruptGroup(f"group {key!r} has no row for child {arrival.position}", key=key)
        try:
            ranked, child = finalise(row, child, arrival.held, arrival.outcome, now)
        except FenceMoved as moved:
            ends.append(moved)
            continue
        if arrival.take is not None:
            taken = arrival.take.settle(tx, row, child)
            if taken is None:
                ends.append(None)
                continue
            child = taken
        row = ranked
        child = _put_terminal(tx, child)
        place = settle_key(key, child.sequence)
        if tx.get(SETTLE_TABLE, place, SettleRow) is not None:
            raise CorruptGroup(f"sequence {child.sequence} of group {key!r} is taken", key=key)
        tx.put(SETTLE_TABLE, place, SettleRow(key, child.sequence, child.position))
        ends.append(child)
    return write_group(tx, before, row), ends


def _too_late(key: str, arrival: Arrival) -> FenceMoved:
    """Refuse a result for a group that is retired: each of its children is settled already."""
    return FenceMoved(
        f"group {key!r} is retired; this result of child {arrival.position} is not counted",
        key=key,
        position=arrival.position,
    )


def _put_terminal(tx: Tx, child: ChildRow) -> ChildRow:
    place = child_key(child.group, child.position)
    try:
        tx.put(CHILD_TABLE, place, child)
    except TooLarge as error:  # the outcome fits alone, not beside the child's arguments
        child = replace(child, outcome=encode_outcome(Failed(ErrorRecord.of(error))))
        tx.put(CHILD_TABLE, place, child)
    return child


def close_group(
    tx: Tx, key: str, closes_seen: int, asked: Disposition, *, past: bool = False
) -> GroupRow | None:
    """Close durably; an unknown key is fine, and a retired one, since a replay closes again.

    ``past`` says that the scope has recorded past the group, in this transaction or before.
    """
    row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
    if row is None or row.retired:
        return row
    after = close(row, closes_seen, asked)
    return write_group(tx, row, replace(after, past=after.past or past))


def pass_group(tx: Tx, key: str) -> GroupRow | None:
    """Take note that the scope of a group has ended, and so reads its ranks no more."""
    row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
    return None if row is None else write_group(tx, row, replace(row, past=True))


def ranks_above(source: Reader, key: str, sequence: int) -> list[ChildRow]:
    """Return every recorded rank above one, in one read of the index.

    Raises:
        CorruptGroup: a rank without its terminal.
    """
    prefix, last = settle_prefix(key), settle_key(key, sequence)
    found: list[ChildRow] = []
    for _, place in source.scan(SETTLE_TABLE, prefix, SettleRow, after=last):
        child = source.get(CHILD_TABLE, child_key(key, place.position), ChildRow)
        if child is None or child.sequence != place.sequence:
            raise CorruptGroup(
                f"rank {place.sequence} of group {key!r} is without its terminal; restore the "
                "store from a backup",
                key=key,
                position=place.position,
            )
        found.append(child)
    return found


def renew_all(
    tx: Tx, held: Sequence[tuple[str, int, Claim]], expires: float
) -> list[tuple[str, int, Claim]]:
    """Extend the claims of running children; return those that were lost."""
    lost: list[tuple[str, int, Claim]] = []
    for key, position, mine in held:
        child = tx.get(CHILD_TABLE, child_key(key, position), ChildRow)
        after = None if child is None else renew(child, mine, expires)
        if after is None:
            lost.append((key, position, mine))
        else:
            tx.put(CHILD_TABLE, child_key(key, position), after)
    return lost

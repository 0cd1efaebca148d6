"""The rules of a group as pure functions on its rows: no store, no clock, no trio.

Claim, finalise and close are decisions on what the journal holds *now*; the ledger runs them inside
one unit, so a fence is decided by the store and never by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..._ids import Incarnation
from ...errors import CorruptGroup, FenceMoved, GroupShapeError
from ...store import revised
from ._envelope import EffectEnvelope, require_same
from ._group import EffectGroup
from ._policy import Disposition, narrow, read_word
from ._rows import NOBODY, ChildRow, GroupRow


@dataclass(frozen=True, slots=True)
class Claim:
    """The fence columns that a finalise must match: who claimed, with which token."""

    owner: Incarnation
    token: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Who asks for claims, when, for how long, and what it knows to be free before its time.

    ``is_dead`` tells which incarnations are gone, ``given_up`` holds (position, token) of the
    asker's own attempts that ended without a terminal.
    """

    owner: Incarnation
    now: float
    expires: float
    is_dead: Callable[[Incarnation], bool]
    given_up: frozenset[tuple[int, int]] = frozenset()


def new_rows(
    group: EffectGroup, now: float, dues: Sequence[float]
) -> tuple[GroupRow, list[ChildRow]]:
    """Build the rows of a first open, every child unclaimed and unsettled."""
    row = GroupRow(
        key=group.key,
        scope=group.scope,
        children=len(group.children),
        wake=str(group.wake),
        declared=str(group.disposition),
        effective=str(group.disposition),
        closes=0,
        counter=0,
        opened_at=now,
    )
    children = [
        ChildRow(
            group=group.key,
            position=position,
            replay_key=child.replay_key,
            fingerprint=child.fingerprint(),
            envelope=child.encoded(),
            due=due,
            owner_epoch=NOBODY.epoch,
            owner_number=NOBODY.number,
            token=0,
            expires=0.0,
            sequence=0,
            outcome=b"",
            settled_at=0.0,
        )
        for position, (child, due) in enumerate(zip(group.children, dues, strict=True))
    ]
    return row, children


def require_shape(row: GroupRow, children: Sequence[ChildRow], offered: EffectGroup) -> None:
    """Refuse a reopen whose shape or children differ from the record, settled or not."""
    for field, recorded, asked in (
        ("children", row.children, len(offered.children)),
        ("wake", row.wake, str(offered.wake)),
        ("disposition", row.declared, str(offered.disposition)),
        ("scope", row.scope, offered.scope),
    ):
        if recorded != asked:
            raise GroupShapeError(
                f"group {row.key!r} is recorded with {field} = {recorded}, it is reopened with "
                f"{asked}; reopen it as it was opened, or use another key",
                key=row.key,
                field=field,
                recorded=recorded,
                offered=asked,
            )
    for child, envelope in zip(children, offered.children, strict=True):
        require_same_child(child, envelope)


def require_same_child(child: ChildRow, offered: EffectEnvelope) -> None:
    """Refuse another replay key at a position, or another envelope under the same key."""
    if child.replay_key != offered.replay_key:
        raise GroupShapeError(
            f"position {child.position} of group {child.group!r} is recorded under replay key "
            f"{child.replay_key!r}, it is reopened with {offered.replay_key!r}",
            key=child.group,
            position=child.position,
            replay_key=child.replay_key,
            field="replay_key",
            recorded=child.replay_key,
            offered=offered.replay_key,
        )
    if child.fingerprint != offered.fingerprint():
        require_same(
            EffectEnvelope.decoded(child.envelope),
            offered,
            f"group {child.group!r}, position {child.position}",
        )
        raise CorruptGroup(
            f"position {child.position} of group {child.group!r} holds an envelope that does not "
            "match its own fingerprint",
            key=child.group,
        )


def is_free(child: ChildRow, lease: Lease) -> bool:
    """Tell whether a child may be claimed: unsettled, and no live owner holds it (ruling 6).

    The claim of a dead incarnation is free at once, any other only when its time is up. Our own is
    free once its attempt is over here: two opens at one time must not run a child twice.
    """
    if child.settled or child.outcome:  # a terminal without a rank is damage, never repaired here
        return False
    owner = child.owner
    if owner == lease.owner:
        return (child.position, child.token) in lease.given_up
    return owner == NOBODY or lease.is_dead(owner) or child.expires <= lease.now


def claim(child: ChildRow, lease: Lease, *, starts: bool = True) -> ChildRow | None:
    """Claim a child, or None when it is not free.

    A claim starts an attempt, but not of a child that failed before: that one waits until it is
    due, and its start is claimed by `begin`. ``starts=False`` is for who will not run it at all.
    """
    if not is_free(child, lease):
        return None
    return revised(
        child,
        owner_epoch=lease.owner.epoch,
        owner_number=lease.owner.number,
        token=child.token + 1,
        expires=lease.expires,
        attempt=child.attempt + (starts and not child.failures),
    )


def begin(child: ChildRow, held: Claim) -> ChildRow:
    """Count one more attempt of a child that is held, and is due.

    Raises:
        FenceMoved: the claim is not ours any more, or the child is settled: it must not run here.
    """
    _require_held(child, held, "this attempt does not begin")
    return revised(child, attempt=child.attempt + 1)


def postpone(child: ChildRow, held: Claim, due: float) -> ChildRow:
    """Count a failure, and put the next attempt off until it is due; the claim stays.

    Raises:
        FenceMoved: the claim is not ours any more, or the child is settled.
    """
    _require_held(child, held, "this failure is not counted")
    return revised(child, failures=child.failures + 1, due=due)


def renew(child: ChildRow, held: Claim, expires: float) -> ChildRow | None:
    """Extend a claim that still stands, or None when it was lost."""
    if child.settled or (child.owner, child.token) != (held.owner, held.token):
        return None
    return revised(child, expires=expires)


def finalise(
    row: GroupRow, child: ChildRow, held: Claim, outcome: bytes, now: float
) -> tuple[GroupRow, ChildRow]:
    """Give a child its terminal and its rank, together.

    Raises:
        FenceMoved: the claim is not ours any more, or the child is settled. No number is used up.
    """
    _require_held(child, held, "this result is not counted")
    sequence = row.counter + 1
    return (
        revised(row, counter=sequence),
        revised(child, sequence=sequence, outcome=outcome, settled_at=now),
    )


def _require_held(child: ChildRow, held: Claim, verdict: str) -> None:
    if child.settled or (child.owner, child.token) != (held.owner, held.token):
        state = "settled" if child.settled else f"owned by {tuple(child.owner)}"
        raise FenceMoved(
            f"child {child.position} ({child.replay_key!r}) of group {child.group!r} is {state}; "
            f"{verdict}",
            key=child.group,
            position=child.position,
            replay_key=child.replay_key,
        )


def close(row: GroupRow, closes_seen: int, asked: Disposition) -> GroupRow:
    """End the caller's interest: narrow, and count the close once per handle generation.

    A replayed frame closes again with the handle it saved; that changes nothing more.
    """
    effective = narrow(read_word(Disposition, row.effective), asked, row.key)
    closes = row.closes + 1 if closes_seen == row.closes else row.closes
    return revised(row, effective=str(effective), closes=closes)


def in_rank_order(row: GroupRow, children: Sequence[ChildRow]) -> list[ChildRow]:
    """Return the settled children by rank: the k-th smallest recorded sequence is rank k.

    Raises:
        CorruptGroup: a terminal without a rank, a rank without a terminal, or one rank twice.
    """
    settled = sorted((c for c in children if c.settled), key=lambda child: child.sequence)
    for child in children:
        if child.settled != bool(child.outcome):
            raise CorruptGroup(
                f"child {child.position} of group {row.key!r} has a "
                f"{'rank without a terminal' if child.settled else 'terminal without a rank'}; "
                "restore the store from a backup",
                key=row.key,
                position=child.position,
            )
    sequences = [child.sequence for child in settled]
    if len(set(sequences)) != len(sequences) or (sequences and sequences[-1] > row.counter):
        raise CorruptGroup(
            f"group {row.key!r} counts {row.counter} ranks, its children carry {sequences}",
            key=row.key,
        )
    return settled

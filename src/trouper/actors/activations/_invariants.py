"""What the rows of activations have to mean to one another; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...store import Finding, Rows
from ..groups import FINISHED, UNFINISHED, GroupRow, MemberRow, doomed_prefixes, member_key
from ..groups import GROUP_TABLE as MEMBERS
from ..groups import group_key as key_of_group
from ._rows import TABLE, ActivationRow, FenceRow, StepRow, activation_key, fence_key, run_prefix


def activation_invariants(rows: Rows) -> Iterator[Finding]:
    """Find what a run lacks of activation, fence and groups, and lost memberships.

    What a sweep has still to take is judged by nobody.
    """
    doomed = doomed_prefixes(rows)
    for key, row in rows.scan(TABLE, b"A", ActivationRow):
        if (TABLE, key) not in doomed:
            for what in _membership(rows, row):
                yield Finding(TABLE, key.hex(), f"activation {row.key!r} {what}")
            if rows.get(TABLE, fence_key(row.scope), FenceRow) is None:
                yield Finding(TABLE, key.hex(), f"activation {row.key!r} has no fence")
    for tag in (UNFINISHED, FINISHED):
        yield from _lost_members(rows, tag)
    known, missing = "", ""  # rows of one run lie side by side: ask and report once for them
    for key, step in rows.scan(TABLE, b"T", object):
        if not isinstance(step, StepRow | FenceRow) or (TABLE, run_prefix(step.scope)) in doomed:
            continue
        if isinstance(step, StepRow) and _lacks_group(rows, step):
            yield Finding(
                TABLE,
                key.hex(),
                f"step {step.number} of {step.scope!r} is group {step.key!r}, which is not there",
            )
        if step.scope in (known, missing):
            continue
        owner = step.scope.rpartition("#")[0]
        found = rows.get(TABLE, activation_key(owner), ActivationRow)
        if found is not None and found.key == owner:
            known = step.scope
            continue
        missing = step.scope
        yield Finding(TABLE, key.hex(), f"belongs to activation {owner!r}, which is not there")


def _lacks_group(rows: Rows, step: StepRow) -> bool:
    return step.is_group and rows.get(MEMBERS, key_of_group(step.key), GroupRow) is None


def _membership(rows: Rows, row: ActivationRow) -> Iterator[str]:
    listed = _is_listed(rows, UNFINISHED, MemberRow(row.scope, "run", row.key))
    if listed == row.ended:
        yield f"has {'' if row.ended else 'not '}ended; its run is {'' if listed else 'not '}live"
    if not row.parent:
        return
    child = MemberRow(row.parent, "activation", row.key)
    unfinished, finished = (_is_listed(rows, tag, child) for tag in (UNFINISHED, FINISHED))
    if unfinished == finished or (finished and not row.ended):
        word = "finished" if finished else "unfinished" if unfinished else "nothing"
        both = " and unfinished" if unfinished and finished else ""
        yield f"is listed as {word}{both} in scope {row.parent!r}"


def _is_listed(rows: Rows, tag: bytes, member: MemberRow) -> bool:
    return rows.get(MEMBERS, member_key(tag, member), MemberRow) is not None


def _lost_members(rows: Rows, tag: bytes) -> Iterator[Finding]:
    for key, member in rows.scan(MEMBERS, tag, MemberRow):
        if member.kind == "group":
            continue
        if rows.get(TABLE, activation_key(member.key), ActivationRow) is None:
            yield Finding(
                MEMBERS,
                key.hex(),
                f"scope {member.scope!r} lists activation {member.key!r}, which is not there",
            )

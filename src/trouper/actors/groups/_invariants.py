"""What the rows of groups have to mean to one another; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...store import Finding, Rows
from ._retire import member_of
from ._rows import (
    CHILD_TABLE,
    GROUP_TABLE,
    SETTLE_TABLE,
    ChildRow,
    GroupRow,
    SettleRow,
    children_prefix,
    group_key,
    settle_prefix,
)
from ._scopes import FINISHED, UNFINISHED, MemberRow, member_key
from ._signals import QUEUE, SIGNAL_TABLE, SignalRow, SignalsRow, head_key, signal_remains
from ._sweep import GROUPS, SCOPES, Doomed, SweepRow


def group_invariants(rows: Rows) -> Iterator[Finding]:
    """Compare each group with its children, ranks and scope, and find what belongs to no group.

    What a sweep has still to take is judged by nobody.
    """
    doomed = doomed_prefixes(rows)
    for key, group in rows.scan(GROUP_TABLE, b"G", GroupRow):
        if (GROUP_TABLE, key) in doomed:
            continue
        told = _retired(rows, group, doomed) if group.retired else _group(rows, group)
        for what in (*told, *_membership(rows, group)):
            yield Finding(GROUP_TABLE, key.hex(), f"group {group.key!r} {what}")
    for tag in (UNFINISHED, FINISHED):
        yield from _lost_members(rows, tag)
    yield from _orphans(rows, CHILD_TABLE, b"C", ChildRow)
    yield from _orphans(rows, SETTLE_TABLE, b"S", SettleRow)


def doomed_prefixes(rows: Rows) -> frozenset[Doomed]:
    """Return what the sweeps of a store have still to take: pairs of table and prefix."""
    found: set[Doomed] = set()
    for tag in (GROUPS, SCOPES):
        for _, row in rows.scan(GROUP_TABLE, tag, SweepRow):
            found.update(row.doomed)
    return frozenset(found)


def _retired(rows: Rows, group: GroupRow, doomed: frozenset[Doomed]) -> Iterator[str]:
    for table, prefix, kind in (
        (CHILD_TABLE, children_prefix(group.key), ChildRow),
        (SETTLE_TABLE, settle_prefix(group.key), SettleRow),
    ):
        left = sum(1 for _ in rows.scan(table, prefix, kind))
        if left and (table, prefix) not in doomed:
            yield f"is retired, and {left} of its rows are left in {table!r}; no sweep takes them"


def _membership(rows: Rows, group: GroupRow) -> Iterator[str]:
    member = member_of(group)
    for tag, word, belongs in (
        (UNFINISHED, "unfinished", not group.finished),
        (FINISHED, "finished", group.finished),
    ):
        listed = rows.get(GROUP_TABLE, member_key(tag, member), MemberRow) is not None
        if listed != belongs:
            yield f"is {'' if listed else 'not '}listed as {word} in scope {group.scope!r}"


def _lost_members(rows: Rows, tag: bytes) -> Iterator[Finding]:
    for key, member in rows.scan(GROUP_TABLE, tag, MemberRow):
        if (
            member.kind == "group"
            and rows.get(GROUP_TABLE, group_key(member.key), GroupRow) is None
        ):
            yield Finding(
                GROUP_TABLE,
                key.hex(),
                f"scope {member.scope!r} lists group {member.key!r}, which is not there",
            )


def _group(rows: Rows, group: GroupRow) -> Iterator[str]:
    children = {
        child.position: child
        for _, child in rows.scan(CHILD_TABLE, children_prefix(group.key), ChildRow)
    }
    if sorted(children) != list(range(group.children)):
        yield f"has {group.children} children; there are rows of positions {sorted(children)}"
    for child in children.values():
        if child.settled != bool(child.outcome):
            has, wants = ("rank", "terminal") if child.settled else ("terminal", "rank")
            yield f"has a child {child.position} with a {has} and no {wants}"
    ranks = sorted(child.sequence for child in children.values() if child.settled)
    if ranks != list(range(1, group.counter + 1)):
        yield f"counts {group.counter} ranks; its children carry {ranks}"
    index = {
        row.sequence: row.position
        for _, row in rows.scan(SETTLE_TABLE, settle_prefix(group.key), SettleRow)
    }
    carried = {child.sequence: child.position for child in children.values() if child.settled}
    for sequence in sorted(index.keys() | carried.keys()):
        place, holder = index.get(sequence), carried.get(sequence)
        if place is None:
            yield f"has rank {sequence} at child {holder}, and no settlement says so"
        elif holder is None:
            yield f"has a settlement of rank {sequence}, and no child carries that"
        elif place != holder:
            yield f"settled rank {sequence} for child {place}, and child {holder} carries it"


def _orphans(
    rows: Rows, table: str, tag: bytes, kind: type[ChildRow] | type[SettleRow]
) -> Iterator[Finding]:
    known, missing = "", ""  # rows of one group lie side by side: ask and report once for them
    for key, row in rows.scan(table, tag, kind):
        if row.group in (known, missing):
            continue
        found = rows.get(GROUP_TABLE, group_key(row.group), GroupRow)
        if found is not None and found.key == row.group:
            known = row.group
            continue
        missing = row.group
        yield Finding(table, key.hex(), f"belongs to group {row.group!r}, which is not there")


def signal_invariants(rows: Rows) -> Iterator[Finding]:
    """Find signals that were numbered beyond what came to their address."""
    for key, row in rows.scan(SIGNAL_TABLE, QUEUE, SignalRow):
        head = rows.get(SIGNAL_TABLE, head_key(row.address, row.name), SignalsRow)
        arrived = 0 if head is None else head.arrived
        if row.number >= arrived and not _is_swept(rows, row.address):
            yield Finding(
                SIGNAL_TABLE,
                key.hex(),
                f"signal {row.number} {row.name!r} to {row.address!r}, to which {arrived} came",
            )


def _is_swept(rows: Rows, address: str) -> bool:
    doomed = doomed_prefixes(rows)
    return any(each in doomed for each in signal_remains(address))

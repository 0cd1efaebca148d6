"""What the rows of groups have to mean to one another; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...store import Finding, Rows
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


def group_invariants(rows: Rows) -> Iterator[Finding]:
    """Compare each group with its children and ranks, and find what belongs to no group."""
    for key, group in rows.scan(GROUP_TABLE, b"G", GroupRow):
        for what in _group(rows, group):
            yield Finding(GROUP_TABLE, key.hex(), f"group {group.key!r} {what}")
    yield from _orphans(rows, CHILD_TABLE, b"C", ChildRow)
    yield from _orphans(rows, SETTLE_TABLE, b"S", SettleRow)


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

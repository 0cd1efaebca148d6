"""The sweep: takes away, so many rows a unit, what one atomic mark gave up.

A sweep is a row that says what is left to take: prefixes of rows, and scopes whose members are to
be looked up. Each unit takes what it may and writes down the rest, so a crash loses nothing of it
and the next open goes on. It reads keys and not rows: damage does not stop it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...errors import CorruptRecord
from ...store import Tx, record, row_key
from ._rows import (
    CHILD_TABLE,
    GROUP_TABLE,
    SETTLE_TABLE,
    GroupRow,
    children_prefix,
    group_key,
    settle_prefix,
)
from ._scopes import MemberRow, Reader, finished_prefix

SWEEP_ROWS = 256
"""Rows that one unit takes at most: what others wait for, in the worst case, is a unit."""

MEMBERS_AT_ONCE = 32
GROUPS, SCOPES = b"R", b"Z"

_RUN = re.compile(r"#\d+")  # what ends the name of a run; runs below it begin with that name

Doomed: TypeAlias = tuple[str, bytes]
"""Table and prefix of keys; no table and a scope stands for everything that belongs to it."""


@record("sweep", version=1)
@dataclass(frozen=True, slots=True)
class SweepRow:
    """What is left to take away for a group or a scope of this name; the last goes first."""

    name: str
    tables: list[str]
    prefixes: list[bytes]

    @property
    def doomed(self) -> list[Doomed]:
        """Return it as pairs."""
        return list(zip(self.tables, self.prefixes, strict=True))


def sweep_key(tag: bytes, name: str) -> bytes:
    """Return the row key of a sweep."""
    return row_key(tag, name)


def being_swept(tx: Reader, scope: str) -> bool:
    """Tell whether a scope, or one that it lies in, was retired and is not gone yet."""
    above = [scope[: run.end()] for run in _RUN.finditer(scope)]
    return any(
        tx.get(GROUP_TABLE, sweep_key(SCOPES, each), SweepRow) is not None
        for each in dict.fromkeys([*above, scope])
    )


def everything_in(scope: str) -> Doomed:
    """Return what stands for the members of a scope, and for what they take with them."""
    return "", scope.encode("utf-8", "surrogatepass")


def group_remains(key: str) -> list[Doomed]:
    """Return the rows of a group apart from its own, which stays as its tombstone."""
    return [(SETTLE_TABLE, settle_prefix(key)), (CHILD_TABLE, children_prefix(key))]


def begin_sweep(tx: Tx, tag: bytes, name: str, doomed: list[Doomed]) -> None:
    """Take away what one unit may, and leave a sweep for the rest: the mark is this unit."""
    _write_down(tx, sweep_key(tag, name), name, _take(tx, doomed))


def sweep(tx: Tx, where: bytes) -> bool:
    """Go on with a sweep by one unit; True once nothing is left of it."""
    row = tx.get(GROUP_TABLE, where, SweepRow)
    if row is None:
        return True
    left = _take(tx, row.doomed)
    _write_down(tx, where, row.name, left)
    return not left


def _write_down(tx: Tx, where: bytes, name: str, left: list[Doomed]) -> None:
    if left:
        tables, prefixes = zip(*left, strict=True)
        tx.put(GROUP_TABLE, where, SweepRow(name, list(tables), list(prefixes)))
    else:
        tx.delete(GROUP_TABLE, where)


def _take(tx: Tx, doomed: list[Doomed]) -> list[Doomed]:
    left, rows = list(doomed), SWEEP_ROWS
    while left and rows > 0:
        table, what = left.pop()
        if table:
            taken = _take_rows(tx, table, what, rows)
            if taken == rows:
                left.append((table, what))
        else:
            taken, remains = _take_members(tx, what, min(rows, MEMBERS_AT_ONCE))
            if taken:
                left += [(table, what), *remains]
        rows -= max(taken, 1)  # a look costs too
    return left


def _take_rows(tx: Tx, table: str, prefix: bytes, limit: int) -> int:
    keys = tx.keys(table, prefix, limit=limit)
    for key in keys:
        tx.delete(table, key)
    return len(keys)


def _take_members(tx: Tx, scope: bytes, limit: int) -> tuple[int, list[Doomed]]:
    prefix = finished_prefix(scope.decode("utf-8", "surrogatepass"))
    rows = tx.scan(GROUP_TABLE, prefix, MemberRow, limit=limit)
    remains: list[Doomed] = []
    for key, member in rows:
        tx.delete(GROUP_TABLE, key)
        remains += _EXTENTS[member.kind](tx, member.key)
    return len(rows), remains


# -- what a member takes with it -----------------------------------------------------------------

Extent: TypeAlias = Callable[[Tx, str], list[Doomed]]
_EXTENTS: dict[str, Extent] = {}


def extent(kind: str) -> Callable[[Extent], Extent]:
    """Register how to find the rows of a kind of member, by its key."""

    def register(fn: Extent) -> Extent:
        _EXTENTS[kind] = fn
        return fn

    return register


@extent("group")
def _of_a_group(tx: Tx, key: str) -> list[Doomed]:
    # Its own row goes last: as long as anything of it is there, opening it is refused.
    try:
        row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
    except CorruptRecord:
        row = None  # it goes with its scope, readable or not
    if row is not None and not row.retired:
        tx.put(GROUP_TABLE, group_key(key), replace(row, retired=True))
    own, sweep_of_it = (GROUP_TABLE, group_key(key)), (GROUP_TABLE, sweep_key(GROUPS, key))
    return [own, *group_remains(key), sweep_of_it]

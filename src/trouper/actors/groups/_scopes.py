"""What belongs to a scope: the one place that finds it all again.

A scope is one run of an activation, or the string that a caller of the bare host chose. Each group,
each child activation and the run itself is a member of its scope, listed in table ``group`` as
unfinished until it may be taken away, as finished from then on. So recovery reads what is
unfinished and nothing else, and retiring a scope asks one question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol, TypeVar

from ...errors import ScopeBusy
from ...store import Store, Tx, record, row_key
from ._rows import GROUP_TABLE, report_damage

T = TypeVar("T")
UNFINISHED, FINISHED, CLOSING = b"U", b"M", b"K"
SHOWN = 5  # members that a refusal names


@record("member", version=1)
@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member of a scope. ``kind`` is ``group``, ``activation`` (a child of it) or ``run``."""

    scope: str
    kind: str
    key: str


@record("closing", version=1)
@dataclass(frozen=True, slots=True)
class ClosingRow:
    """A child activation that ended before everything in its own scope did."""

    scope: str
    parent: str
    key: str


class Reader(Protocol):
    """What looking takes: a store, or a transaction."""

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return a row, or None."""
        ...

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[T],
        *,
        after: bytes = b"",
        limit: int | None = None,
    ) -> list[tuple[bytes, T]]:
        """Return rows."""
        ...


def member_key(tag: bytes, member: MemberRow) -> bytes:
    """Return the row key of a member; a scope has one run, found without its key."""
    ident = "run" if member.kind == "run" else f"{member.kind} {member.key}"
    digest = blake2b(ident.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return row_key(tag, member.scope, digest)


def unfinished_prefix(scope: str) -> bytes:
    """Return the prefix under which the unfinished members of a scope lie."""
    return row_key(UNFINISHED, scope)


def finished_prefix(scope: str) -> bytes:
    """Return the prefix under which the finished members of a scope lie."""
    return row_key(FINISHED, scope)


def closing_key(scope: str) -> bytes:
    """Return the row key of a scope whose run ended before the rest of it."""
    return row_key(CLOSING, scope)


def enter(tx: Tx, member: MemberRow) -> None:
    """List a new member as unfinished."""
    tx.put(GROUP_TABLE, member_key(UNFINISHED, member), member)


def take_off(tx: Tx, tag: bytes, member: MemberRow) -> None:
    """Take a member off a list."""
    tx.delete(GROUP_TABLE, member_key(tag, member))


def leave(tx: Tx, member: MemberRow) -> None:
    """List a member as finished; with it may finish the child activation whose scope it was in."""
    while True:
        tx.delete(GROUP_TABLE, member_key(UNFINISHED, member))
        tx.put(GROUP_TABLE, member_key(FINISHED, member), member)
        closing = tx.get(GROUP_TABLE, closing_key(member.scope), ClosingRow)
        if closing is None or tx.keys(GROUP_TABLE, unfinished_prefix(member.scope), limit=1):
            return
        tx.delete(GROUP_TABLE, closing_key(member.scope))
        member = MemberRow(closing.parent, "activation", closing.key)


def begin_run(tx: Tx, scope: str, key: str, parent: str) -> None:
    """List a run as live in its own scope, and its activation as unfinished in its parent's."""
    enter(tx, MemberRow(scope, "run", key))
    if parent:
        enter(tx, MemberRow(parent, "activation", key))


def end_run(tx: Tx, scope: str, key: str, parent: str) -> None:
    """End a run. Its activation is finished once everything in its scope is (ruling 15)."""
    tx.delete(GROUP_TABLE, member_key(UNFINISHED, MemberRow(scope, "run", key)))
    if not parent:
        return
    if tx.keys(GROUP_TABLE, unfinished_prefix(scope), limit=1):
        tx.put(GROUP_TABLE, closing_key(scope), ClosingRow(scope, parent, key))
    else:
        leave(tx, MemberRow(parent, "activation", key))


def is_live(source: Reader, scope: str) -> bool:
    """Tell whether the run that a scope belongs to has not ended."""
    run = member_key(UNFINISHED, MemberRow(scope, "run", ""))
    return source.get(GROUP_TABLE, run, MemberRow) is not None


def all_unfinished(store: Store, kind: str) -> list[MemberRow]:
    """Return every unfinished member of a kind, in all scopes: what recovery has to look at.

    A row that cannot be read is reported and left out.
    """
    rows = store.scan(GROUP_TABLE, UNFINISHED, MemberRow, damaged=report_damage)
    return [row for _, row in rows if row.kind == kind]


def unfinished(source: Reader, scope: str, limit: int | None = None) -> Iterator[MemberRow]:
    """Give out the unfinished members of a scope."""
    rows = source.scan(GROUP_TABLE, unfinished_prefix(scope), MemberRow, limit=limit)
    return (row for _, row in rows)


def require_finished(tx: Tx, scope: str) -> None:
    """Refuse to go on while anything in a scope is unsettled or live.

    Raises:
        ScopeBusy: something is; the first few are named.
    """
    found = [f"{row.kind} {row.key!r}" for row in unfinished(tx, scope, SHOWN + 1)]
    if found:
        more = ", ..." if len(found) > SHOWN else ""
        raise ScopeBusy(
            f"scope {scope!r} is in use: {', '.join(found[:SHOWN])}{more} is open, unsettled or "
            "live; close it, wait for it or cancel it, then try again",
            key=scope,
            scope=scope,
            unfinished=found[:SHOWN],
        )

"""From the journal to where an owner begins: the latest snapshot and the records after it.

The same pure functions that apply a record when it is decided apply it here.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from trio.lowlevel import checkpoint

from ...errors import ActorMismatch, CorruptRecord, ValueRefused
from ...store import HISTORY, HeadRow, Store, read_head, read_records
from ._rows import ReplyRow, SnapshotRow, decode_kept, reply_key, snapshot_key
from ._rules import Rules
from ._unit import Recovered

log = logging.getLogger("trouper.actors")

READ_AT_ONCE: Final = 128  # rows read and applied between two checkpoints, about 1 ms of work


async def recover(store: Store, rules: Rules, actor: Any, key: str) -> Recovered:
    """Read and apply the history of one key.

    Raises:
        ActorMismatch: The history is that of another class.
        CorruptRecord: A row of it is damaged or missing.
        FormatTooNew: A row was written by a newer version.
        UpcastFailed: A record's upcaster is missing or failed.
        TypeError: The class applies no records of a type that the history has.
    """
    while True:
        head = read_head(store, key)
        if head is None:
            return Recovered(rules.initial)
        check_owner(head, rules)
        found = await _read(store, rules, actor, head)
        # Another owner on this store may have committed meanwhile, its snapshot included.
        again = read_head(store, key)
        if again is not None and again.units == head.units:
            return found


def check_owner(head: HeadRow, rules: Rules) -> None:
    """Refuse the history of another class.

    Raises:
        ActorMismatch: It is.
    """
    if head.actor != rules.name:
        raise ActorMismatch(
            f"the history of {head.key!r} is that of a {head.actor}, not of a {rules.name}; use "
            "another key, or, if the class was renamed, give it its old name: "
            f'class ...(DurableActor[...], name="{head.actor}")',
            key=head.key,
            recorded=head.actor,
            offered=rules.name,
        )


async def _read(store: Store, rules: Rules, actor: Any, head: HeadRow) -> Recovered:
    key = head.key
    state, snapshot = _snapshot(store, rules, head) if head.snapshot else (rules.initial, 0)
    for number, value in enumerate(
        read_records(store, head, snapshot + 1, head.records), snapshot + 1
    ):
        if number % READ_AT_ONCE == 0:
            await checkpoint()
        state = rules.apply(actor, state, value)
    replies: list[tuple[int, ReplyRow]] = []
    first = max(1, head.replies - rules.limits.keep_replies + 1)
    for number in range(first, head.replies + 1):
        if number % READ_AT_ONCE == 0:
            await checkpoint()
        row = store.get(HISTORY, reply_key(key, number), ReplyRow)
        if row is not None:  # else it was forgotten under a smaller limit
            replies.append((number, row))
    return Recovered(state, head, snapshot, tuple(replies))


def _snapshot(store: Store, rules: Rules, head: HeadRow) -> tuple[Any, int]:
    """Return the state that the snapshot holds, and behind which record to go on.

    A state of another class is that of another version of the rules. The history is complete
    without it: it is applied from its first record on, by the rules that there are now.
    """
    where = snapshot_key(head.key)
    row = store.get(HISTORY, where, SnapshotRow)
    if row is None or row.key != head.key:
        raise _damaged(head, where, "is missing")
    try:
        state, _ = decode_kept(row.state)
    except ValueRefused as error:
        raise _damaged(head, where, f"cannot be read ({error.reason})") from error
    if row.number != head.snapshot:
        # Written after the head was read; `recover` sees that and reads again.
        return rules.initial, head.snapshot
    if isinstance(state, rules.state):
        return state, head.snapshot
    log.warning(
        "the snapshot of %r holds a %s, and its state is a %s now: recovering from all %d records",
        head.key,
        type(state).__qualname__,
        rules.state.__qualname__,
        head.records,
    )
    return rules.initial, 0


def _damaged(head: HeadRow, where: bytes, what: str) -> CorruptRecord:
    return CorruptRecord(
        f"the snapshot of {head.key!r} {what}; restore the store from a backup",
        table=HISTORY,
        key=where.hex(),
    )

"""What the rows of durable actors have to hold together; for `trouper store check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...errors import CorruptRecord
from ...store import HISTORY, ROWS, Finding, HeadRow, Rows, ident_of, read_rows
from ._rows import SnapshotRow, snapshot_key


def history_invariants(rows: Rows) -> Iterator[Finding]:
    """Find histories with gaps, without their head or their snapshot, or longer than it says.

    Records are of the application's own types, which a tool need not have imported, so that they
    are counted here and not read.
    """
    there = Counter(ident_of(key) for key in rows.keys(HISTORY, ROWS))
    for key, head in rows.scan(HISTORY, b"H", HeadRow):
        for what in _history(rows, head, there.pop(key[1:], 0)):
            yield Finding(HISTORY, key.hex(), f"the history of {head.key!r} {what}")
    for key in rows.keys(HISTORY, ROWS) if there else ():
        if there.pop(ident_of(key), 0):
            yield Finding(HISTORY, key.hex(), "is a record of a history without a head")


def _history(rows: Rows, head: HeadRow, there: int) -> Iterator[str]:
    if head.snapshot:
        row = rows.get(HISTORY, snapshot_key(head.key), SnapshotRow)
        if row is None or (row.key, row.number) != (head.key, head.snapshot):
            yield f"has no snapshot at record {head.snapshot}, where its head says"
    found = number = 0
    try:
        for key, records in read_rows(rows, head, 1):
            found += key.startswith(ROWS)  # the others lie in the head
            number += len(records.records)
    except CorruptRecord:
        yield f"lacks record {number + 1}"
        return
    if number > head.records:
        yield f"goes on to record {number}, and its head says {head.records}"
    elif there > found:
        yield f"has rows of records that its head does not know: {there - found}"

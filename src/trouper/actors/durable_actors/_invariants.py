"""What the rows of durable actors have to hold together; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...store import HISTORY, Finding, HeadRow, Rows, head_key, record_key
from ._rows import SnapshotRow, snapshot_key


def history_invariants(rows: Rows) -> Iterator[Finding]:
    """Find histories with gaps, without their head or their snapshot, or longer than it says.

    Records are of the application's own types, which a tool need not have imported, so that only
    their keys are looked at here; whether their bytes are sound is the verifier's to say.
    """
    for key, head in rows.scan(HISTORY, b"H", HeadRow):
        for what in _history(rows, head):
            yield Finding(HISTORY, key.hex(), f"the history of {head.key!r} {what}")
    tag, last = record_key("", 0)[:1], b""
    heads = head_key("")[:1]
    for key in rows.keys(HISTORY, tag):
        ident = key[1:-8]
        if ident != last and rows.get(HISTORY, heads + ident, HeadRow) is None:
            yield Finding(HISTORY, key.hex(), "is a record of a history without a head")
        last = ident


def _history(rows: Rows, head: HeadRow) -> Iterator[str]:
    if head.snapshot:
        row = rows.get(HISTORY, snapshot_key(head.key), SnapshotRow)
        if row is None or (row.key, row.number) != (head.key, head.snapshot):
            yield f"has no snapshot at record {head.snapshot}, where its head says"
    number = 0
    for key in rows.keys(HISTORY, record_key(head.key, 0)[:-8]):
        number += 1
        found = int.from_bytes(key[-8:], "big")
        if found != number:
            yield f"lacks record {number}"
            number = found
    if number < head.records:
        yield f"ends at record {number}, and its head says {head.records}"
    elif number > head.records:
        yield f"goes on to record {number} behind its head, record {head.records}"

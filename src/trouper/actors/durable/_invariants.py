"""What the rows of durable actors have to hold together; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...store import HISTORY, Finding, HeadRow, Rows, record_key
from ._rows import SnapshotRow, snapshot_key


def history_invariants(rows: Rows) -> Iterator[Finding]:
    """Find histories whose snapshot is missing, or that go on behind their head.

    Records are of the application's own types, which a tool need not have imported: one that is
    missing shows at recovery, or when the history is read.
    """
    for key, head in rows.scan(HISTORY, b"H", HeadRow):
        if head.snapshot:
            row = rows.get(HISTORY, snapshot_key(head.key), SnapshotRow)
            if row is None or (row.key, row.number) != (head.key, head.snapshot):
                what = f"the snapshot of {head.key!r} at record {head.snapshot} is missing"
                yield Finding(HISTORY, key.hex(), what)
        beyond = rows.get(HISTORY, record_key(head.key, head.records + 1), object)
        if beyond is not None:
            what = f"the history of {head.key!r} goes on behind its head, record {head.records}"
            yield Finding(HISTORY, key.hex(), what)

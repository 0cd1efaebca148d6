"""What the row of an operation has to hold; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import CorruptRecord
from ...store import Finding, Rows
from ._rows import TABLE, OperationRow


def operation_invariants(rows: Rows) -> Iterator[Finding]:
    """Find operations whose canonical record or log cannot be read."""
    for key, row in rows.scan(TABLE, b"O", OperationRow):
        try:
            row.state()
        except CorruptRecord as error:
            yield Finding(TABLE, key.hex(), str(error))

"""What `trouper store check` looks at in operations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trouper.actors.operations import OperationRow, operation_invariants
from trouper.actors.operations._rows import operation_key
from trouper.store import LmdbStore, check


async def test_a_log_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    sound = OperationRow.new("k", b"")
    async with LmdbStore(tmp_path) as store:
        await store.commit(lambda tx: tx.put("record", operation_key("k"), sound))
    assert check(tmp_path, invariants=[operation_invariants]).ok
    async with LmdbStore(tmp_path) as store:
        await store.commit(
            lambda tx: tx.put("record", operation_key("k"), replace(sound, log=b"\xff"))
        )
    (finding,) = check(tmp_path, invariants=[operation_invariants]).findings
    assert "operation 'k' holds" in finding.what

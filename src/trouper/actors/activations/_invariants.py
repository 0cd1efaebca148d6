"""What the rows of activations have to mean to one another; for `trouper store check`."""

from __future__ import annotations

from collections.abc import Iterator

from ...store import Finding, Rows
from ..groups import GroupRow
from ..groups import group_key as key_of_group
from ._rows import TABLE, ActivationRow, StepRow, activation_key


def activation_invariants(rows: Rows) -> Iterator[Finding]:
    """Find steps without their activation, and steps whose group is not there."""
    known, missing = "", ""  # steps of one run lie side by side: ask and report once for them
    for key, step in rows.scan(TABLE, b"T", StepRow):
        if not step.envelope and rows.get("group", key_of_group(step.key), GroupRow) is None:
            yield Finding(
                TABLE,
                key.hex(),
                f"step {step.number} of {step.scope!r} is group {step.key!r}, which is not there",
            )
        if step.scope in (known, missing):
            continue
        owner = step.scope.rpartition("#")[0]
        found = rows.get(TABLE, activation_key(owner), ActivationRow)
        if found is not None and found.key == owner:
            known = step.scope
            continue
        missing = step.scope
        yield Finding(TABLE, key.hex(), f"belongs to activation {owner!r}, which is not there")

"""Actors as nodes of the supervision tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..supervision import TreeNode

if TYPE_CHECKING:
    from ._local import LocalRef
    from ._waits import WaitGraph


def actor_node(ref: LocalRef, waits: WaitGraph) -> TreeNode:
    """Return a snapshot of one actor and its children."""
    numbers = ref.statistics()
    details: dict[str, Any] = {"mailbox": numbers.depth, "processed": numbers.processed}
    if ref.incarnation > 1:
        details["restarts"] = ref.incarnation - 1
    targets = waits.targets(ref)
    if targets:
        details["waits_on"] = [target.path for target in targets]
    state = "busy" if ref.worker is not None and numbers.state == "running" else numbers.state
    children = tuple(actor_node(child, waits) for child in ref.children)
    return TreeNode(ref.name, "actor", state, details, children)

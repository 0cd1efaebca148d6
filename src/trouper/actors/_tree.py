"""Actors as nodes of the supervision tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..supervision import TreeNode

if TYPE_CHECKING:
    from ._local import LocalRef
    from ._waits import WaitGraph


def actor_node(ref: LocalRef, waits: WaitGraph) -> TreeNode:
    """Return a snapshot of one actor and everything under it, however deep that is."""
    found = [ref]
    below: dict[LocalRef, list[LocalRef]] = {}
    for at in found:  # grows while it is walked
        below[at] = list(at.children)
        found += below[at]
    nodes: dict[LocalRef, TreeNode] = {}
    for at in reversed(found):
        children = tuple([nodes.pop(child) for child in below[at]])
        nodes[at] = _node(at, waits, children)
    return nodes[ref]


def _node(ref: LocalRef, waits: WaitGraph, children: tuple[TreeNode, ...]) -> TreeNode:
    numbers = ref.statistics()
    details: dict[str, Any] = {"mailbox": numbers.depth, "processed": numbers.processed}
    if ref.incarnation > 1:
        details["restarts"] = ref.incarnation - 1
    targets = waits.targets(ref)
    if targets:
        details["waits_on"] = [target.path for target in targets]
    state = "busy" if ref.worker is not None and numbers.state == "running" else numbers.state
    return TreeNode(ref.name, "actor", state, details, children)

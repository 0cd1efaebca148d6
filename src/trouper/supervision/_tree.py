"""A supervision tree as plain data, and as text. Nothing here recurses: a tree may be deep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# What a drawing shows by default, before it only says what else there is.
TREE_DEPTH: Final = 16
TREE_CHILDREN: Final = 100


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One node of a snapshot: a system, an actor, an activation, a cell, any supervised thing.

    ``details`` is small, ordered and fit for JSON; children stand in start order.
    """

    name: str
    kind: str
    state: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    children: tuple[TreeNode, ...] = ()

    def walk(self) -> Iterator[TreeNode]:
        """Yield this node and everything under it, parents first."""
        pending: list[TreeNode] = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += node.children[::-1]

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as dicts and lists, for JSON."""
        whole = self._alone()
        pending: list[tuple[TreeNode, dict[str, Any]]] = [(self, whole)]
        while pending:
            node, data = pending.pop()
            for child in node.children:
                below = child._alone()
                data["children"].append(below)
                pending.append((child, below))
        return whole

    def _alone(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "state": self.state,
            "details": dict(self.details),
            "children": [],
        }


def render_text(
    node: TreeNode, *, max_depth: int = TREE_DEPTH, max_children: int = TREE_CHILDREN
) -> str:
    """Draw a tree with box characters, one node per line.

    Args:
        node: The root.
        max_depth: Levels below the root that are drawn.
        max_children: Children of one node that are drawn. What is left out is counted by state.

    Raises:
        ValueError: A bound is below 1.
    """
    lines: list[str] = []
    rests = [""]  # what stands in front of the children of each level
    for level, is_last, child in outline(node, max_depth=max_depth, max_children=max_children):
        del rests[level + 1 :]
        branch, below = ("", "") if not level else ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        lines.append(rests[level] + branch + "  ".join(node_parts(child)))
        rests.append(rests[level] + below)
    return "\n".join(lines)


def outline(
    root: TreeNode, *, max_depth: int, max_children: int
) -> Iterator[tuple[int, bool, TreeNode]]:
    """Yield what a drawing of a tree shows, parents first: level, is it a last child, the node.

    What is beyond a bound is one node of kind *more*, which counts it by state.

    Raises:
        ValueError: A bound is below 1.
    """
    for what, bound in (("max_depth", max_depth), ("max_children", max_children)):
        if bound < 1:
            raise ValueError(f"{what} must be 1 or more, not {bound}")
    pending = [(0, True, root)]
    while pending:
        level, is_last, node = pending.pop()
        yield level, is_last, node
        shown = node.children[:max_children] if level < max_depth else ()
        left_out = node.children[len(shown) :]
        below = (*shown, _more(left_out)) if left_out else shown
        last = len(below) - 1
        pending += [(level + 1, i == last, child) for i, child in enumerate(below)][::-1]


def node_parts(node: TreeNode) -> list[str]:
    """Return what is shown of one node: name, kind, state and its details, each if there is one.

    Names are the users': what would move the cursor or break the line is shown as an escape.
    """
    details = (f"{key}={value}" for key, value in node.details.items())
    return [_printable(part) for part in (node.name, node.kind, node.state, *details) if part]


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _more(nodes: Sequence[TreeNode]) -> TreeNode:
    states = Counter(node.state for top in nodes for node in top.walk())
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return TreeNode(f"… {states.total()}", "more", counts)

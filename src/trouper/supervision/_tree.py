"""A supervision tree as plain data, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


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
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as dicts and lists, for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "state": self.state,
            "details": dict(self.details),
            "children": [child.to_dict() for child in self.children],
        }


def render_text(node: TreeNode) -> str:
    """Draw a tree with box characters, one node per line."""
    return "\n".join(_lines(node, "", ""))


def _lines(node: TreeNode, first: str, rest: str) -> Iterator[str]:
    details = "  ".join(f"{key}={value}" for key, value in node.details.items())
    yield first + "  ".join(part for part in (node.name, node.kind, node.state, details) if part)
    last = len(node.children) - 1
    for index, child in enumerate(node.children):
        branch, below = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
        yield from _lines(child, rest + branch, rest + below)

"""A supervision tree in colours: what `render_text` draws, as a `rich` renderable."""

from __future__ import annotations

from typing import Final

from rich.text import Text
from rich.tree import Tree

from ..supervision import TREE_CHILDREN, TREE_DEPTH, TreeNode, node_parts, outline

_STATES: Final = {
    "running": "green",
    "busy": "bold green",
    "starting": "cyan",
    "draining": "yellow",
    "stopping": "yellow",
    "stopped": "dim",
    "failed": "bold red",
}
# Details that want to be seen when they are not nought: (key, its style).
_LOUD: Final = {"mailbox": "yellow", "restarts": "magenta", "waits_on": "red"}


def rich_tree(
    node: TreeNode, *, max_depth: int = TREE_DEPTH, max_children: int = TREE_CHILDREN
) -> Tree:
    """Return a supervision tree for ``rich.print``, from ``system.tree()`` most often.

    States are coloured; messages that wait, restarts and waits on others stand out. Names are
    shown as they are: brackets in them are no markup. A level takes four columns, and rich leaves
    out what lies beyond the width of the console: choose ``max_depth`` for a narrow one.

    Args:
        node: The root.
        max_depth: Levels below the root that are drawn.
        max_children: Children of one node that are drawn. What is left out is counted by state.

    Raises:
        ValueError: A bound is below 1.
    """
    path: list[Tree] = []
    for level, _, child in outline(node, max_depth=max_depth, max_children=max_children):
        del path[level:]
        label = _label(child)
        path.append(path[-1].add(label) if path else Tree(label, guide_style="dim"))
    return path[0]


def _label(node: TreeNode) -> Text:
    if node.kind == "more":
        return Text("  ".join(node_parts(node)), style="dim italic")
    styles = _styles(node)
    shown = [(part, styles[i]) for i, part in enumerate(node_parts(node))]
    return Text("  ").join(Text(part, style=style) for part, style in shown)


def _styles(node: TreeNode) -> list[str]:
    """Return the styles of the parts of a node, in the order of `node_parts`."""
    head = (
        (node.name, "bold"),
        (node.kind, "dim"),
        (node.state, _STATES.get(node.state, "")),
    )
    styles = [style for part, style in head if part]
    return styles + [_LOUD.get(key, "") if value else "dim" for key, value in node.details.items()]

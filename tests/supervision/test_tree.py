"""Trees as data and as text."""

from __future__ import annotations

import json

import pytest

from trouper.supervision import TreeNode, render_text

TREE = TreeNode(
    "shop",
    "system",
    "running",
    children=(
        TreeNode(
            "orders", "actor", "busy", {"mailbox": 3}, (TreeNode("line#1", "actor", "running"),)
        ),
        TreeNode("stock", "actor", "failed"),
    ),
)


@pytest.mark.proves("Supervision: a tree can be snapshotted")
def test_a_tree_is_drawn_one_node_per_line_children_in_order() -> None:
    assert render_text(TREE).splitlines() == [
        "shop  system  running",
        "├─ orders  actor  busy  mailbox=3",
        "│  └─ line#1  actor  running",
        "└─ stock  actor  failed",
    ]


@pytest.mark.proves("Supervision: a tree can be snapshotted")
def test_a_tree_goes_to_json_and_back_whole() -> None:
    data = json.loads(json.dumps(TREE.to_dict()))
    assert data["children"][0]["details"] == {"mailbox": 3}
    assert [child["name"] for child in data["children"]] == ["orders", "stock"]


def test_walk_visits_parents_first() -> None:
    assert [node.name for node in TREE.walk()] == ["shop", "orders", "line#1", "stock"]

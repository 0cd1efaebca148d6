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


@pytest.mark.proves("Supervision: a tree can be snapshotted")
def test_a_deep_tree_is_walked_taken_as_data_and_drawn() -> None:
    node = TreeNode("n0", "actor", "running")
    for n in range(1, 20_000):
        node = TreeNode(f"n{n}", "actor", "running", children=(node,))
    assert sum(1 for _ in node.walk()) == 20_000
    data, depth = node.to_dict(), 1
    while data["children"]:
        (data,), depth = data["children"], depth + 1
    assert (data["name"], depth) == ("n0", 20_000)
    lines = render_text(node).splitlines()
    assert len(lines) == 18
    assert lines[-1].endswith("└─ … 19983  more  19983 running")


def test_what_is_left_out_of_a_drawing_is_counted_by_state() -> None:
    children = [TreeNode(str(n), "", "failed" if n > 7 else "running") for n in range(10)]
    lines = render_text(TreeNode("r", "", "", children=(*children,)), max_children=1).splitlines()
    assert lines == ["r", "├─ 0  running", "└─ … 9  more  7 running, 2 failed"]

"""The supervision tree in colours."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

import trouper.cli
from trouper.actors import Actor, handles, open_system
from trouper.cli import rich_tree
from trouper.supervision import TreeNode, render_text

TREE = TreeNode(
    "shop",
    "system",
    "running",
    children=(
        TreeNode(
            "orders",
            "actor",
            "busy",
            {"mailbox": 3, "processed": 0, "restarts": 2},
            (TreeNode("line#1", "actor", "running"),),
        ),
        TreeNode("stock", "actor", "failed", {"mailbox": 0}),
    ),
)


def drawn(tree: Tree, width: int = 100) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(tree)
    return [line.rstrip() for line in capture.get().splitlines()]


def styles(tree: Tree) -> dict[str, str]:
    label = tree.label
    assert isinstance(label, Text)
    return {label.plain[span.start : span.end]: str(span.style) for span in label.spans}


@pytest.mark.proves("Supervision: the tree as rich")
def test_it_shows_what_the_text_shows() -> None:
    assert drawn(rich_tree(TREE)) == [
        "shop  system  running",
        "├── orders  actor  busy  mailbox=3  processed=0  restarts=2",
        "│   └── line#1  actor  running",
        "└── stock  actor  failed  mailbox=0",
    ]
    assert [" ".join(line.split()) for line in drawn(rich_tree(TREE))] == [
        " ".join(line.split()).replace("─ ", "── ") for line in render_text(TREE).splitlines()
    ]


@pytest.mark.proves("Supervision: the tree as rich")
def test_states_mailboxes_and_restarts_stand_out() -> None:
    orders, stock = rich_tree(TREE).children
    assert styles(orders)["busy"] == "bold green"
    assert styles(orders)["mailbox=3"] == "yellow"
    assert styles(orders)["restarts=2"] == "magenta"
    assert styles(orders)["processed=0"] == "dim"
    assert styles(stock)["failed"] == "bold red"
    assert styles(stock)["mailbox=0"] == "dim"


@pytest.mark.proves("Supervision: the tree as rich")
@pytest.mark.parametrize("name", ["[red]loud[/]", "a[/b]", ":smile:", "[link=x]y", "\\[bold]"])
def test_names_are_text_and_no_markup(name: str) -> None:
    node = TreeNode(name, "[b]actor", "running", {"[i]k": "[/i]v"})
    assert drawn(rich_tree(node)) == [f"{name}  [b]actor  running  [i]k=[/i]v"]


@pytest.mark.parametrize("draw", [lambda node: "\n".join(drawn(rich_tree(node))), render_text])
def test_a_name_cannot_break_the_line_or_move_the_cursor(draw: Any) -> None:
    node = TreeNode("a\nb\x1b[2Jc\u202ed", "actor", "running", {"note": "x\ty"})
    assert draw(node) == "a\\nb\\x1b[2Jc\\u202ed  actor  running  note=x\\ty"


@pytest.mark.proves("Supervision: the tree as rich")
def test_a_deep_tree_is_cut_at_its_bound_and_says_what_is_left_out() -> None:
    node = TreeNode("n0", "actor", "failed")
    for n in range(1, 20_000):
        node = TreeNode(f"n{n}", "actor", "running", children=(node,))
    lines = drawn(rich_tree(node, max_depth=3), width=200)
    assert [line.split()[-3] for line in lines[:4]] == ["n19999", "n19998", "n19997", "n19996"]
    assert lines[4:] == [f"{' ' * 12}└── … 19996  more  19995 running, 1 failed"]
    assert len(drawn(rich_tree(node), width=200)) == 18


@pytest.mark.proves("Supervision: the tree as rich")
def test_a_wide_tree_is_cut_at_its_bound_and_says_what_is_left_out() -> None:
    leaves = [TreeNode(f"l{n}", "actor", "failed" if n == 5 else "running") for n in range(9)]
    lines = drawn(
        rich_tree(TreeNode("r", "system", "running", children=(*leaves,)), max_children=2)
    )
    assert lines[1:] == [
        "├── l0  actor  running",
        "├── l1  actor  running",
        "└── … 7  more  6 running, 1 failed",
    ]


@pytest.mark.parametrize("bounds", [{"max_depth": 0}, {"max_children": -1}])
@pytest.mark.parametrize("draw", [rich_tree, render_text])
def test_a_senseless_bound_is_refused(bounds: dict[str, int], draw: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(bounds))):
        draw(TREE, **bounds)


class Quiet(Actor[str]):
    @handles(str)
    def take(self, message: str) -> None: ...


@pytest.mark.proves("Supervision: the tree as rich")
async def test_a_running_system_is_drawn() -> None:
    async with open_system("shop", store=None) as system:
        ref = await system.spawn(Quiet, name="[bold]")
        ref.tell("hello")
        lines = drawn(rich_tree(system.tree()))
    assert lines[0] == "shop  system  running"
    assert lines[-1] == "└── [bold]  actor  running  mailbox=1  processed=0"


def test_without_its_extra_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["rich"] = None  # as if it were not installed
import trouper.cli
from trouper.errors import ExtraMissing
try:
    trouper.cli.rich_tree
except ExtraMissing as missing:
    print(missing.extra, missing)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "cli trouper.cli.rich_tree needs rich: pip install 'trouper[cli]'\n"
    with pytest.raises(AttributeError, match="no attribute 'round_tree'"):
        _ = trouper.cli.round_tree  # type: ignore[attr-defined]

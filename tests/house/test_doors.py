"""What import-linter cannot express: trio's private parts are touched in one module only.

It sees other distributions as one node each, so it can keep ``lmdb`` behind its door (pyproject),
but cannot tell ``trio`` from ``trio._core``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
DOOR = SRC / "trouper" / "_trio.py"
OTHERS = sorted(set((SRC / "trouper").rglob("*.py")) - {DOOR})


def private(dotted: str) -> bool:
    root, *rest = dotted.split(".")
    return root == "trio" and any(p.startswith("_") and not p.startswith("__") for p in rest)


def attribute_path(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{attribute_path(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def private_uses(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                paths = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                paths = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute():
                paths = [attribute_path(node)]
            case _:
                continue
        yield from (f"line {node.lineno}: {path}" for path in paths if private(path))


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: str(path.relative_to(SRC)))
def test_trio_private_is_touched_behind_its_door_only(path: Path) -> None:
    assert list(private_uses(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import trio._core",
        "from trio import _core",
        "from trio._core import _run",
        "import trio\ndef f(): return trio._core._run.GLOBAL_RUN_CONTEXT",
    ],
)
def test_the_check_sees_each_way_in(source: str) -> None:
    assert len(list(private_uses(source))) >= 1


@pytest.mark.parametrize("source", ["from . import _trio", "import trio; trio.lowlevel.x"])
def test_the_check_lets_the_public_parts_pass(source: str) -> None:
    assert list(private_uses(source)) == []

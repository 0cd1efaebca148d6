"""Every ```python block of the README and of docs/ runs, and so does every docstring example.

The convention (CONTRIBUTING.md): the blocks of one document share one module, from top to bottom.
A block that awaits at its top level runs inside `trio.run`. A block after ``<!-- skip: next -->``
is left out.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import sys
import types
from pathlib import Path

import pytest
import trio
from sybil.document import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser, SkipParser

import trouper

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(trouper.__path__, prefix="trouper.")
)


def run_block(example: Example) -> None:
    source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
    code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, example.namespace)
    if inspect.iscoroutine(result):

        async def main() -> None:
            await result

        trio.run(main)


def run_document(path: Path, module: types.ModuleType) -> None:
    document = Document.parse(str(path), CodeBlockParser("python", run_block), SkipParser())
    document.namespace = module.__dict__
    for example in document.examples():
        example.evaluate()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_snippet_of_a_document_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A module of its own, so that classes in a snippet have a home to be found by.
    module = types.ModuleType(f"snippets_of_{path.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    run_document(path, module)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_a_document_with_a_failing_snippet_fails(tmp_path: Path) -> None:
    path = tmp_path / "bad.md"
    path.write_text("```python\nimport trio\nawait trio.sleep(0)\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        run_document(path, types.ModuleType("bad"))

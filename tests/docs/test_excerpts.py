"""What a document shows of a program is what the program says, to the letter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXCERPT = re.compile(r"<!-- from: (\S+) -->\n\n```python\n(.*?)```\n", re.DOTALL)
DOCUMENTS = [path for path in sorted(DOCS.rglob("*.md")) if "<!-- from: " in path.read_text()]


def untrue(text: str, folder: Path) -> Iterator[str]:
    """Yield the first line of each excerpt that is not in the file it names."""
    for file, code in EXCERPT.findall(text):
        if f"\n{code}" not in (folder / file).read_text():
            yield code.splitlines()[0]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(DOCS)))
def test_an_excerpt_is_what_the_file_says(path: Path) -> None:
    assert list(untrue(path.read_text(), path.parent)) == []


def test_the_tutorial_shows_nearly_all_of_its_program() -> None:
    shown = "".join(code for _, code in EXCERPT.findall((DOCS / "tutorial.md").read_text()))
    program = (DOCS.parent / "examples" / "cache_server.py").read_text()
    assert len(shown) > 0.7 * len(program)


def test_the_check_sees_a_changed_excerpt(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\nx = 1\ny = 2\n")
    block = "<!-- from: a.py -->\n\n```python\n{}\n```\n"
    assert list(untrue(block.format("x = 1\ny = 2"), tmp_path)) == []
    assert list(untrue(block.format("x = 1\ny = 3"), tmp_path)) == ["x = 1"]

"""What the documents point at exists: links between files, and the modules that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASES = (ROOT, ROOT / "src", ROOT / "src" / "trouper")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# Decisions tell of their day, and modules may have moved since.
OF_TODAY = [p for p in DOCUMENTS if p.name == "README.md" or p.parent == ROOT / "docs"]

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULE = re.compile(r"`([\w./-]+\.(?:py|toml|txt))`")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(text: str) -> set[str]:
    """The places inside a document that a link can name, as GitHub makes them."""
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in HEADING.findall(text)}


def broken_links(text: str, folder: Path) -> Iterator[str]:
    for target in LINK.findall(text):
        file, _, anchor = target.partition("#")
        if "://" in file:
            continue
        path = folder / file
        if not path.exists():
            yield target
        elif anchor and path.suffix in ("", ".md"):
            there = path.read_text() if file else text
            if anchor not in anchors(there):
                yield target


def unknown_modules(text: str) -> Iterator[str]:
    for module in MODULE.findall(text):
        if not any((base / module).exists() for base in BASES):
            yield module


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    assert list(broken_links(path.read_text(), path.parent)) == []


@pytest.mark.parametrize("path", OF_TODAY, ids=name)
def test_named_modules_exist(path: Path) -> None:
    assert list(unknown_modules(path.read_text())) == []


def test_the_checks_see_what_is_gone() -> None:
    fine = "# A b\n[a](README.md#an-actor) [b](https://x.y) [c](#a-b)"
    assert list(broken_links(fine, ROOT)) == []
    text = f"{fine} [d](gone.md) [e](README.md#x) [f](#g)"
    assert list(broken_links(text, ROOT)) == ["gone.md", "README.md#x", "#g"]
    assert list(unknown_modules("`store/_gone.py` `store/__init__.py`")) == ["store/_gone.py"]

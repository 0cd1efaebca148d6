"""docs/faults.md names a test for each fault, and each test that breaks a store is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
LINK = re.compile(r"\[([^\]]+)\]\(\.\./(tests/[^)#]+\.py)\)")
BREAKING = ("crash/test_store_*.py", "crash/test_system_lost.py", "store/test_readers.py")
# What these files prove beside a fault.
BESIDE = {"test_when_nobody_reads_a_full_map_blames_nobody"}


def tables(text: str) -> Iterator[list[str]]:
    """Give out the cells of each row below a heading that ends in "tests"."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            inside = False
        elif cells[-1].strip("| ") == "tests":
            inside = True
        elif inside and not set(line) <= set("|-"):
            yield cells


def names_in(path: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE))


def unknown(text: str) -> Iterator[str]:
    """Give out each link whose test is not there."""
    for sentence, file in LINK.findall(text):
        name = "test_" + sentence.replace(" ", "_")
        if not (ROOT / file).exists() or name not in names_in(ROOT / file):
            yield f"{file}::{name}"


def test_every_fault_links_to_tests_that_exist() -> None:
    text = PAGE.read_text()
    assert list(unknown(text)) == []
    rows = list(tables(text))
    assert len(rows) > 40
    assert [row for row in rows if not LINK.search(row[-1])] == []


@pytest.mark.parametrize("pattern", BREAKING)
def test_every_test_that_breaks_a_store_is_in_the_matrix(pattern: str) -> None:
    linked = {
        "test_" + sentence.replace(" ", "_") for sentence, _ in LINK.findall(PAGE.read_text())
    }
    for path in (ROOT / "tests").glob(pattern):
        assert names_in(path) - linked - BESIDE == set(), path.name


def test_the_check_sees_a_test_that_is_gone() -> None:
    good = "[every fault links to tests that exist](../tests/docs/test_faults.py)"
    assert list(unknown(good)) == []
    assert len(list(unknown(good.replace("exist]", "are gone]")))) == 1
    assert len(list(unknown(good.replace("test_faults", "test_gone")))) == 1

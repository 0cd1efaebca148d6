"""docs/guarantees.md says what tests prove: nothing unknown, nothing unproved, nothing stale."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house_guarantees", HERE / "guarantees.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


g = load()
TEXT = """
[[section]]
name = "A"
about = "First."
lines = [{ id = "A: one", says = "One." }, { id = "A: two", says = "Two.", later = true }]
"""


@pytest.fixture(scope="module")
def found() -> list[object]:
    return list(g.sections(g.SOURCE.read_text()))


@pytest.fixture(scope="module")
def marks() -> list[object]:
    return list(g.proofs(g.ROOT / "tests"))


def test_every_mark_means_one_known_line(found: list[object], marks: list[object]) -> None:
    assert g.proved(found, marks)[1] == []


def test_every_line_that_holds_has_a_test(found: list[object], marks: list[object]) -> None:
    assert g.unproved(found, g.proved(found, marks)[0]) == []


def test_no_line_that_has_a_test_is_for_later(found: list[object], marks: list[object]) -> None:
    by_id = g.proved(found, marks)[0]
    lines = [line for section in g.sections(g.SOURCE.read_text()) for line in section.lines]
    assert [line.id for line in lines if line.later and by_id[line.id]] == []


def test_the_page_is_what_the_tests_say(found: list[object], marks: list[object]) -> None:
    page = g.render(g.intro(g.SOURCE.read_text()), found, g.proved(found, marks)[0])
    assert g.PAGE.read_text() == page, "run `make guarantees`, and commit docs/guarantees.md"


def test_a_mark_may_stand_at_the_test_or_be_named_beforehand() -> None:
    source = (
        "proves = pytest.mark.proves('one')\npytestmark = [pytest.mark.proves('all')]\n"
        "@proves\n@pytest.mark.slow\ndef test_x(): ...\n"
        "@pytest.mark.proves('two')\nclass Machine: ...\n"
    )
    found = [(proof.test, proof.mark) for proof in g.proofs_in(source, "t.py")]
    assert found == [("test_x", "one"), ("test_x", "all"), ("Machine", "two")]


def test_ids_are_unique_and_name_their_section(found: list[object]) -> None:
    ids = [line.id for section in g.sections(g.SOURCE.read_text()) for line in section.lines]
    assert len(ids) == len(set(map(g.plain, ids)))
    for section in g.sections(g.SOURCE.read_text()):
        assert [ln.id for ln in section.lines if not ln.id.startswith(f"{section.name}: ")] == []


def test_the_checks_see_an_unknown_mark_an_ambiguous_one_and_a_line_without_a_test() -> None:
    source = (
        "@pytest.mark.proves('A: o', 'A: three')\ndef test_x(): ...\n"
        "@pytest.mark.proves('A: ')\nasync def test_y(): ...\n"
    )
    small = g.sections(TEXT)
    by_id, problems = g.proved(small, list(g.proofs_in(source, "t.py")))
    assert [proof.test for proof in by_id["A: one"]] == ["test_x"]
    assert len(problems) == 2
    assert "A: three" in problems[0]
    assert "several" in problems[1]
    assert g.unproved(small, by_id) == []
    assert g.unproved(small, {"A: one": [], "A: two": []}) == ["A: one"]  # two is for later
    assert "| Two. | *not yet* |" in g.render("", small, by_id)

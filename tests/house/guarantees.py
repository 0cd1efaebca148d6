"""Renders docs/guarantees.md: each promise of docs/guarantees.toml beside the tests that prove it.

Run it as ``python tests/house/guarantees.py`` (`make guarantees`). It reads the tests as text, so
it needs no extra and imports none of them.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs" / "guarantees.toml"
PAGE = ROOT / "docs" / "guarantees.md"

HEAD = """\
# Guarantees

<!-- Rendered by `make guarantees` from guarantees.toml and the tests; do not edit. -->

"""


@dataclass(frozen=True)
class Line:
    """One promise."""

    id: str
    says: str
    later: bool


@dataclass(frozen=True)
class Section:
    """Promises that belong together."""

    name: str
    about: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Proof:
    """A test and one line that it says it proves."""

    mark: str
    file: str
    test: str


def intro(text: str) -> str:
    """Read the prose at the head of guarantees.toml."""
    about: str = tomllib.loads(text)["about"]
    return about


def sections(text: str) -> list[Section]:
    """Read guarantees.toml."""
    found: list[Section] = []
    for section in tomllib.loads(text)["section"]:
        lines = [Line(ln["id"], ln["says"], ln.get("later", False)) for ln in section["lines"]]
        found.append(Section(section["name"], section["about"], tuple(lines)))
    return found


def proofs(folder: Path) -> Iterator[Proof]:
    """Yield what the tests under a folder say they prove, in the order of files and lines."""
    for path in sorted(folder.rglob("test_*.py")):
        source = path.read_text()
        if "mark.proves" in source:
            yield from proofs_in(source, str(path.relative_to(folder.parent)))


def proofs_in(source: str, file: str) -> Iterator[Proof]:
    """Yield the proofs of one module. A mark may stand at the test, or be named beforehand."""
    tree = ast.parse(source)
    named: dict[str, list[str]] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                named[name] = marks_in(value, {})
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marks = [mark for one in node.decorator_list for mark in marks_in(one, named)]
            if node.name.startswith("test_"):
                marks += named.get("pytestmark", [])
            yield from (Proof(mark, file, node.name) for mark in marks)


def marks_in(node: ast.expr, named: dict[str, list[str]]) -> list[str]:
    """Return what one decorator, or the value of one name, says is proved."""
    match node:
        case ast.Name(id=name):
            return named.get(name, [])
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [mark for part in parts for mark in marks_in(part, named)]
        case ast.Call() if ast.unparse(node.func) == "pytest.mark.proves":
            return [ast.literal_eval(argument) for argument in node.args]
        case _:
            return []


def plain(text: str) -> str:
    """Return what counts when a mark is compared with an id."""
    return " ".join(text.replace("`", "").replace("*", "").casefold().split())


def lines_of(mark: str, ids: list[str]) -> list[str]:
    """Return the ids that a mark may mean: the one it is, or those that it begins."""
    exact = [one for one in ids if plain(one) == plain(mark)]
    return exact or [one for one in ids if plain(one).startswith(plain(mark))]


def proved(found: list[Section], marks: list[Proof]) -> tuple[dict[str, list[Proof]], list[str]]:
    """Return the proofs by id, and a sentence for each mark that means no line or several."""
    by_id: dict[str, list[Proof]] = {line.id: [] for s in found for line in s.lines}
    problems: list[str] = []
    for proof in marks:
        match lines_of(proof.mark, list(by_id)):
            case [id]:
                by_id[id].append(proof)
            case []:
                problems.append(f"{proof.file}::{proof.test} proves no known line: {proof.mark!r}")
            case several:
                problems.append(
                    f"{proof.file}::{proof.test} may mean several lines: {proof.mark!r}: {several}"
                )
    return by_id, problems


def unproved(found: list[Section], by_id: dict[str, list[Proof]]) -> list[str]:
    """Return the ids of lines that are declared to hold, and that no test proves."""
    return [line.id for s in found for line in s.lines if not by_id[line.id] and not line.later]


def render(about: str, found: list[Section], by_id: dict[str, list[Proof]]) -> str:
    """Return the page."""
    parts = [HEAD + about]
    for section in found:
        parts.append(
            f"## {section.name}\n\n{section.about}\n\n| what holds | proved by |\n|---|---|"
        )
        parts += [f"| {line.says} | {_cell(by_id[line.id])} |" for line in section.lines]
        parts.append("")
    return "\n".join(parts)


def _cell(tests: list[Proof]) -> str:
    links = [f"[{_sentence(t.test)}](../{t.file})" for t in dict.fromkeys(tests)]
    return "; ".join(dict.fromkeys(links)) or "*not yet*"


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


def main() -> int:
    """Write the page; say what keeps it from being complete."""
    text = SOURCE.read_text()
    found = sections(text)
    by_id, problems = proved(found, list(proofs(ROOT / "tests")))
    PAGE.write_text(render(intro(text), found, by_id))
    problems += [f"no test proves: {missing}" for missing in unproved(found, by_id)]
    print("\n".join(problems) or f"{PAGE.relative_to(ROOT)}: {len(by_id)} lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

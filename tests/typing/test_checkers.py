"""Both checkers agree, line by line, on what is right and on what is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
POSITIVE = sorted(HERE.glob("positive_*.py"))
NEGATIVE = sorted(HERE.glob("negative_*.py"))

# pyright's opinions on how a file is written are no statements on types
STYLE = {"reportUnusedImport", "reportUnusedVariable", "reportPrivateUsage"}


def mypy_errors(files: list[Path]) -> dict[Path, set[int]]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--exclude", "^$", *map(str, files)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert f"{len(files)} source files)" in done.stdout, done.stdout + done.stderr
    found: dict[Path, set[int]] = {file: set() for file in files}
    for name, line in re.findall(r"^(.+?):(\d+): error", done.stdout, re.MULTILINE):
        found.setdefault((ROOT / name).resolve(), set()).add(int(line))
    return found


def pyright_errors(files: list[Path], tmp_path: Path) -> dict[Path, set[int]]:
    settings = {
        "include": [os.path.relpath(file, tmp_path) for file in files],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src")],
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable),
            *("--project", str(project)),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    found: dict[Path, set[int]] = {file: set() for file in files}
    for problem in report["generalDiagnostics"]:
        if problem["severity"] == "error" and problem.get("rule") not in STYLE:
            line = problem["range"]["start"]["line"] + 1
            found.setdefault(Path(problem["file"]).resolve(), set()).add(line)
    return found


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def errors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Path, set[int]]:
    pytest.importorskip(request.param)
    files = [*POSITIVE, *NEGATIVE]
    if request.param == "mypy":
        return mypy_errors(files)
    return pyright_errors(files, tmp_path_factory.mktemp("pyright"))


def marked(path: Path) -> dict[int, str]:
    lines = enumerate(path.read_text().splitlines(), 1)
    return {n: mark[0] for n, line in lines if (mark := re.search(r"E\d+$", line))}


def marked_as_reported(path: Path, found: set[int]) -> set[int]:
    """A decorated function may be reported at its decorator, its `def` or a line between."""
    lines = path.read_text().splitlines()
    where: set[int] = set()
    for n in marked(path):
        span = 2 if lines[n - 1].lstrip().startswith("@") else 0
        hits = {line for line in range(n, n + span + 1) if line in found}
        where |= hits or {n}
    return where


@pytest.mark.parametrize("path", POSITIVE, ids=lambda path: path.stem)
@pytest.mark.proves("Typing: mypy --strict and pyright infer the reply")
@pytest.mark.proves("Typing: spawn takes positional constructor arguments")
def test_what_is_right_passes(path: Path, errors: dict[Path, set[int]]) -> None:
    assert errors[path] == set()


@pytest.mark.parametrize("path", NEGATIVE, ids=lambda path: path.stem)
@pytest.mark.proves("Typing: wrong messages are refused by the checkers")
def test_what_is_wrong_is_refused_line_by_line(path: Path, errors: dict[Path, set[int]]) -> None:
    assert errors[path] == marked_as_reported(path, errors[path])


@pytest.mark.parametrize("path", NEGATIVE, ids=lambda path: path.stem)
def test_every_mark_has_its_own_number(path: Path) -> None:
    marks = list(marked(path).values())
    assert marks == [f"E{n}" for n in range(1, len(marks) + 1)]

"""The benchmark of schedules runs and writes what it promises. No speed is asserted here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCHEDULES = Path(__file__).parents[2] / "benchmarks" / "schedules.py"
LEASE = "to the end: lease takeover, 2 rows"
GRIDS = {
    "schedules until none is left",
    "schedules until the bug is hit",
    "hit rate per strategy",
    "planted bugs in real actors",
    "replay after unrelated edits",
}


def schedules(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCHEDULES, *arguments], capture_output=True, text=True, timeout=180
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    done = schedules("--quick", "--results", folder)
    assert done.returncode == 0, done.stderr
    return folder


def read(results: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / "schedules.json").read_text())
    return found


def test_every_table_is_measured_and_written(results: Path) -> None:
    found = read(results)
    assert {grid["title"] for grid in found["grids"]} >= GRIDS
    assert all(grid["rows"] for grid in found["grids"])
    assert all(c["ours"] > 0 and c["theirs"] > 0 for c in found["comparisons"])
    (lease,) = (c for c in found["comparisons"] if c["row"] == LEASE and c["must"])
    assert (lease["must"], lease["aim"], lease["gated"]) == (100, 250, True)


def test_no_token_is_lost_and_no_bug_is_missed(results: Path) -> None:
    assert not [
        what for what in read(results)["left_out"] if "portfolio" in what or "token" in what
    ]


def test_the_tables_are_part_of_the_page(results: Path, tmp_path: Path) -> None:
    done = schedules("--from", results / "schedules.json", "--publish", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "schedules.md").read_text()
    for grid in read(results)["grids"]:
        assert f"## {grid['title'][:1].upper()}{grid['title'][1:]}" in page
        assert f"| {' | '.join(grid['rows'][0])} |" in page
    assert (tmp_path / "schedules.svg").exists()

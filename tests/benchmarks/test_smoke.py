"""The benchmarks run, write what they promise, and their gates hold. No speed is asserted here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

MESSAGING = Path(__file__).parents[2] / "benchmarks" / "messaging.py"
ROWS = {
    "tell, async handler",
    "tell, plain handler",
    "ring hop, 503 actors",
    "ask, plain handler",
    "ask, async handler",
    "spawn + message + stop",
    "spawn + message + drain",
    "bounded send, capacity 64",
    "fan-in, 100 senders",
    "Big: ping and pong, 120 actors",
    "Chameneos: meeting, 100 actors",
    "start-up and shutdown of 100,000 actors",
    "always-blocking handlers, 100",
    "idle actor, never told, 1,000",
}


def messaging(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, MESSAGING, *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "made"
    done = messaging("--quick", "--results", folder)
    assert done.returncode == 0, done.stderr
    assert all(row in done.stdout for row in ROWS)
    return folder


def doctored(results: Path, tmp_path: Path, **fields: Any) -> Path:
    """A full result whose comparisons, if they have one, all met their aim; then what is given."""
    raw = json.loads((results / "messaging.json").read_text())
    raw |= {"quick": False, "left_out": []} | fields
    for comparison in raw["comparisons"]:
        if comparison["aim"] is not None:
            comparison["ratio"] = comparison["aim"]
    path = tmp_path / "doctored.json"
    path.write_text(json.dumps(raw))
    return path


def test_every_row_is_measured_and_written(results: Path) -> None:
    found = json.loads((results / "messaging.json").read_text())
    assert {c["row"] for c in found["comparisons"]} == ROWS
    assert all(c["ours"] > 0 and c["theirs"] > 0 for c in found["comparisons"])
    assert all(len(growth["costs"]) == 3 for growth in found["growths"])
    assert found["versions"]["trouper"]


def test_the_plot_has_a_bar_for_each_comparison(results: Path) -> None:
    comparisons = json.loads((results / "messaging.json").read_text())["comparisons"]
    labels = [text.text for text in ElementTree.parse(results / "messaging.svg").iter()]
    for comparison in comparisons:
        assert f"{comparison['row']} / {comparison['peer']}" in labels


def test_targets_that_are_all_met_exit_with_0(results: Path, tmp_path: Path) -> None:
    assert messaging("--from", doctored(results, tmp_path)).returncode == 0


def test_one_missed_must_exits_with_1_and_is_named(results: Path, tmp_path: Path) -> None:
    path = doctored(results, tmp_path)
    raw = json.loads(path.read_text())
    missed = next(c for c in raw["comparisons"] if c["must"] is not None and not c["gated"])
    missed["ratio"] = missed["must"] * 0.99
    path.write_text(json.dumps(raw))
    done = messaging("--from", path)
    assert done.returncode == 1
    assert f"MISSED: {missed['row']} against {missed['peer']}" in done.stderr


def test_a_gated_peer_that_was_not_measured_is_a_miss(results: Path, tmp_path: Path) -> None:
    path = doctored(results, tmp_path, left_out=["pykka (gated): not installed"])
    done = messaging("--from", path)
    assert done.returncode == 1
    assert "not measured: pykka" in done.stderr


def test_a_result_becomes_a_page_with_its_plot(results: Path, tmp_path: Path) -> None:
    path = doctored(results, tmp_path, left_out=["Erlang: not here"])
    raw = json.loads(path.read_text())
    raw["instructions"] = [raw["comparisons"][0] | {"measure": "count", "ours": 4700.0}]
    path.write_text(json.dumps(raw))
    assert messaging("--from", path, "--publish", tmp_path / "docs").returncode == 0
    page = (tmp_path / "docs" / "messaging.md").read_text()
    assert all(f"| {row} |" in page for row in ROWS)
    assert "| 4,700 |" in page
    assert "* Erlang: not here" in page
    assert all(f"| {growth['what']} |" in page for growth in raw["growths"])
    ElementTree.parse(tmp_path / "docs" / "messaging.svg")


FAKE_VALGRIND = """#!/bin/sh
pid=1
while read request; do
  pid=$((pid + 1))
  ops=$(echo "$request" | tr -dc '0-9 ' | cut -d' ' -f2)
  echo "{\\"ops\\": $ops, \\"pid\\": $pid}"
  echo "==$pid== I   refs:      $((1000000 + 7 * ops))" >&2
done
"""


def test_the_instructions_of_a_start_cancel_out(tmp_path: Path) -> None:
    fake = tmp_path / "valgrind"
    fake.write_text(FAKE_VALGRIND)
    fake.chmod(0o755)
    program = (
        "from _kit.instructions import count;"
        "print(count(['system'], [('tell', 4000, 10), ('ring', 500, 503)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=MESSAGING.parent,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "[7.0, 7.0]\n", done.stderr


def test_a_system_serves_each_bench_in_a_child_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "_peers.serve", "task", "--fork"],
        cwd=MESSAGING.parent,
        input='["blocking", 10, 2]\n["blocking", 20, 2]\n',
        capture_output=True,
        text=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["ops"] for answer in answers] == [10, 20], done.stderr
    assert answers[0]["pid"] != answers[1]["pid"]


UNDISTURBED = """
from _kit.rows import undisturbed
from _kit.sample import Sample
theirs = [Sample(1, wall=9.0, cpu=float(n)) for n in range(1, 6)]
for walls in ([1, 1, 1.1, 3, 4], [1, 1, 3, 3, 3]):
    measure, mine, other = undisturbed([Sample(1, wall=w, cpu=1.0) for w in walls], theirs)
    print(measure, [s.wall for s in mine], [s.cpu for s in other])
measure, mine, other = undisturbed([Sample(1, wall=3.0, cpu=1.0)] * 5, [Sample(1, wall=9.0)] * 5)
print(measure, len(mine), len(other))
"""


def test_rounds_that_were_disturbed_do_not_count() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNDISTURBED],
        cwd=MESSAGING.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "wall [1, 1, 1.1] [1.0, 2.0, 3.0]",
        "cpu [1, 1, 3, 3, 3] [1.0, 2.0, 3.0, 4.0, 5.0]",
        "wall 5 5",  # Erlang tells no CPU time
    ], done.stderr

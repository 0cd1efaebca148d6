"""SIGKILL the audit at random points: its report never differs from an uninterrupted run's."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trouper.actors import inspect
from trouper.store import LmdbStore

AUDIT = Path(__file__).parents[2] / "examples" / "audit.py"
DEFAULT_POINTS, SOAK_POINTS = 20, 200


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small tree with everything that makes entries differ: texts, binaries, empties, links."""
    root = tmp_path_factory.mktemp("tree")
    chance = random.Random(1)
    for directory in ("", "a", "a/b", "c", "empty"):
        (root / directory).mkdir(exist_ok=True)
        for number in range(0 if directory == "empty" else 9):
            data = b"".join(
                chance.choice((b"word ", b"line\n", b"\0\xff", b"tab\t"))
                for _ in range(chance.choice((0, 1, 500, 9000)))
            )
            (root / directory / f"file {number}").write_bytes(data)
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "c" / "pipe")
    return root


def command(tree: Path, home: Path) -> list[str]:
    arguments = [tree, "--store", home / "store", "--out", home / "report", "--progress", "none"]
    return [sys.executable, str(AUDIT), *map(str, arguments), "--trace", str(home / "trace")]


def finish(tree: Path, home: Path) -> bytes:
    done = subprocess.run(command(tree, home), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return (home / "report" / "report.jsonl").read_bytes()


@pytest.fixture(scope="module")
def expected(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """The report of an uninterrupted run, and how many executions it took."""
    home = tmp_path_factory.mktemp("whole")
    report = finish(tree, home)
    return report, len(executions(home))


def executions(home: Path) -> list[tuple[str, str]]:
    text = (home / "trace").read_text() if (home / "trace").exists() else ""
    return [(what, path) for what, path in map(json.loads, text.split("\n")[:-1])]


def kill_after(executed: int, tree: Path, home: Path) -> None:
    """Kill the run as soon as its effects have noted so many executions."""
    process = subprocess.Popen(command(tree, home), stderr=subprocess.DEVNULL)
    while len(executions(home)) < executed and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait()


async def settled(home: Path) -> set[str]:
    async with LmdbStore(home / "store") as store:
        return {effect.key for effect in inspect.effects(store) if effect.settled}


async def kill_resume_compare(
    tree: Path, home: Path, expected: tuple[bytes, int], chance: random.Random
) -> None:
    report, total = expected
    point = chance.randint(1, total)
    kill_after(point, tree, home)
    before = executions(home)
    assert finish(tree, home) == report, f"killed after {point} of {total} executions"
    again = [work for work in executions(home)[len(before) :] if work in before]
    async with LmdbStore(home / "store") as store:
        attempts = {e.key: e.attempts for e in inspect.effects(store)}
    # Whatever ran again was claimed again: nothing that had settled at the kill was.
    assert len(again) <= sum(count - 1 for count in attempts.values()) + 1


@pytest.mark.parametrize("seed", range(DEFAULT_POINTS))
async def test_killed_anywhere_the_audit_ends_with_the_same_report(
    tree: Path, expected: tuple[bytes, int], tmp_path: Path, seed: int
) -> None:
    await kill_resume_compare(tree, tmp_path, expected, random.Random(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1000 + SOAK_POINTS))
async def test_killed_anywhere_the_audit_ends_with_the_same_report_200_times(
    tree: Path, expected: tuple[bytes, int], tmp_path: Path, seed: int
) -> None:
    await kill_resume_compare(tree, tmp_path, expected, random.Random(seed))


async def test_killed_again_and_again_the_audit_still_ends(
    tree: Path, expected: tuple[bytes, int], tmp_path: Path
) -> None:
    report, total = expected
    for share in (4, 3, 2):
        kill_after(total // share, tree, tmp_path)
    assert finish(tree, tmp_path) == report


def test_run_again_the_audit_says_already_done_and_executes_nothing(
    tree: Path, tmp_path: Path
) -> None:
    finish(tree, tmp_path)
    executed = executions(tmp_path)
    again = subprocess.run(command(tree, tmp_path), capture_output=True, text=True, timeout=60)
    assert again.returncode == 0
    assert "already done" in again.stderr
    assert executions(tmp_path) == executed

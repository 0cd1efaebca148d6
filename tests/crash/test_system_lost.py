"""A disk fails under a living system: it ends with the typed error, and the next one decides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trouper.store import verify

PROGRAM = Path(__file__).with_name("lost_program.py")


def run(path: Path, fail_at: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the program; let that flush fail of each writer thread, and so of each opening."""
    traced: tuple[str, ...] = (
        *("strace", "-f", "-qq", "--seccomp-bpf", "-o", os.devnull),
        *("-P", str(path / "data.mdb"), "-e", "trace=fdatasync"),
        *("-e", f"inject=fdatasync:error=EIO:when={fail_at}"),
    )
    return subprocess.run(
        [*(traced if fail_at else ()), sys.executable, str(PROGRAM), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def split(output: str) -> tuple[list[str], list[int]]:
    """Return what was printed, and apart from it which steps ran."""
    lines = output.splitlines()
    return (
        [line for line in lines if not line.startswith("ran")],
        [int(line.split()[1]) for line in lines if line.startswith("ran")],
    )


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("flush", [9, 10])
def test_a_system_whose_store_is_lost_ends_with_that_and_its_supervisor_reopens_it(
    tmp_path: Path, flush: int
) -> None:
    done = run(tmp_path / "state", flush)
    assert done.returncode == 0, done.stderr
    lines, ran = split(done.stdout)
    assert lines == ["open 1", "failed StoreLost", "open 2", "result 56"]
    assert set(ran) == set(range(8))
    assert ran == sorted(ran), "what had settled did not run again"
    assert len(ran) <= 9, "but for the one whose settlement was lost"
    assert verify(tmp_path / "state").ok


@pytest.mark.usefixtures("strace")
def test_a_disk_that_goes_on_failing_ends_the_supervisor_too_and_loses_nothing(
    tmp_path: Path,
) -> None:
    done = run(tmp_path / "state", 4)
    assert done.returncode == 1
    assert "RestartLimitReached" in done.stderr.splitlines()[-1]
    assert "StoreLost" in done.stderr
    lines, _ = split(done.stdout)
    assert lines[-2:] == ["open 4", "failed StoreLost"]
    later = run(tmp_path / "state")
    assert split(later.stdout)[0] == ["open 5", "result 56"], later.stderr

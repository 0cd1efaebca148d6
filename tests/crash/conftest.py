"""What the crash tests share: a program, strace to break it with, and what must be left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import PathRefused
from trouper.store import LmdbStore, verify
from trouper.testing.conformance._journal_rows import Row

PROGRAM = Path(__file__).with_name("store_program.py")
KEPT = 20  # of the records, by store_program.unit


@dataclass(frozen=True)
class Run:
    """How one run of the store program ended."""

    code: int
    lines: list[tuple[str, int]]
    errors: str

    def numbers(self, word: str) -> list[int]:
        """The numbers that were printed behind a word."""
        return [number for said, number in self.lines if said == word]

    @property
    def words(self) -> set[str]:
        """All words that were printed."""
        return {word for word, _ in self.lines}


Start = Callable[..., Run]


def _start(
    path: Path, *traced: str, level: str = "durable", count: int = 12, left: int = -1
) -> Run:
    program = [sys.executable, str(PROGRAM), str(path), level, str(count), str(left)]
    prefix = ["strace", "-f", "-qq", *traced] if traced else []
    done = subprocess.run(
        [*prefix, *program], capture_output=True, text=True, check=False, timeout=120
    )
    lines: list[tuple[str, int]] = []
    for line in done.stdout.splitlines():
        word, _, number = line.partition(" ")
        lines.append((word, int(number or 0)))
    return Run(done.returncode, lines, done.stderr)


@pytest.fixture(scope="session")
def start() -> Start:
    """Run the store program, under strace if there are arguments for it."""
    return _start


@pytest.fixture(scope="session")
def strace() -> None:
    """Skip where there is no strace, or it may not trace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    probe = subprocess.run(
        ["strace", "-f", "-o", os.devnull, "true"], capture_output=True, text=True, check=False
    )
    if probe.returncode:
        pytest.skip(f"this machine does not let us trace: {probe.stderr.strip()}")


async def _holds(path: Path, acknowledged: int, unknown: int = 0) -> int:
    """Check that a store is sound and holds whole units: all acknowledged, and no invented ones."""
    try:
        report = verify(path)
    except PathRefused:
        assert acknowledged == 0, "there is a store"
    else:
        assert report.ok, report.findings
    async with LmdbStore(path, verify="always") as store:
        row = store.get("group", b"count", Row)
        count = 0 if row is None else row.number
        assert acknowledged <= count <= acknowledged + unknown
        numbers = list(range(1, count + 1))
        assert [row.number for _, row in store.scan("log", b"", Row)] == numbers
        records = [row for _, row in store.scan("record", b"", Row)]
        assert [row.number for row in records] == numbers[-KEPT:]
        assert all(len(row.value) == row.number * 700 % 9000 for row in records)
        return count


@pytest.fixture
def holds() -> Any:
    """Check what a store holds."""
    return _holds

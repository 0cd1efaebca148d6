"""The examples as processes of their own, and as modules for what is pure in them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 60

# Root reads everything. Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH in its bounding set
# (prctl PR_CAPBSET_DROP) it still owns its files, and their mode counts as for anybody else.
NO_OVERRIDE = """
import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
Argument = str | bytes | Path


@dataclass(frozen=True)
class Audit:
    """The audit of one tree: where its journal and its report are."""

    tree: Argument
    home: Path
    shim: tuple[str, ...] = ()

    def command(self, *more: Argument) -> list[Argument]:
        places: list[Argument] = ["--store", self.home / "store", "--out", self.home / "report"]
        script = [sys.executable, str(EXAMPLES / "audit.py")]
        return [*self.shim, *script, self.tree, *places, "--progress", "none", *more]

    def run(self, *more: Argument) -> subprocess.CompletedProcess[str]:
        """Run it to its end; later options override earlier ones."""
        command = self.command(*more)
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)

    def refused(self, *more: Argument, status: int = 2) -> str:
        """Run it and return the one line that it ends with."""
        done = self.run(*more)
        assert done.returncode == status, done.stderr
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("audit: ")
        return line

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the report by path; each of its lines is JSON."""
        lines = (self.home / "report" / "report.jsonl").read_text(encoding="ascii").splitlines()
        rows = [json.loads(line) for line in lines]
        assert len({row["path"] for row in rows}) == len(rows)
        return {row["path"]: row for row in rows}


@pytest.fixture
def audit_of(tmp_path: Path) -> Callable[[Argument], Audit]:
    return lambda tree: Audit(tree, tmp_path)


@pytest.fixture(scope="session")
def no_override(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A prefix of commands for which the mode of a file counts."""
    closed = tmp_path_factory.mktemp("closed") / "file"
    closed.touch(0o000)
    shim = (sys.executable, "-c", NO_OVERRIDE)
    probe = [*shim, sys.executable, "-c", "import sys; open(sys.argv[1])", str(closed)]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0:
        pytest.skip("this user reads every file, and may not give that up")
    return shim


@pytest.fixture(scope="session")
def example() -> Callable[[str], ModuleType]:
    """Return how to import an example under the name it has as a program's neighbour."""

    def load(name: str) -> ModuleType:
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return sys.modules[name]

    return load


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = Path(os.fsdecode(root / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A tree of three files."""
    return write_tree(
        tmp_path / "tree", {"one.txt": b"one\n", "two.txt": b"one two\n", "sub/three.txt": b""}
    )

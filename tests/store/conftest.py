"""What the store's tests share."""
# ruff: noqa: ASYNC240 (files are what these tests are about)

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import StoreError
from trouper.store import LmdbStore, Tx, record


@record("tests.store.row")
@dataclass(frozen=True, slots=True)
class Row:
    name: str
    number: int = 0
    value: Any = None


@pytest.fixture
def row() -> type[Row]:
    return Row


Child = Callable[..., subprocess.CompletedProcess[str]]

PRELUDE = """
import os, signal, sys, threading, time
from pathlib import Path
from typing import Any
from dataclasses import dataclass
import trio
from trouper.errors import *
from trouper.store import *

@record("tests.store.row")
@dataclass(frozen=True, slots=True)
class Row:
    name: str
    number: int = 0
    value: Any = None

path = Path(sys.argv[1])

def put(key, value):
    return lambda tx: tx.put("record", key, value)
"""


@pytest.fixture
def prelude() -> str:
    return PRELUDE


@pytest.fixture
def child(tmp_path: Path) -> Child:
    """Run code in a fresh interpreter: what may die by a signal, or forks, does it there."""

    def run(code: str, *args: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", PRELUDE + code, *map(str, args)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


Put = Callable[[bytes, object], Callable[[Tx], None]]


@pytest.fixture
def put() -> Put:
    return lambda key, value: lambda tx: tx.put("record", key, value)


async def _open(path: Path, **options: Any) -> None:
    async with LmdbStore(path, **options):
        pass


def _bytes_of(path: Path) -> dict[str, bytes]:
    return {
        p.name: p.read_bytes() for p in path.iterdir() if p.name not in ("lock.mdb", "owner.lock")
    }


async def _refused(path: Path, error: type[StoreError], word: str, **options: Any) -> StoreError:
    """Open, expect the refusal, and see that it is one line and changed nothing."""
    before = _bytes_of(path) if path.is_dir() else None
    with pytest.raises(error, match=word) as caught:
        await _open(path, **options)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    if before is not None:
        assert _bytes_of(path) == before
    return caught.value


@pytest.fixture
def opened() -> Any:
    """Open a store and close it again."""
    return _open


@pytest.fixture
def refused() -> Any:
    """Expect an opening to be refused, in one line, with nothing changed."""
    return _refused


@pytest.fixture
async def state(tmp_path: Path, put: Any) -> Path:
    """A closed store with some rows."""
    path = tmp_path / "state"
    async with LmdbStore(path) as store:
        for index in range(50):
            await store.commit(put(b"k%02d" % index, Row("x" * 500, index)))
    return path

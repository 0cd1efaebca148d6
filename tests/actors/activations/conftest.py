"""Shared by the tests of activations: both stores, and a log that tests wait on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from trouper.store import LmdbStore, MemoryStore, Store


class Log(list[Any]):
    """What effects did, in order; a test waits for an entry instead of sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self._news = trio.Event()

    def append(self, entry: Any) -> None:
        super().append(entry)
        self._news.set()

    async def until(self, *entries: Any) -> None:
        """Wait until all of these are there."""
        with trio.fail_after(10):
            while not all(entry in self for entry in entries):
                self._news = trio.Event()
                await self._news.wait()


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore(debug=True) if request.param == "memory" else LmdbStore(tmp_path / "store")


@pytest.fixture
def log() -> Log:
    return Log()

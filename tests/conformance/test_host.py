"""Both embedded hosts pass the suite that we ship, and the suite can fail."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from trouper.actors.groups import LmdbHost, MemoryHost
from trouper.store import LmdbStore, MemoryStore
from trouper.testing.conformance import drain, host

Make = Callable[[], MemoryHost | LmdbHost]


def on_disk(path: Path) -> Make:
    return lambda: LmdbHost(LmdbStore(path, level="relaxed"))


def in_memory(_: Path) -> Make:
    host = MemoryHost()
    return lambda: host


def in_memory_twice(_: Path) -> Make:
    host = MemoryHost(store=MemoryStore(debug=True))  # refuses units that are not pure
    return lambda: host


MAKERS = {"LmdbHost": on_disk, "MemoryHost": in_memory, "MemoryHost-debug": in_memory_twice}


@asynccontextmanager
async def bounded(seconds: float) -> AsyncIterator[None]:
    """Turn a law that waits for ever into a failure. Real time: the loop's clock stands still."""
    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:
        timer = threading.Timer(seconds, token.run_sync_soon, (scope.cancel,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
    assert not scope.cancelled_caught, f"not over after {seconds} s: something waits for ever"


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("law", [*host.LAWS, *drain.LAWS], ids=lambda law: law.__name__)
async def test_law(
    law: host.Law, kind: str, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with bounded(20):
        await law(host.EmbeddedBench(MAKERS[kind](tmp_path / "state"), mock_clock))


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(25))
async def test_a_history_is_that_of_the_model(
    seed: int, kind: str, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with bounded(20):
        bench = host.EmbeddedBench(MAKERS[kind](tmp_path / "state"), mock_clock)
        await host.a_history_is_that_of_the_model(bench, seed)

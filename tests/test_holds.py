"""Virtual time waits for threads."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from trouper import open_system
from trouper._holds import Holds, clock_held, holds_of_run, run_in_thread
from trouper.store import LmdbStore, Tx


class Patience:
    """A deadline that is far away in virtual time, and says whether it was jumped to."""

    def __init__(self) -> None:
        self.over = False

    async def run(self) -> None:
        await trio.sleep(1000)
        self.over = True


@pytest.fixture
async def patience(autojump_clock: MockClock, nursery: trio.Nursery) -> AsyncGenerator[Patience]:
    patience = Patience()
    nursery.start_soon(patience.run)
    yield patience
    assert not patience.over
    nursery.cancel_scope.cancel()


async def test_there_is_nothing_to_hold_on_a_real_clock() -> None:
    assert holds_of_run() is None
    with clock_held():
        assert await run_in_thread(lambda: 7) == 7


async def test_autojump_does_not_jump_over_a_thread(
    autojump_clock: MockClock, patience: Patience
) -> None:
    """Without the hold it jumps to the deadline as soon as the thread is started (trio #456)."""
    go = threading.Event()
    timer = threading.Timer(0.05, go.set)
    timer.start()
    assert await run_in_thread(go.wait, 10)
    timer.join()


async def test_holds_nest_and_the_last_one_gives_back_the_threshold(
    autojump_clock: MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.25
    with clock_held(), clock_held():
        assert autojump_clock.autojump_threshold == float("inf")
    assert autojump_clock.autojump_threshold == 0.25


def test_dropping_more_holds_than_were_taken_is_refused() -> None:
    holds = Holds(MockClock())
    holds.take()
    with pytest.raises(RuntimeError, match="2 holds of the clock were dropped, 1 are taken"):
        holds.drop(2)


async def test_a_flush_of_the_journal_holds_the_clock(
    autojump_clock: MockClock, patience: Patience, tmp_path: Path
) -> None:
    go = threading.Event()

    def slow(tx: Tx) -> bool:
        return go.wait(10)

    timer = threading.Timer(0.05, go.set)
    async with LmdbStore(tmp_path / "store") as store:
        timer.start()
        assert await store.commit(slow)
        holds = holds_of_run()
        assert holds is not None
        await holds.dropped()
    timer.join()


async def test_a_withdrawn_unit_leaves_no_hold(
    autojump_clock: MockClock, patience: Patience, tmp_path: Path
) -> None:
    go = threading.Event()
    async with LmdbStore(tmp_path / "store") as store:
        holds = holds_of_run()
        assert holds is not None
        await holds.dropped()  # opening it is over
        store.submit(lambda tx: go.wait(10), lambda result: None)
        submission = store.submit(lambda tx: None, lambda result: None)
        assert submission.withdraw()
        assert holds.count == 2
        go.set()
        await holds.dropped()


async def test_a_store_that_does_not_open_leaves_no_hold(
    autojump_clock: MockClock, patience: Patience
) -> None:
    with pytest.raises(Exception, match="/dev/null"):
        async with LmdbStore("/dev/null/store"):
            raise AssertionError
    holds = holds_of_run()
    assert holds is not None
    await holds.dropped()


async def test_a_system_under_autojump_does_not_jump_over_its_threads(
    autojump_clock: MockClock, patience: Patience, tmp_path: Path
) -> None:
    async with open_system("s", store=tmp_path / "store") as system:
        operation = await system.operation("key", "request")
        assert operation is not None

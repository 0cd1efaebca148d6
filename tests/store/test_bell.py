"""How the loop hears of a commit: the same by an event counter and by the token."""

from __future__ import annotations

import errno
import os
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from trouper.store import LmdbStore, Tx
from trouper.store._bell import Bell

WAYS = pytest.mark.parametrize("is_plain", [False, True], ids=["counter", "token"])


def bell(*, is_plain: bool) -> Bell:
    return Bell(trio.lowlevel.current_trio_token(), is_plain=is_plain)


async def in_a_thread(fn: Callable[[], None]) -> None:
    await trio.to_thread.run_sync(fn)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@WAYS
async def test_calls_run_on_the_loop_in_the_order_of_the_rings(is_plain: bool) -> None:
    made, heard, over = bell(is_plain=is_plain), list[tuple[int, int]](), trio.Event()

    def ring() -> None:
        for number in range(100):
            made.ring(lambda n: heard.append((n, threading.get_ident())), number)
        made.ring_last(over.set)

    await in_a_thread(ring)
    await over.wait()
    assert heard == [(number, threading.get_ident()) for number in range(100)]


@WAYS
async def test_each_ring_wakes_a_loop_that_waits(is_plain: bool) -> None:
    made = bell(is_plain=is_plain)
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked()
        heard = trio.Event()
        await in_a_thread(partial(made.ring, heard.set))
        await heard.wait()
    made.close()


@WAYS
async def test_the_last_call_runs_behind_all_that_nobody_has_heard_yet(is_plain: bool) -> None:
    made, heard, over = bell(is_plain=is_plain), list[str](), trio.Event()
    made.ring(heard.append, "first")  # nothing is heard before this task waits
    made.ring(heard.append, "second")
    made.ring_last(over.set)
    assert heard == []
    await over.wait()
    assert heard == ["first", "second"]


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="no event counters here")
async def test_a_bell_that_is_closed_leaves_neither_a_task_nor_a_file() -> None:
    await trio.to_thread.run_sync(int)  # trio's own things that it makes once
    tasks, files = trio.lowlevel.current_statistics().tasks_living, open_files()
    made = bell(is_plain=False)
    assert open_files() == files + 1
    made.close()
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert open_files() == files


@WAYS
def test_a_call_that_raises_ends_the_run_and_the_others_are_heard(is_plain: bool) -> None:
    heard: list[str] = []

    def fail() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        made = bell(is_plain=is_plain)
        made.ring(heard.append, "before")
        made.ring(fail)
        made.ring(heard.append, "behind")
        await trio.sleep_forever()

    with pytest.raises(trio.TrioInternalError) as caught:
        trio.run(main)
    assert heard == ["before", "behind"]
    assert "a bug" in "".join(traceback.format_exception(caught.value))


@WAYS
def test_a_run_that_crashes_still_hears_what_it_waits_for(is_plain: bool) -> None:
    heard: list[str] = []

    async def crash() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        made = bell(is_plain=is_plain)
        with trio.CancelScope(shield=True):
            trio.lowlevel.spawn_system_task(crash)
            for number in range(3):
                over = trio.Event()
                made.ring(heard.append, str(number))
                made.ring(over.set)
                await over.wait()
                await trio.testing.wait_all_tasks_blocked()
            made.close()

    with pytest.raises(trio.TrioInternalError):
        trio.run(main)
    assert heard == ["0", "1", "2"]


def test_a_commit_that_was_picked_up_has_its_verdict_when_the_run_crashes(
    tmp_path: Path, row: Any
) -> None:
    begun, gate, verdicts = threading.Event(), threading.Event(), list[str]()

    def unit(tx: Tx) -> str:
        begun.set()
        gate.wait()
        tx.put("record", b"a", row("written"))
        return "written"

    async def crash() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        async with LmdbStore(tmp_path) as store, trio.open_nursery() as nursery:

            async def commit() -> None:
                verdicts.append(await store.commit(unit))

            nursery.start_soon(commit)
            await trio.to_thread.run_sync(begun.wait)
            trio.lowlevel.spawn_system_task(crash)
            try:
                await trio.sleep_forever()
            finally:
                gate.set()

    with pytest.raises(trio.TrioInternalError):
        trio.run(main)
    assert verdicts == ["written"]


@WAYS
def test_nobody_hears_a_bell_when_the_loop_has_ended(is_plain: bool) -> None:
    async def make() -> Bell:
        return bell(is_plain=is_plain)

    made, heard = trio.run(make), list[str]()
    made.ring(heard.append, "late")
    made.ring_last(heard.append, "later")
    assert heard == []


async def test_without_a_file_to_be_had_a_store_hears_by_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Any, row: Any
) -> None:
    def none(*args: object) -> int:
        raise OSError(errno.EMFILE, "injected")

    monkeypatch.setattr(os, "eventfd", none, raising=False)
    async with LmdbStore(tmp_path) as store:
        await store.commit(put(b"a", row("told")))
        assert store.get("record", b"a", row) == row("told")


@WAYS
def test_a_bell_that_nobody_hears_any_more_leaves_no_file(is_plain: bool) -> None:
    """The last ring closes it, whether the run is over, or crashes and goes on for a while."""

    async def gone() -> Bell:
        return bell(is_plain=is_plain)

    async def crash() -> None:
        raise ValueError("a bug")

    async def crashed() -> None:
        made = bell(is_plain=is_plain)
        with trio.CancelScope(shield=True):
            trio.lowlevel.spawn_system_task(crash)
            await trio.testing.wait_all_tasks_blocked()
            await in_a_thread(partial(made.ring_last, lambda: None))

    before = open_files()
    trio.run(gone).ring_last(lambda: None)
    assert open_files() == before
    with pytest.raises(trio.TrioInternalError):
        trio.run(crashed)
    assert open_files() == before


def test_a_store_whose_opening_was_cancelled_leaves_no_file(tmp_path: Path) -> None:
    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with LmdbStore(tmp_path):
                raise AssertionError("cancelled before")

    before = open_files()
    for _ in range(3):
        trio.run(cancelled)
        for thread in threading.enumerate():
            if thread.name.startswith("trouper-store"):
                thread.join()
    assert open_files() == before


async def test_who_rings_again_in_a_call_lets_others_have_a_turn() -> None:
    made, calls, turns = bell(is_plain=False), 0, 0

    def again() -> None:
        nonlocal calls
        calls += 1
        if calls < 100:
            made.ring(again)

    made.ring(again)
    while calls < 100:
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= 100
    made.close()


async def test_a_store_that_was_closed_leaves_no_file(tmp_path: Path) -> None:
    async def used() -> None:
        async with LmdbStore(tmp_path) as store:
            await store.commit(lambda tx: None)
        await trio.testing.wait_all_tasks_blocked()

    await used()
    files = open_files()
    await used()
    assert open_files() == files

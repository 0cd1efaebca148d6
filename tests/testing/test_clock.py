"""Virtual time by hand: deadline by deadline, and never while a thread is out."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from trouper import Actor, Context, Request, handles, open_system
from trouper.store import LmdbStore, Tx
from trouper.testing import ManualClock


async def naps(log: list[float], *seconds: float) -> None:
    for nap in seconds:
        await trio.sleep(nap)
        log.append(trio.current_time())


async def test_time_passes_deadline_by_deadline(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    clock, log = ManualClock(mock_clock), list[float]()
    nursery.start_soon(naps, log, 2, 3, 10)
    await clock.advance(6)
    assert (log, clock.now) == ([2, 5], 6)
    assert await clock.advance_to_next() == 9
    assert (log, clock.now) == ([2, 5, 15], 15)


async def test_a_deadline_at_the_very_end_is_met(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    clock, log = ManualClock(mock_clock), list[float]()
    nursery.start_soon(naps, log, 0.1, 0.2)
    await clock.advance(0.1 + 0.2)
    assert len(log) == 2


async def test_misuse_is_refused(mock_clock: MockClock) -> None:
    clock = ManualClock(mock_clock)
    with pytest.raises(ValueError, match="time goes forward"):
        await clock.advance(-1)
    with pytest.raises(RuntimeError, match="no task waits for a deadline"):
        await clock.advance_to_next()
    with pytest.raises(RuntimeError, match=r"pass this one's \.clock"):
        await ManualClock().settle()


def test_a_run_takes_the_clock_it_is_given() -> None:
    clock = ManualClock()

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.advance, 7)
            await trio.sleep(7)
        return trio.current_time()

    assert trio.run(main, clock=clock.clock) == 7


@dataclass(frozen=True, slots=True)
class Wait(Request[bool]):
    """Answered once its event is set, in a thread."""

    gate: threading.Event


class Blocking(Actor[Wait]):
    @handles(Wait)
    async def wait(self, message: Wait, ctx: Context) -> bool:
        return await ctx.to_thread(message.gate.wait, 10)


def open_soon(gate: threading.Event) -> None:
    threading.Timer(0.05, gate.set).start()


@pytest.mark.proves("Interop: ctx.to_thread")
async def test_time_stands_still_while_an_actor_is_in_a_thread(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    clock, gate = ManualClock(autojump_clock), threading.Event()
    async with open_system("s") as system:
        ref = await system.spawn(Blocking)
        open_soon(gate)
        with trio.fail_after(1):  # without the hold it fires at once
            assert await ref.ask(Wait(gate))
        assert (clock.now, clock.holds) == (0, 0)


async def test_settling_waits_for_what_is_out(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    clock, gate = ManualClock(mock_clock), threading.Event()
    async with open_system("s") as system:
        ref = await system.spawn(Blocking)
        nursery.start_soon(ref.ask, Wait(gate))
        while not clock.holds:
            await trio.lowlevel.checkpoint()
        open_soon(gate)
        await clock.advance(1)
        assert clock.holds == 0
        assert ref.statistics().processed == 1


async def test_a_flush_is_waited_for(mock_clock: MockClock, tmp_path: Path) -> None:
    clock, gate = ManualClock(mock_clock), threading.Event()
    seen: list[object] = []

    def slow(tx: Tx) -> bool:
        return gate.wait(10)

    async with LmdbStore(tmp_path / "store") as store:
        await clock.settle()  # opening it is over
        store.submit(slow, seen.append)
        assert clock.holds == 1
        open_soon(gate)
        await clock.settle()
        assert len(seen) == 1


async def test_a_test_may_hold_the_clock_for_work_of_its_own(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    clock, log = ManualClock(autojump_clock), list[float]()
    with clock.hold():
        nursery.start_soon(naps, log, 1)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        await trio.to_thread.run_sync(threading.Event().wait, 0.01)  # no door of ours
        assert log == []
    await trio.sleep(2)
    assert log == [1]

"""The lock-step transport: nothing runs beside the loop, and a schedule follows from its inputs."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper import CellPool, GuestDeadline, GuestTrapped, OutOfFuel
from trouper.cells import ProviderContext, _lock_step, _slot

# Asks "p" with the input, then with nothing, and returns what the second answer begins with.
TWICE = """(data (i32.const 0) "p")
(func (export "run") (param $p i32) (param $n i32) (result i64)
  (drop (call $provider_call (i32.const 0) (i32.const 1) (local.get $p) (local.get $n)
                             (i32.const 4096) (i32.const 64)))
  (i64.or (i64.const 0x100000000000)
    (call $provider_call (i32.const 0) (i32.const 1) (local.get $p) (i32.const 0)
                         (i32.const 4096) (i32.const 64))))"""


def lock_step(n: int = 1) -> CellPool:
    return CellPool(n, transport="lock-step")


def test_an_unknown_transport_is_refused() -> None:
    wrong: Any = "fibre"
    with pytest.raises(ValueError, match="transport is one of thread, lock-step, not 'fibre'"):
        CellPool(1, transport=wrong)


async def test_guest_code_runs_only_while_the_loop_stands_still(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lock_step() as pool:
        transport: Any = pool._slots[0].transport
        log: list[str] = []
        step = transport._step

        def watched() -> None:
            log.append("stands")
            step()
            log.append("goes")

        async def p(request: bytes) -> bytes:
            log.append("provider")
            for _ in range(5):
                await trio.lowlevel.checkpoint()
                assert not transport._has_frame
                assert transport._events.empty()
            return b"x"

        monkeypatch.setattr(transport, "_step", watched)
        assert await pool.run(kit.make(TWICE, {"p": p}), b"abc") == b"x"
        assert log == ["stands", "goes", "provider"] * 2 + ["stands", "goes"]


async def test_two_guests_take_turns_in_an_order_that_only_the_loop_decides(kit: Any) -> None:
    async def history() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        go = trio.Event()

        async def p(request: bytes, context: ProviderContext) -> bytes:
            seen.append((context.key, context.ordinal))
            await go.wait()
            for _ in range(20 if context.key == "a" else 2):
                await trio.lowlevel.checkpoint()
            return b""

        async with lock_step(2) as pool, trio.open_nursery() as nursery:
            for key in "ab":
                guest = kit.make(TWICE, {"p": p})
                nursery.start_soon(partial(pool.run, guest, b"", key=key))
                await wait_all_tasks_blocked()
            go.set()
        return seen

    assert [await history() for _ in range(10)] == [[("a", 0), ("b", 0), ("b", 1), ("a", 1)]] * 10


async def test_virtual_time_passes_for_a_waiting_guest_and_never_for_a_running_one(
    kit: Any, autojump_clock: MockClock
) -> None:
    async def nap(request: bytes) -> bytes:
        await trio.sleep(60)
        return b""

    async with lock_step() as pool:
        with pytest.raises(GuestDeadline, match="past its deadline of 90 s"):
            await pool.run(kit.make(TWICE, {"p": nap}, deadline=90), b"")
        assert trio.current_time() == pytest.approx(90)
        with pytest.raises(OutOfFuel):
            await pool.run(kit.make(kit.SPIN, fuel=10**7, deadline=1e-6), b"")
        assert trio.current_time() == pytest.approx(90)
        await kit.assert_whole(pool)


async def test_a_guest_that_stops_the_loop_for_too_long_is_ended_by_name(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lock_step, "PATIENCE", 0.05)
    monkeypatch.setattr(_slot, "PATIENCE", 0.05)
    async with lock_step() as pool:
        with pytest.raises(GuestDeadline, match=r"0\.05 s without a word.*less fuel"):
            await pool.run(kit.make(kit.SPIN, fuel=1 << 40), b"")
        monkeypatch.undo()
        await kit.assert_whole(pool)
        assert pool.statistics().kills == 1


async def test_a_frame_that_never_returns_is_a_quarantine_and_no_hang(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lock_step, "PATIENCE", 0.05)
    release = threading.Event()
    async with CellPool(1, cleanup=0.02, transport="lock-step") as pool:
        runtime: Any = pool._slots[0].transport
        run = runtime._runtime.run

        def stuck(job: Any) -> Any:
            release.wait()
            return run(job)

        monkeypatch.setattr(runtime._runtime, "run", stuck)
        with pytest.raises(GuestDeadline):
            await pool.run(kit.make(kit.ECHO), b"")
        (found,) = pool.quarantined()
        assert [reason.split(":")[0] for reason in found.reasons] == ["frame", "store", "accounts"]
        release.set()  # what comes late is evidence, as it is from a thread
        while pool.quarantined()[0].missing:
            await trio.lowlevel.checkpoint()
        monkeypatch.undo()
        assert await pool.reconcile(0) == ()
        assert await pool.run(kit.make(kit.ECHO), b"again") == b"again"


async def test_a_trap_is_the_same_trap(kit: Any) -> None:
    trap = '(func (export "run") (param i32 i32) (result i64) unreachable)'
    async with lock_step() as pool:
        with pytest.raises(GuestTrapped) as caught:
            await pool.run(kit.make(trap), b"")
        assert caught.value.kind == "unreachable"
        await kit.assert_whole(pool)

"""Cells in lock-step, in every order: kills against answers and ends, queues, the pool's end.

The explorer does not see a pool: each step that uses it says so (`Simulation.touch`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from tests.schedules.players import Fail, Get, Log, Player, Scene, exhaust
from wasmtime import wat2wasm

from trouper import CellPool, Ref
from trouper.cells import Guest, GuestLimits, guest
from trouper.errors import ActorCrashed, CellsExhausted, ShuttingDown
from trouper.testing import Simulation

# Asks provider "p" with the input, with room for 64 bytes at 4096, and returns what that answers.
ASK = wat2wasm("""(module
  (import "trouper" "provider_call" (func $call (param i32 i32 i32 i32 i32 i32) (result i64)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (data (i32.const 0) "p")
  (func (export "run") (param $p i32) (param $n i32) (result i64)
    (i64.or (i64.const 0x100000000000)
      (call $call (i32.const 0) (i32.const 1) (local.get $p) (local.get $n)
                  (i32.const 4096) (i32.const 64)))))""")

SEEN: set[str] = set()


def asking(sim: Simulation, ref: Ref[Any]) -> Guest:
    async def p(request: bytes) -> bytes:
        answer = await ref.ask(Get(request[0]))
        sim.touch("pool")
        return bytes([answer])

    return guest(
        bytes(ASK), name="ask", imports={"p": p}, limits=GuestLimits(fuel=1_000_000, memory=1 << 16)
    )


def lock_step(n: int = 1, **options: Any) -> CellPool:
    return CellPool(n, transport="lock-step", memory=1 << 16, **options)


def assert_whole(pool: CellPool) -> None:
    counts = pool.statistics()
    assert (counts.free, counts.leased, counts.quarantined) == (pool.n, 0, 0)
    assert (counts.waiting, counts.operations, counts.staged_bytes) == (0, 0, 0)


async def killed_run(sim: Simulation, rivals: int) -> Scene:
    """The loser of a race is killed: before its cell, while its provider asks, or too late."""
    log, ends = Log(), dict[str, Any]()
    ref = await sim.system.spawn(Player, "ref", log, name="ref")
    loser = trio.CancelScope()
    async with lock_step() as pool:

        async def run(name: str, n: int, scope: trio.CancelScope) -> None:
            sim.touch("pool")
            with scope:
                ends[name] = await pool.run(asking(sim, ref), bytes([n]), key=name)

        async def kill() -> None:
            sim.touch("pool")
            loser.cancel()

        sim.start(run, "loser", 1, loser, name="loser")
        for n in range(rivals):
            sim.start(run, f"rival{n}", n, trio.CancelScope(), name=f"rival{n}")
        sim.start(kill, name="killer")
        yield
        assert ends.pop("loser", b"\1") == b"\1"
        assert ends == {f"rival{n}": bytes([n]) for n in range(rivals)}
        assert_whole(pool)


@pytest.mark.parametrize("rivals", [0, 1])
def test_a_killed_run_gives_its_cell_back_in_every_order(rivals: int) -> None:
    exhaust(partial(killed_run, rivals=rivals), budget=300)


async def refused_run(sim: Simulation) -> Scene:
    """One place in the queue, three callers, one of which may not wait."""
    log, ends = Log(), dict[str, Any]()
    ref = await sim.system.spawn(Player, "ref", log, name="ref")
    async with lock_step(queue=1) as pool:

        async def run(name: str, may_queue: bool) -> None:
            sim.touch("pool")
            try:
                ends[name] = await pool.run(asking(sim, ref), b"\7", may_queue=may_queue)
            except CellsExhausted as exc:
                ends[name] = type(exc)

        for name in ("a", "b", "prompt"):
            sim.start(run, name, name != "prompt", name=name)
        yield
        assert set(ends.values()) <= {b"\7", CellsExhausted}
        assert b"\7" in ends.values()
        SEEN.update(name for name, end in ends.items() if end is CellsExhausted)
        assert_whole(pool)


def test_whoever_finds_no_cell_waits_in_turn_or_is_refused() -> None:
    SEEN.clear()
    exhaust(refused_run, budget=300)
    assert "prompt" in SEEN


async def failing_provider(sim: Simulation) -> Scene:
    """The actor behind a provider fails while one run asks it and another waits for the cell."""
    log, ends = Log(), list[Any]()
    ref = await sim.system.spawn(Player, "ref", log, name="ref", restart="permanent")
    async with lock_step() as pool:

        async def run(n: int) -> None:
            sim.touch("pool")
            try:
                ends.append(await pool.run(asking(sim, ref), bytes([n])))
            except ActorCrashed as exc:
                ends.append(type(exc))

        for n in range(2):
            sim.start(run, n, name=f"run{n}")
        ref.tell(Fail())
        yield
        assert sorted(ends) == [b"\0", b"\1"]
        assert_whole(pool)


def test_a_restart_behind_a_provider_is_waited_for_and_the_cell_passed_on() -> None:
    exhaust(failing_provider, budget=300)


async def closing(sim: Simulation, stubborn: bool) -> Scene:
    """The pool ends while one run is in it and one waits; a provider may not heed its cancel."""
    log, ends = Log(), list[Any]()
    ref = await sim.system.spawn(Player, "ref", log, name="ref")
    end, pools = trio.Event(), list[CellPool]()

    async def p(request: bytes) -> bytes:
        answer = 0
        with trio.CancelScope(shield=stubborn):
            if stubborn:
                await trio.sleep(1)
            answer = await ref.ask(Get(request[0]))
        sim.touch("pool")
        return bytes([answer])

    what = guest(
        bytes(ASK), name="ask", imports={"p": p}, limits=GuestLimits(fuel=1_000_000, memory=1 << 16)
    )
    opened = trio.Event()

    async def hold() -> None:
        async with lock_step() as pool:
            pools.append(pool)
            opened.set()
            await end.wait()

    async def run(n: int) -> None:
        await opened.wait()
        sim.touch("pool")
        try:
            ends.append(await pools[0].run(what, bytes([n])))
        except ShuttingDown as exc:
            ends.append(type(exc))

    async def close() -> None:
        await opened.wait()
        sim.touch("pool")
        end.set()

    sim.start(hold, name="pool")
    for n in range(2):
        sim.start(run, n, name=f"run{n}")
    sim.start(close, name="closer")
    yield
    assert len(ends) == 2
    assert set(ends) <= {b"\0", b"\1", ShuttingDown}
    SEEN.update("closed" if each is ShuttingDown else "answer" for each in ends)
    assert_whole(pools[0])


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_end_of_a_pool_tells_every_run(stubborn: bool) -> None:
    SEEN.clear()
    exhaust(partial(closing, stubborn=stubborn), budget=300)
    assert ({"closed"} if stubborn else {"closed", "answer"}) == SEEN


async def deaf_provider(sim: Simulation, seconds: float) -> Scene:
    """A provider that does not heed its cancel for longer, or not as long, as the cleanup cap."""
    log, ends = Log(), list[Any]()
    await sim.system.spawn(Player, "ref", log, name="ref")
    scope = trio.CancelScope()

    async def p(request: bytes) -> bytes:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        sim.touch("pool")
        return b""

    what = guest(
        bytes(ASK), name="deaf", imports={"p": p}, limits=GuestLimits(fuel=10**6, memory=1 << 16)
    )
    async with lock_step(cleanup=5) as pool:

        async def run() -> None:
            sim.touch("pool")
            with scope:
                ends.append(await pool.run(what, b"x"))

        async def kill() -> None:
            await trio.sleep(0.5)
            sim.touch("pool")
            scope.cancel()

        async def second() -> None:
            sim.touch("pool")
            try:
                ends.append(await pool.run(what, b"y"))
            except CellsExhausted as exc:
                ends.append(type(exc))

        for fn in (run, kill, second):
            sim.start(fn, name=fn.__name__)
        yield
        for found in pool.quarantined():
            SEEN.add("quarantine")
            assert found.reasons
        assert len(ends) in (1, 2)
        assert pool.statistics().leased == 0


@pytest.mark.parametrize("seconds", [1.0, 9.0])
def test_a_quarantine_has_a_reason(seconds: float) -> None:
    SEEN.clear()
    exhaust(partial(deaf_provider, seconds=seconds), budget=300)
    assert ("quarantine" in SEEN) == (seconds > 5)

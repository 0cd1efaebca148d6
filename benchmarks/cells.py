"""What a cell costs: one run against bare wasmtime, one provider call against a bare thread hop.

Run it: ``python benchmarks/cells.py``. All variants are interleaved in one process; what is
printed are medians over the rounds, in microseconds, and their ratios. Absolute times depend on
the machine and on what else it does; the ratios much less.
"""

from __future__ import annotations

import inspect
import queue
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import trio
import wasmtime

from trouper.cells import CellPool, Guest, GuestLimits, guest
from trouper.cells._wasm import make_engine

ROUNDS, RUNS = 15, 100

ECHO = """(module (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "run") (param $p i32) (param $n i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $p)) (i64.const 32))
            (i64.extend_i32_u (local.get $n)))))"""

CALLS = 20
ASK = f"""(module
  (import "trouper" "provider_call" (func $ask (param i32 i32 i32 i32 i32 i32) (result i64)))
  (memory (export "memory") 1) (data (i32.const 0) "p")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "run") (param i32 i32) (result i64) (local $i i32)
    (loop
      (drop (call $ask (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 8)
                       (i32.const 64) (i32.const 64)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if 0 (i32.lt_u (local.get $i) (i32.const {CALLS}))))
    (i64.const 0)))"""


class Bare:
    """Store + instantiate + call, as a program would write it that needs nothing of a cell."""

    def __init__(self, binary: bytes) -> None:
        self._engine = make_engine(64 << 20)
        linker = wasmtime.Linker(self._engine)
        self._pre = linker.instantiate_pre(wasmtime.Module(self._engine, binary))

    def run(self, data: bytes) -> bytes:
        """Run once on this thread."""
        with wasmtime.Store(self._engine) as store:
            store.set_fuel(10**8)
            store.set_epoch_deadline(1)
            exports = self._pre.instantiate(store).exports(store)
            memory, alloc, run = exports["memory"], exports["alloc"], exports["run"]
            assert isinstance(memory, wasmtime.Memory)
            assert isinstance(alloc, wasmtime.Func)
            assert isinstance(run, wasmtime.Func)
            start: int = alloc(store, len(data))
            memory.write(store, data, start)
            packed: int = run(store, start, len(data))
            start, length = packed >> 32, packed & 0xFFFFFFFF
            return bytes(memory.read(store, start, start + length))


class Hop:
    """A thread that asks the loop and waits for the answer, with nothing around it."""

    def __init__(self, token: trio.lowlevel.TrioToken, task_hop: bool) -> None:
        self._jobs: queue.SimpleQueue[tuple[int, Callable[[], None]] | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._token = token
        self._lot = trio.lowlevel.ParkingLot()
        self._task_hop = task_hop
        threading.Thread(target=self._main, daemon=True).start()

    def _main(self) -> None:
        while (job := self._jobs.get()) is not None:
            count, done = job
            for _ in range(count):
                self._token.run_sync_soon(self._answer)
                self._replies.get()
            self._token.run_sync_soon(done)

    def _answer(self) -> None:
        if self._task_hop:
            self._lot.unpark()
        else:
            self._replies.put(b"")

    async def serve(self) -> None:
        """Answer from a task, as an async provider does."""
        while True:
            await self._lot.park()
            self._replies.put(b"")

    async def run(self, count: int) -> None:
        """Hop so many times."""
        done = trio.Event()
        self._jobs.put((count, done.set))
        await done.wait()


async def _time(call: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        result = call()
        if inspect.isawaitable(result):
            await result
    return (time.perf_counter() - started) / times * 1e6


async def _provider(request: bytes) -> bytes:
    return request


def _plain(request: bytes) -> bytes:
    return request


async def _two_cells(pool: CellPool, count: Guest) -> float:
    async def many() -> None:
        for _ in range(RUNS):
            await pool.run(count, b"x" * 64)

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(many)
        nursery.start_soon(many)
    return (time.perf_counter() - started) / (2 * RUNS) * 1e6


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def _main() -> None:
    echo, ask = bytes(wasmtime.wat2wasm(ECHO)), bytes(wasmtime.wat2wasm(ASK))
    limits = GuestLimits(fuel=10**8)
    runs = guest(echo, name="echo", limits=limits)
    asks = guest(ask, name="ask", imports={"p": _provider}, limits=limits)
    asks_plain = guest(ask, name="ask", imports={"p": _plain}, limits=limits)
    bare = Bare(echo)
    data = b"x" * 64
    token = trio.lowlevel.current_trio_token()
    hop, task_hop = Hop(token, False), Hop(token, True)
    found: dict[str, list[float]] = {}
    async with trio.open_nursery() as nursery, CellPool(2) as pool:
        nursery.start_soon(task_hop.serve)
        variants: dict[str, tuple[Callable[[], object], int, int]] = {
            "bare Store + instantiate + call": (lambda: bare.run(data), RUNS, 1),
            "bare, in trio.to_thread": (lambda: trio.to_thread.run_sync(bare.run, data), RUNS, 1),
            "run in a cell": (lambda: pool.run(runs, data), RUNS, 1),
            "bare hop thread -> loop -> thread": (lambda: hop.run(CALLS), RUNS // 5, CALLS),
            "bare hop thread -> task -> thread": (lambda: task_hop.run(CALLS), RUNS // 5, CALLS),
            "provider call, async": (lambda: pool.run(asks, b""), RUNS // 5, CALLS),
            "provider call, plain (a second thread)": (
                lambda: pool.run(asks_plain, b""),
                RUNS // 5,
                CALLS,
            ),
        }
        for _ in range(ROUNDS):
            for name, (call, times, parts) in variants.items():
                found.setdefault(name, []).append(await _time(call, times) / parts)
            found.setdefault("run in a cell, two busy", []).append(await _two_cells(pool, runs))
        before = _rss()
        for _ in range(10_000):
            await pool.run(runs, data)
        grown = _rss() - before
        nursery.cancel_scope.cancel()
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, median in medians.items():
        print(f"{name:42} {median:8.1f} us")
    run = medians["run in a cell"]
    print(f"run / bare: {run / medians['bare Store + instantiate + call']:.2f}")
    print(f"run / bare in to_thread: {run / medians['bare, in trio.to_thread']:.2f}")
    provider = medians["provider call, async"]
    print(
        f"provider call / bare hop: {provider / medians['bare hop thread -> loop -> thread']:.2f}"
    )
    print(
        f"provider call / task hop: {provider / medians['bare hop thread -> task -> thread']:.2f}"
    )
    print(f"RSS over 10,000 runs: {grown / 1024:+.0f} kB")


if __name__ == "__main__":
    trio.run(_main)

"""What no test can ask of its own process: that it ends, and what importing costs."""

from __future__ import annotations

import subprocess
import sys

STUCK = """
import threading, trio
from trouper.cells import CellPool, GuestLimits, guest
from wasmtime import wat2wasm

ASK = wat2wasm('''(module
  (import "trouper" "provider_call" (func $ask (param i32 i32 i32 i32 i32 i32) (result i64)))
  (memory (export "memory") 1) (data (i32.const 0) "p")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "run") (param i32 i32) (result i64)
    (drop (call $ask (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
                     (i32.const 0) (i32.const 0)))
    (i64.const 0)))''')

def blocks_for_ever(request):
    token.run_sync_soon(entered.set)
    threading.Event().wait()

async def main():
    global token, entered
    token, entered = trio.lowlevel.current_trio_token(), trio.Event()
    stuck = guest(bytes(ASK), name="stuck", imports={"p": blocks_for_ever})
    async with CellPool(2, cleanup=0.02) as pool:
        HOW
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, stuck, b"")
            await entered.wait()
            nursery.cancel_scope.cancel()
        assert pool.statistics().quarantined == 1
    print("left the block")

trio.run(main)
print("left trio")
"""

FRAME = """
        slot = pool._slots[0]
        slot.transport._runtime.run = lambda job: blocks_for_ever(b"")
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_provider_that_is_stuck_in_a_thread_does_not_hold_up_the_exit() -> None:
    assert run(STUCK.replace("HOW", "pass")) == "left the block\nleft trio\n"


def test_a_cell_s_thread_that_is_stuck_does_not_hold_up_the_exit() -> None:
    assert run(STUCK.replace("        HOW\n", FRAME)) == "left the block\nleft trio\n"


def test_a_loop_that_crashes_with_a_spinning_guest_lets_the_process_end() -> None:
    program = """
import os, trio
from trouper.cells import CellPool, GuestLimits, guest
from wasmtime import wat2wasm

SPIN = wat2wasm('''(module (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "run") (param i32 i32) (result i64) (loop (br 0)) (i64.const 0)))''')

async def main():
    spin = guest(bytes(SPIN), name="spin", limits=GuestLimits(fuel=1 << 62))
    pool = CellPool(1)
    await pool.__aenter__()
    async def crash():
        while not pool.statistics().leased:
            await trio.lowlevel.checkpoint()
        def boom():
            raise ZeroDivisionError
        trio.lowlevel.current_trio_token().run_sync_soon(boom)
    pool.nursery.start_soon(crash)
    await pool.run(spin, b"")

try:
    trio.run(main)
except trio.TrioInternalError:
    print("crashed")
"""
    assert run(program) == "crashed\n"


def test_importing_and_describing_loads_no_wasmtime() -> None:
    program = """
import sys
from trouper.cells import CellPool, guest
CellPool(4); guest("count.wasm")
print("wasmtime" in sys.modules)
"""
    assert run(program) == "False\n"

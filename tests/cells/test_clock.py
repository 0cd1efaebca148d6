"""Virtual time and cells: guest code holds the clock, a guest that waits for the loop does not."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from trouper._holds import holds_of_run
from trouper.cells import CellPool

# Counts for some tens of milliseconds of real time.
COUNT = """(func (export "run") (param i32 i32) (result i64) (local $n i32)
  (loop $again
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 20000000))))
  (i64.const 0))"""


async def test_a_run_of_a_guest_holds_the_clock(kit: Any, autojump_clock: MockClock) -> None:
    async with CellPool(1) as pool:
        with trio.fail_after(1000):
            assert await pool.run(kit.make(COUNT, fuel=10**9), b"", key="k") == b""
        holds = holds_of_run()
        assert holds is not None
        assert holds.count == 0
        assert trio.current_time() == pytest.approx(0, abs=1)


async def test_time_goes_on_while_a_guest_waits_for_its_provider(
    kit: Any, autojump_clock: MockClock
) -> None:
    async def nap(request: bytes) -> bytes:
        await trio.sleep(1000)
        return request

    async with CellPool(1) as pool:
        guest = kit.make(kit.ASK, {"p": nap})
        before = trio.current_time()
        assert (await pool.run(guest, b"x", key="k"))[:1] == b"x"
        assert trio.current_time() - before >= 1000
        await kit.assert_whole(pool)

"""Guests as effects of a scenario's system: a pool of its own for every life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from wasmtime import wat2wasm

from trouper import Activation, CellPool, durable
from trouper.cells import Guest, GuestLimits, guest
from trouper.errors import OptionRefused
from trouper.testing import Options, Simulation, explore

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


async def echo(request: bytes) -> bytes:
    return request


def asking() -> Guest:
    limits = GuestLimits(fuel=1_000_000, memory=1 << 16)
    return guest(bytes(ASK), name="ask", imports={"p": echo}, limits=limits)


ASKING = asking()


@durable(name="t.asks twice")
async def asks_twice(act: Activation) -> list[int]:
    answers = [await act.call(ASKING, bytes([n])) for n in (3, 5)]
    return [answer[0] for answer in answers]


async def crashes(sim: Simulation) -> AsyncIterator[None]:
    sim.crash_points(budget=1)
    sim.system.start(asks_twice, key="k")
    yield
    assert await sim.system.run(asks_twice, key="k") == [3, 5]


def test_a_guest_run_survives_a_crash_at_every_commit_on_a_pool_of_the_new_life() -> None:
    pools: list[CellPool] = []

    def pool() -> CellPool:
        pools.append(CellPool(1, transport="lock-step", memory=1 << 16))
        return pools[-1]

    options = Options(effects=[ASKING], activities=[asks_twice], cells=pool)
    report = explore(crashes, options=options, strategy="dfs", budget=500)
    report.check()
    assert report.exhausted
    assert len(pools) > report.schedules
    for each in pools:
        counts = each.statistics()
        assert (counts.leased, counts.quarantined, counts.operations) == (0, 0, 0)


def test_a_pool_in_the_place_of_what_makes_one_is_refused() -> None:
    wrong: Any = CellPool(1)
    with pytest.raises(OptionRefused, match=r"cells takes what makes a pool, such as lambda"):
        Options(cells=wrong)

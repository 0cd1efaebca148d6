"""Restarts, in every order of what else goes on: nobody waits for ever, nobody lives twice."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schedules.players import Fail, Get, Log, Player, Scene, exhaust

from trouper import Context, Ref
from trouper.supervision import Strategy, one_for_all, rest_for_one
from trouper.testing import Options, Simulation, replay, schedule_test


async def start_that_asks(sim: Simulation) -> Scene:
    """A sibling whose start, in its second life, asks the one that is about to fail again."""
    log, got = Log(), list[int]()
    a: Ref[Any] = await sim.system.spawn(Player, "a", log, name="a", restart="permanent")

    async def hello(ctx: Context[Any]) -> None:
        got.append(await a.ask(Get()))

    await sim.system.spawn(Player, "b", log, hello, name="b", restart="permanent")
    for _ in range(2):
        a.tell(Fail())
    yield
    assert log.lives == {"a": 3, "b": 3}
    assert got in ([1, 1], [1, 1, 1])
    assert await a.ask(Get(7)) == 7


@pytest.mark.parametrize("strategy", [rest_for_one(), one_for_all()], ids=lambda s: s.kind)
def test_a_start_may_ask_a_sibling_that_fails_meanwhile(strategy: Strategy) -> None:
    exhaust(start_that_asks, options=Options(strategy=strategy))


test_the_lane_of_a_brood_is_not_held_by_one_who_waits_in_it = replay(
    "T1.eNqLVjIzsEg1NjVMNjOzSFXSUUpOLC1OzAEyMlNygPzoWCCKBQDF-wrE"
)(schedule_test(strategy="dfs", options=Options(strategy=rest_for_one()))(start_that_asks))

"""Programs nobody thought of: whatever they do, nobody waits for ever and nothing is lost."""

from __future__ import annotations

from functools import partial

import pytest
from tests.schedules.players import play
from tests.schedules.programs import program

from trouper.testing import Rules


@pytest.mark.parametrize("first", range(0, 100, 10))
@pytest.mark.parametrize("time", ["idle", "anytime"])
def test_random_programs_lose_nothing_and_leave_nobody_waiting(first: int, time: str) -> None:
    rules = Rules(time="anytime" if time == "anytime" else "idle", fair_after=300)
    for seed in range(first, first + 10):
        play(partial(program, seed=seed), budget=6, rules=rules)

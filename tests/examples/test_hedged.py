"""Hedged requests over real HTTP servers: killed half-way, the ranks stay; the verdict can fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from .conftest import EXAMPLES, TIMEOUT


@pytest.mark.parametrize("losers", ["run_to_completion", "cancel"])
def test_what_was_decided_before_a_kill_has_the_same_ranks_after_it(losers: str) -> None:
    command = [sys.executable, str(EXAMPLES / "hedged.py"), "--requests", "6", "--losers", losers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: the 3 requests decided before the kill" in done.stdout
    assert ("cancelled" in done.stdout) == (losers == "cancel")


def test_the_verdict_names_what_does_not_hold(example: Callable[[str], ModuleType]) -> None:
    judge = example("hedged").judge
    won = {"request": 0, "winner": 1, "rank": 1, "answer": "0"}
    ranks = [(1, "answered"), (0, "cancelled"), (2, "cancelled")]
    assert judge({0: won}, {0: won}, {0: ranks}, 1, "cancel") == []
    for before, after, order, losers, fault in (
        ({**won, "winner": 2}, won, ranks, "cancel", "another winner"),
        (won, won, ranks, "run_to_completion", "a loser was cancelled"),
        (won, won, ranks[:2], "cancel", "not every server has one rank"),
        (won, won, [ranks[1], ranks[0], ranks[2]], "cancel", "not at its rank"),
        (
            won,
            {**won, "rank": 3},
            [(0, "answered"), (2, "failed"), (1, "answered")],
            "cancel",
            "before the winner",
        ),
    ):
        assert any(fault in said for said in judge({0: before}, {0: after}, {0: order}, 1, losers))
    assert judge({}, {}, {}, 1, "cancel") == ["not every request was decided"]


def test_a_number_of_requests_that_leaves_nothing_to_resume_is_refused() -> None:
    command = [sys.executable, str(EXAMPLES / "hedged.py"), "--requests", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2
    assert "2 or more" in done.stderr

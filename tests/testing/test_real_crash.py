"""``--schedule-real-crash``: a crash that was found in memory, once with ``kill -9`` on a disk."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trouper.errors import ScheduleError
from trouper.testing import Rules
from trouper.testing._job import Job
from trouper.testing._real_crash import confirmed
from trouper.testing._setting import Setting
from trouper.testing.schedules import (
    Event,
    Failure,
    Footprint,
    Token,
    encode_token,
    model_digest,
)
from trouper.testing.schedules._trace import Trace

pytest_plugins = ["pytester"]

TWO_COMMITS = """
from dataclasses import dataclass
from trouper import Actor, handles
from trouper.store import record
from trouper.testing import schedule_test


@record("settled", version=1)
@dataclass(frozen=True)
class Settled:
    rank: int


class Child(Actor[str]):
    def __init__(self, store):
        self.store = store

    @handles(str)
    async def settle(self, key):
        if self.store.get("record", b"row", Settled) is not None:
            return  # settled already
        await self.store.commit(lambda tx: tx.put("record", b"row", Settled(0)))
        await self.store.commit(lambda tx: tx.put("record", b"rank", Settled(1)))


async def boot(sim):
    (await sim.system.spawn(Child, sim.system.store, name="child")).tell("row")


@schedule_test(schedules=50)
async def test_row_and_rank(sim):
    sim.crash_points("journal", budget=1)
    sim.on_boot(boot)
    await boot(sim)
    yield
    assert sim.journal.get("record", b"rank", Settled) is not None, "no rank"
"""


def run(pytester: pytest.Pytester, code: str) -> pytest.RunResult:
    pytester.makepyfile(test_crash=code)
    return pytester.runpytest_subprocess("--schedule-real-crash")


@pytest.mark.proves("Schedules: real crashes")
def test_a_crash_between_two_commits_is_confirmed_with_a_real_kill(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, TWO_COMMITS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*the crash right after*", "confirmed with kill -9 on a real store: AssertionError again"]
    )


@pytest.mark.proves("Schedules: real crashes")
def test_a_failure_that_a_real_crash_does_not_show_is_said_not_to_be_confirmed(
    pytester: pytest.Pytester,
) -> None:
    code = TWO_COMMITS.replace(
        'is not None, "no rank"', 'is not None or __import__("os").environ.get("REAL"), "no rank"'
    )
    pytester.makeconftest(
        "import os\n"
        "def pytest_configure(config):\n"
        "    if config.getoption('schedule_job'):\n"
        "        os.environ['REAL'] = '1'\n"
    )
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["NOT confirmed with kill -9 on a real store: all was well then.*"])


# --- its parts ------------------------------------------------------------------------------------


def failing(*events: Event) -> Failure:
    trace = Trace(Rules())
    for event in events:
        trace.append(event, Footprint())
    token = encode_token(Token(model_digest("x"), ()))
    return Failure(ValueError(), (), tuple(trace.steps), token, None, "played", False)


def test_without_a_crash_there_is_nothing_to_confirm() -> None:
    text = confirmed(failing(), Rules(), Setting())
    assert text == "no crash in it: there is nothing to confirm with kill -9"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"error": "ValueError", "differs": []}, "confirmed with kill -9"),
        ({"error": "KeyError", "differs": []}, "NOT confirmed .*: KeyError then"),
        ({"error": "ValueError", "differs": ["meta 61"]}, "NOT confirmed .*, in meta 61"),
    ],
)
def test_it_says_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], text: str
) -> None:
    def answered(job: Job, setting: Setting) -> Any:
        return found if job.what == "recover" else None

    monkeypatch.setattr("trouper.testing._real_crash.ordered", answered)
    crash = failing(Event("crash", "journal"))
    assert re.match(text, confirmed(crash, Rules(), Setting()))


def test_a_process_that_was_not_killed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trouper.testing._real_crash.ordered", lambda job, setting: {})
    with pytest.raises(ScheduleError, match="to be killed came to its end"):
        confirmed(failing(Event("crash", "journal")), Rules(), Setting())

"""``--schedule-check-determinism``: the same schedules in a second process, step by step."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trouper.errors import ScheduleDiverged, ScheduleError
from trouper.testing import Rules
from trouper.testing._determinism import KEPT, Recorder, written
from trouper.testing._job import Job, Tape, answer, ordered
from trouper.testing._setting import Setting
from trouper.testing.schedules import Course, Event, Footprint
from trouper.testing.schedules._strategies import Fifo

pytest_plugins = ["pytester"]

RACE = Path(__file__).with_name("race.py").read_text()

SET_ORDER = """
from trouper import Actor, handles
from trouper.testing import schedule_test


class Caller(Actor[str]):
    def __init__(self, others):
        self.others = others

    @handles(str)
    def call(self, word):
        for name in {other.path for other in self.others}:
            next(o for o in self.others if o.path == name).tell(word)


class Called(Actor[str]):
    @handles(str)
    def hear(self, word): ...


@schedule_test(schedules=3)
async def test_calls(sim):
    others = [await sim.system.spawn(Called, name=f"called{n}") for n in range(8)]
    (await sim.system.spawn(Caller, others, name="caller")).tell("hello")
    yield
"""


def test_the_same_token_does_the_same_under_another_hash_seed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    pytester.makepyfile(test_race=RACE)
    result = pytester.runpytest_subprocess("--schedule-check-determinism")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the same in a second process, byte for byte: 5 schedules"])


@pytest.mark.proves("Schedules: what is not controlled is named")
def test_what_depends_on_the_order_of_a_set_is_named_with_its_first_step(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    pytester.makepyfile(test_calls=SET_ORDER)
    result = pytester.runpytest_subprocess("--schedule-check-determinism")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "schedule 1 went another way in a second process (PYTHONHASHSEED=1), at step 1:",
            "  here:  `caller` gets scenario's str *",
            "  there: `caller` gets scenario's str *",
            "It depends on the order of a set, *",
        ]
    )
    result.stdout.no_fnmatch_line("*_determinism.py*")


# --- its parts ------------------------------------------------------------------------------------

EVENTS = [Event("deliver", "a", "main", "Go", n) for n in (1, 2, 3)]


def play(course: Course) -> None:
    left = list(EVENTS)
    course.born(left)
    while (event := course.next(left)) is not None:
        left.remove(event)
        course.done(event, Footprint(writes=frozenset(("y", "x")), busy=False))


def test_a_step_is_written_with_all_that_it_touched_and_sets_in_order() -> None:
    course = Course(Fifo(), Rules())
    play(course)
    assert written(course.trace.steps[:2]) == [
        "`a` gets main's Go [deliver 1/0]; writes x, y",
        "`a` gets main's Go#2 [deliver 2/0]; writes x, y",
    ]


def test_the_first_schedules_and_the_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(play)
    for _ in range(KEPT + 3):
        recorder(Course(Fifo(), Rules()))

    def same(job: Job, setting: Setting) -> list[list[str]]:
        assert len(job.tapes) == KEPT
        return [written_of(tape) for tape in job.tapes]

    def shorter(job: Job, setting: Setting) -> list[list[str]]:
        return [written_of(tape)[:2] for tape in job.tapes]

    monkeypatch.setattr("trouper.testing._determinism.ordered", same)
    text = recorder.compare(Rules(), Setting(), None)
    assert text == f"the same in a second process, byte for byte: {KEPT} schedules"
    monkeypatch.setattr("trouper.testing._determinism.ordered", shorter)
    with pytest.raises(ScheduleDiverged, match="there: at rest") as caught:
        recorder.compare(Rules(), Setting(), None)
    assert caught.value.step == 2


def written_of(tape: Tape) -> list[str]:
    course = Course(Fifo(), tape.rules)
    play(course)
    return written(course.trace.steps)


def test_a_job_survives_its_file(tmp_path: Path) -> None:
    job = Job("trace", (Tape(Rules(time="anytime"), tuple(EVENTS)),), "somewhere")
    job.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == job


def test_a_second_process_without_an_answer_is_told_with_what_it_printed() -> None:
    setting = Setting(child=(sys.executable, "-c", "print('oh no'); raise SystemExit(3)"))
    with pytest.raises(ScheduleError, match=r"gave no answer \(exit code 3\)(?s:.*)oh no"):
        ordered(Job("trace", ()), setting)


def test_an_answer_comes_back(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trouper.testing._job import answer\n"
        "answer(Path(sys.argv[2]), ['well'])"
    )
    assert ordered(Job("trace", ()), Setting(child=(sys.executable, "-c", code))) == ["well"]
    answer(tmp_path / "x.json", 3)
    assert (tmp_path / "x.answer").read_text() == "3"

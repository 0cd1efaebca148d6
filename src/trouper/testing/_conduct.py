"""What a schedule test does when it runs: as its plan says, and as the command line does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from ..errors import InvariantError, ScheduleDiverged, ScheduleError, TrouperError
from ._determinism import Recorder, play_again
from ._explore import again, searched
from ._job import Job, answer
from ._plan import Plan
from ._real_crash import confirmed, play_part
from ._scenario import refuse_inside_a_run
from ._setting import SETTING, Setting, told
from .schedules import Course, Failure, Play, Scenario, scenario_play, svg_chart, text_chart
from .schedules._frames import own_frames

_ONCE: Final = (
    "Replayed at once it did not fail: something that no schedule controls plays a part in it. "
    "--schedule-check-determinism may name it."
)


def conduct(plan: Plan, scenario: Callable[..., Any]) -> None:
    """Play what the plan says, unless the setting says otherwise; raise what fails.

    Args:
        plan: What the test was decorated with.
        scenario: Its scenario, of which everything but the simulation is bound.
    """
    __tracebackhide__ = True
    refuse_inside_a_run("a schedule test")
    setting = SETTING.get()
    try:
        failure = _failure(plan, scenario, setting or Setting())
    except InvariantError:
        raise  # a bug of ours, with all that there is to see
    except (TrouperError, ValueError) as exc:
        own_frames(exc)
        if setting is not None:
            setting.findings.is_bare = exc.__traceback__ is None  # its text says it all
        raise exc from None
    if failure is not None:
        raise told(failure)


def _failure(plan: Plan, scenario: Callable[..., Any], setting: Setting) -> Failure | None:
    plays = scenario_play(cast("Scenario", scenario), plan.options)

    def play(course: Course) -> None:
        setting.forget()
        plays(course)

    if setting.job is not None:
        _do(Job.load(setting.job), play, setting.job)
        return None
    plan = _as_set(plan, setting)
    recorder = Recorder(play)
    failure = _first(plan, recorder if setting.checks_determinism else play, setting)
    notes: list[str] = []
    if setting.checks_determinism:
        try:
            notes.append(recorder.compare(plan.rules, setting, failure))
        except ScheduleDiverged as exc:
            if failure is None:
                raise
            notes.append(str(exc))
    if setting.confirms_crash and failure is not None:
        notes.append(confirmed(failure, plan.rules, setting))
    if failure is not None and not _fails_again(failure, plan, play):
        notes.append(_ONCE)
    setting.findings.remarks += notes
    if failure is None:
        return None
    return _drawn(replace(failure, played="\n".join([failure.played, *notes])), setting)


def _fails_again(failure: Failure, plan: Plan, play: Play) -> bool:
    """Replay a failure, also so that its output is what is shown."""
    if not failure.token:
        return True  # nobody knows
    try:
        return again(plan, play, failure.token, rerun=None) is not None
    except ScheduleError:
        return False


def _do(job: Job, play: Play, file: Path) -> None:
    """Be the second process."""
    answer(file, play_again(job, play) if job.what == "trace" else play_part(job, play))


def _first(plan: Plan, play: Play, setting: Setting) -> Failure | None:
    """Return the first failure among the tokens and the schedules of a plan."""
    for number, token in enumerate(plan.tokens, 1):
        failure = again(plan, play, token, rerun=setting.rerun)
        if failure is not None:
            which = "its" if setting.token or len(plan.tokens) == 1 else f"its {_nth(number)}"
            return replace(failure, played=f"replayed {which} token")
    if plan.schedules is None:
        setting.findings.remarks.append("replayed; it does not fail any more")
        return None
    report = searched(plan, play, rerun=setting.rerun)
    setting.findings.remarks.append(str(report))
    return report.first_failure


def _as_set(plan: Plan, setting: Setting) -> Plan:
    """Return the plan as the command line wants it."""
    if setting.token is not None:
        return replace(plan, tokens=(setting.token,), schedules=None)
    schedules = plan.schedules and (setting.schedules or plan.schedules)
    seed = plan.seed if setting.seed is None else setting.seed
    return replace(plan, schedules=schedules, seed=seed, strategy=setting.strategy or plan.strategy)


def _nth(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{ends.get(number % 10 if number % 100 not in (11, 12, 13) else 0, 'th')}"


def _drawn(failure: Failure, setting: Setting) -> Failure:
    """Draw a failure if that was asked for; return it."""
    if setting.chart is None:
        return failure
    setting.chart.parent.mkdir(parents=True, exist_ok=True)
    for ending, text in (("svg", svg_chart(failure)), ("txt", text_chart(failure))):
        file = setting.chart.with_name(f"{setting.chart.name}.{ending}")
        file.write_text(text, encoding="utf-8")
        setting.findings.remarks.append(f"drawn: {file}")
    return failure

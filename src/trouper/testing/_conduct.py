"""What a schedule test does when it runs: as its plan says, and as the command line does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from ..errors import ScheduleDiverged, ScheduleError
from ._determinism import Recorder, play_again
from ._explore import again, searched
from ._job import Job, answer
from ._plan import Plan
from ._scenario import refuse_inside_a_run
from ._setting import SETTING, Setting, told
from .schedules import Failure, Play, Scenario, scenario_play, svg_chart, text_chart


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
    except ScheduleError as exc:
        if setting is not None:
            setting.findings.is_bare = True  # its text says it all
        raise exc.with_traceback(None) from None
    if failure is not None:
        raise told(failure)


def _failure(plan: Plan, scenario: Callable[..., Any], setting: Setting) -> Failure | None:
    play = scenario_play(cast("Scenario", scenario), plan.options)
    if setting.job is not None:
        answer(setting.job, play_again(Job.load(setting.job), play))
        return None
    plan = _as_set(plan, setting)
    if not setting.checks_determinism:
        return _drawn(_first(plan, play, setting), setting)
    recorder = Recorder(play)
    failure = _first(plan, recorder, setting)
    try:
        setting.findings.remarks.append(recorder.compare(setting, failure))
    except ScheduleDiverged as exc:
        if failure is None:
            raise
        failure = replace(failure, played=f"{failure.played}\n{exc}")
    return _drawn(failure, setting)


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


def _drawn(failure: Failure | None, setting: Setting) -> Failure | None:
    """Draw a failure if that was asked for; return it."""
    if failure is None or setting.chart is None:
        return failure
    setting.chart.parent.mkdir(parents=True, exist_ok=True)
    for ending, text in (("svg", svg_chart(failure)), ("txt", text_chart(failure))):
        file = setting.chart.with_name(f"{setting.chart.name}.{ending}")
        file.write_text(text, encoding="utf-8")
        setting.findings.remarks.append(f"drawn: {file}")
    return failure

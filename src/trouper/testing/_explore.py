"""Exploring the schedules of a scenario, or replaying one of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias, cast

from ._plan import Plan
from ._scenario import called, complete, model_name, refuse_inside_a_run
from .schedules import (
    Failure,
    Options,
    Play,
    Report,
    Rules,
    Scenario,
    Simulation,
    scenario_play,
    search,
)
from .schedules import replay as replayed

AnyScenario: TypeAlias = Callable[[Simulation], AsyncIterator[None]]


def explore(
    scenario: AnyScenario,
    *,
    strategy: str = "portfolio",
    budget: int = 1000,
    seed: int = 0,
    token: str | None = None,
    keep_going: bool = False,
    tries: int = 200,
    rules: Rules | None = None,
    options: Options | None = None,
) -> Report:
    """Play schedules of a scenario and report what came of them; the first failure is shrunk.

    ``explore(two_drivers).check()`` raises what failed. The report of a spent budget says so.

    Args:
        scenario: ``async def scenario(sim):`` with one ``yield``. What is before it sends the first
            messages, at the ``yield`` a schedule runs until all is at rest, what is after it
            checks. It is run anew for every schedule, each time on a system of its own.
        strategy: ``portfolio`` (the ordinary order, then random ones of every sort), ``dfs`` (all
            that differ), ``sleep``, ``naive`` (all), ``fifo``, ``walk``, ``pos``, ``pct:N``.
        budget: Play at most so many schedules.
        seed: Which random schedules; the exhaustive strategies take none.
        token: Replay this one schedule instead.
        keep_going: Play on after a failure, to count them.
        tries: How many schedules shrinking may cost.
        rules: What may happen when, and for how long.
        options: How the system is opened, and what becomes of what no schedule controls.

    Raises:
        ScenarioRefused: It is no async generator function with one ``yield``.
        OptionRefused: A number is out of range.
        UnknownStrategy: There is no such strategy.
        TokenRefused: The token is garbled, of another scenario, or of older code.
        ScheduleDiverged: The same events in the same order did something else than before.
        RuntimeError: It was called inside a trio run.
    """
    __tracebackhide__ = True
    refuse_inside_a_run("explore")
    plan = Plan(
        complete(scenario),
        schedules=budget,
        strategy=strategy,
        seed=seed,
        tries=tries,
        rules=rules or Rules(),
        options=options or Options(),
    )
    play = scenario_play(cast("Scenario", scenario), plan.options)
    rerun = f"explore({called(scenario)}, token='{{token}}')"
    if token is None:
        return searched(plan, play, rerun=rerun, keep_going=keep_going)
    failure = again(plan, play, token, rerun=rerun)
    return Report(False, 1, 0, 1, int(failure is not None), failure, "token", seed, 1, frozenset())


def searched(plan: Plan, play: Play, *, rerun: str | None, keep_going: bool = False) -> Report:
    """Explore as a plan says."""
    assert plan.schedules is not None, "a plan that explores says how far"
    with _unheard():
        return search(
            play,
            strategy=plan.strategy,
            budget=plan.schedules,
            seed=plan.seed,
            rules=plan.rules,
            scenario=model_name(plan.scenario),
            rerun=rerun,
            keep_going=keep_going,
            tries=plan.tries,
        )


@contextmanager
def _unheard() -> Generator[None]:
    """Keep what a thousand schedules log off stderr, where it goes when nobody set up logging."""
    logger, nobody = logging.getLogger("trouper"), logging.NullHandler()
    logger.addHandler(nobody)
    try:
        yield
    finally:
        logger.removeHandler(nobody)


def again(plan: Plan, play: Play, token: str, *, rerun: str | None) -> Failure | None:
    """Replay a token; return how it failed, or None: it does so no longer."""
    failure = replayed(play, token, rules=plan.rules, scenario=model_name(plan.scenario))
    if failure is None or rerun is None:
        return failure
    return replace(failure, rerun=rerun.replace("{token}", failure.token))

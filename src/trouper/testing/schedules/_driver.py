"""Plays schedules of a scenario on the real runtime, inside a real trio run."""

from __future__ import annotations

from ._course import Play
from ._simulation import Options, Scenario


def scenario_play(scenario: Scenario, options: Options | None = None) -> Play:
    """Return what plays one schedule of a scenario from scratch, as a course says.

    Args:
        scenario: An async function with one ``yield``. What it does before that is the set-up, in
            the ordinary order; then the schedule runs to rest; then the rest of it checks.
        options: How its system is opened.
    """
    raise NotImplementedError

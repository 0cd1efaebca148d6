"""What the run of tests around asks of a schedule test, and what it hears of it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .schedules import Failure


@dataclass(slots=True)
class Findings:
    """What became of one test.

    Args:
        failures: The schedules that made it fail.
        remarks: What else to tell, a line each: how far exploration got, what was confirmed.
        is_bare: What is raised has no frame of the test: its text says it all.
    """

    failures: list[Failure] = field(default_factory=list[Failure])
    remarks: list[str] = field(default_factory=list[str])
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """What the command line asks of the test that runs; None leaves it to the test.

    Args:
        schedules: How many to explore at most.
        seed: Which random ones.
        strategy: How to choose them.
        token: The one to replay, instead of exploring.
        rerun: The command that replays a token, with ``{token}`` in it.
        child: The command that runs the test in a second process.
        chart: The file, without its ending, for a drawing of a failing schedule.
        checks_determinism: Play schedules again in a second process.
        confirms_crash: Play a failure with a crash again with ``kill -9`` on a real store.
        job: What this process does as the second one: a file.
        forget: Forgets what was logged and printed so far: only the last schedule is of interest.
        findings: Where to tell what became of it.
    """

    schedules: int | None = None
    seed: int | None = None
    strategy: str | None = None
    token: str | None = None
    rerun: str | None = None
    child: tuple[str, ...] = ()
    chart: Path | None = None
    checks_determinism: bool = False
    confirms_crash: bool = False
    job: Path | None = None
    forget: Callable[[], object] = tuple
    findings: Findings = field(default_factory=Findings)


SETTING: Final[ContextVar[Setting | None]] = ContextVar("SETTING", default=None)


def told(failure: Failure) -> Exception:
    """Return what a failing test raises; its story goes to the run around, or into a note."""
    error = failure.reraised()
    setting = SETTING.get()
    if setting is None:
        error.add_note(failure.story())
    else:
        setting.findings.failures.append(failure)
        setting.findings.is_bare = error.__traceback__ is None
    return error

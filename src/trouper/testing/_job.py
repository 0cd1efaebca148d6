"""What a test does in a second process, started by the first: the same test, as a file says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from ..errors import ScheduleError
from ._setting import Setting
from .schedules import Event, Failure, Rules, decode_token
from .schedules._token import event_of, row_of

_WITHIN: Final = 300.0  # seconds for a second process
_TOLD: Final = 2_000  # characters of what it printed, in an error


@dataclass(frozen=True, slots=True)
class Tape:
    """A whole schedule: its events in order, and the rules it was played under."""

    rules: Rules
    events: tuple[Event, ...]


def tape_of(failure: Failure, limits: Rules) -> Tape:
    """Return the whole schedule of a failure."""
    rules = limits
    if failure.token:
        found = decode_token(failure.token)
        rules = Rules(found.delivery, found.time, limits.fair_after, limits.max_steps)
    return Tape(rules, tuple(step.event for step in failure.steps))


@dataclass(frozen=True, slots=True)
class Job:
    """What to play, and what for.

    Args:
        what: ``trace``: write down what happens. ``kill``: die at the first crash. ``recover``: go
            on from what is left of that.
        tapes: The schedules.
        store: The folder of a real store, for the latter two.
    """

    what: str
    tapes: tuple[Tape, ...]
    store: str = ""

    def save(self, file: Path) -> None:
        """Write it down for the second process."""
        tapes = [(asdict(tape.rules), list(map(row_of, tape.events))) for tape in self.tapes]
        file.write_text(json.dumps([self.what, tapes, self.store]))

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what the first process wrote."""
        what, tapes, store = json.loads(file.read_text())
        read = (Tape(Rules(**rules), tuple(map(event_of, rows))) for rules, rows in tapes)
        return cls(what, tuple(read), store)


def answer_to(file: Path) -> Path:
    """Return the file for what came of a job."""
    return file.with_suffix(".answer")


def ordered(job: Job, setting: Setting) -> Any:
    """Do a job in a second process, under another hash seed; return what it answered.

    A job that kills its process has no answer: then that is None.

    Raises:
        ScheduleError: There was no answer.
    """
    with tempfile.TemporaryDirectory(prefix="trouper-schedules-") as folder:
        file = Path(folder, "job.json")
        job.save(file)
        done = subprocess.run(
            [*setting.child, "--schedule-job", str(file)],
            env=os.environ | {"PYTHONHASHSEED": other_seed()},
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN,
        )
        if job.what == "kill" and done.returncode == -signal.SIGKILL:
            return None
        if not answer_to(file).exists():
            raise ScheduleError(
                f"the second process gave no answer (exit code {done.returncode}): "
                f"{' '.join(done.args)}\n{done.stdout[-_TOLD:]}{done.stderr[-_TOLD:]}"
            )
        return json.loads(answer_to(file).read_text())


def other_seed() -> str:
    """Return a hash seed that is not the one of this process."""
    return "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"


def answer(file: Path, value: object) -> None:
    """Tell the first process what came of its job."""
    answer_to(file).write_text(json.dumps(value))

"""What a test does in a second process, started by the first: the same test, as a file says."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from ..errors import ScheduleError
from ._setting import Setting
from .schedules import Event, Rules
from .schedules._token import event_of, row_of

_WITHIN: Final = 300.0  # seconds for a second process
_TOLD: Final = 2_000  # characters of what it printed, in an error


@dataclass(frozen=True, slots=True)
class Tape:
    """A whole schedule: its events in order, and the rules it was played under."""

    rules: Rules
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """What to play, and what for.

    Args:
        what: ``trace``: write down what happens.
        tapes: The schedules.
    """

    what: str
    tapes: tuple[Tape, ...]

    def save(self, file: Path) -> None:
        """Write it down for the second process."""
        tapes = [(asdict(tape.rules), list(map(row_of, tape.events))) for tape in self.tapes]
        file.write_text(json.dumps([self.what, tapes]))

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what the first process wrote."""
        what, tapes = json.loads(file.read_text())
        read = (Tape(Rules(**rules), tuple(map(event_of, rows))) for rules, rows in tapes)
        return cls(what, tuple(read))


def answer_to(file: Path) -> Path:
    """Return the file for what came of a job."""
    return file.with_suffix(".answer")


def ordered(job: Job, setting: Setting) -> Any:
    """Do a job in a second process, under another hash seed; return what it answered.

    Raises:
        ScheduleError: There was no answer.
    """
    with tempfile.TemporaryDirectory(prefix="trouper-schedules-") as folder:
        file = Path(folder, "job.json")
        job.save(file)
        done = start(setting, file)
        answer = answer_to(file)
        if not answer.exists():
            raise ScheduleError(
                f"the second process gave no answer (exit code {done.returncode}): "
                f"{' '.join(done.args)}\n{done.stdout[-_TOLD:]}{done.stderr[-_TOLD:]}"
            )
        return json.loads(answer.read_text())


def start(setting: Setting, file: Path) -> subprocess.CompletedProcess[str]:
    """Run the test of this setting in a second process."""
    seed = other_seed()
    command = [*setting.child, "--schedule-job", str(file)]
    return subprocess.run(
        command,
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN,
    )


def other_seed() -> str:
    """Return a hash seed that is not the one of this process."""
    return "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"


def answer(file: Path, value: Sequence[object]) -> None:
    """Tell the first process what came of its job."""
    answer_to(file).write_text(json.dumps(value))

"""Whether a failure with a crash in it is one, too, when the process really dies."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ..errors import ScheduleDiverged, ScheduleError
from ._job import Job, ordered, tape_of
from ._real_store import Recovering, mirror_for
from ._setting import Setting
from .schedules import Course, Failure, Play, Rules
from .schedules._mirror import MIRROR
from .schedules._strategies import Scripted


def confirmed(failure: Failure, limits: Rules, setting: Setting) -> str:
    """Play a failure again with ``kill -9`` and a real store; return what to say of it.

    Raises:
        ScheduleError: A process did not do what it should.
    """
    if all(step.event.kind != "crash" for step in failure.steps):
        return "no crash in it: there is nothing to confirm with kill -9"
    tape = tape_of(failure, limits)
    with tempfile.TemporaryDirectory(prefix="trouper-crash-") as folder:
        store = str(Path(folder, "store"))
        if ordered(Job("kill", (tape,), store), setting) is not None:
            raise ScheduleError("the process that was to be killed came to its end")
        found = ordered(Job("recover", (tape,), store), setting)
    if found["differs"]:
        rows = ", ".join(found["differs"][:5])
        return f"NOT confirmed with kill -9: the disk held something else than believed, in {rows}"
    if found["error"] == type(failure.error).__name__:
        return f"confirmed with kill -9 on a real store: {found['error']} again"
    return (
        f"NOT confirmed with kill -9 on a real store: {found['error'] or 'all was well'} then. "
        "Something outlived the crash that a process does not outlive, or the other way round"
    )


def play_part(job: Job, play: Play) -> dict[str, Any]:
    """Be one of the two processes. The one that is killed does not return."""
    mirror = mirror_for(job.what, Path(job.store))
    (tape,) = job.tapes
    course = Course(Scripted(tape.events), tape.rules)
    before = MIRROR.set(mirror)
    error: Exception | None
    try:
        play(course)
        error = course.failure
    except ScheduleDiverged as exc:
        error = exc
    finally:
        MIRROR.reset(before)
    differs = mirror.differences if isinstance(mirror, Recovering) else []
    return {"error": "" if error is None else type(error).__name__, "differs": differs}

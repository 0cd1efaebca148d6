"""Whether the same schedule does the same in another process, where sets have another order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final

from ..errors import ScheduleDiverged
from ._job import Job, Tape, ordered, other_seed, tape_of
from ._setting import Setting
from .schedules import Course, Event, Failure, Play, Rules, Step
from .schedules._strategies import Scripted

KEPT: Final = 4  # schedules of a test that are played again


class Recorder:
    """Keeps the first schedules that are played, and the last.

    Args:
        play: What plays them.
    """

    def __init__(self, play: Play) -> None:
        self._play = play
        self._kept: list[tuple[Rules, Sequence[Step]]] = []

    def __call__(self, course: Course) -> None:
        """Play one."""
        self._play(course)
        if not course.is_cut:
            del self._kept[KEPT - 1 :]
            self._kept.append((course.rules, course.trace.steps))

    def compare(self, limits: Rules, setting: Setting, failing: Failure | None) -> str:
        """Play them again in a second process; return what to say when all was the same.

        Args:
            limits: For the failing one.
            setting: How to run the test in a second process.
            failing: A schedule to be compared as well.

        Raises:
            ScheduleDiverged: Something was not the same.
            ScheduleError: The second process did not answer.
        """
        kept = [(Tape(r, tuple(step.event for step in steps)), steps) for r, steps in self._kept]
        if failing is not None:
            kept.append((tape_of(failing, limits), failing.steps))
        tapes = tuple(tape for tape, _ in kept)
        told: list[list[str]] = ordered(Job("trace", tapes), setting)
        for number, ((_, steps), there) in enumerate(zip(kept, told, strict=True), 1):
            _same(number, written(steps), there)
        count = "1 schedule" if len(tapes) == 1 else f"{len(tapes)} schedules"
        return f"the same in a second process, byte for byte: {count}"


def play_again(job: Job, play: Play) -> list[list[str]]:
    """Be the second process: play the schedules and return what happened in each step."""
    told: list[list[str]] = []
    for tape in job.tapes:
        course = Course(Scripted(tape.events), tape.rules)
        try:
            play(course)
        except ScheduleDiverged as exc:
            told.append([*written(course.trace.steps), str(exc)])
        else:
            told.append(written(course.trace.steps))
    return told


def written(steps: Sequence[Step]) -> list[str]:
    """Write down what happened, a line per step, with all that it touched."""
    return [_line(step) for step in steps]


def _line(step: Step) -> str:
    parts = [_name(step.event)]
    touched = step.footprint._asdict()
    parts += [f"{name} {_text(value)}" for name, value in touched.items() if value]
    return "; ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, Event):
        return _name(value)
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(_text, value)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value)


def _name(event: Event) -> str:
    return f"{event} [{event.kind} {event.sequence}/{event.life}]"


def _same(number: int, here: list[str], there: list[str]) -> None:
    for place, (mine, other) in enumerate(zip_longest(here, there)):
        if mine != other:
            raise ScheduleDiverged(
                f"schedule {number} went another way in a second process "
                f"(PYTHONHASHSEED={other_seed()}), at step {place + 1}:\n"
                f"  here:  {mine or 'at rest'}\n  there: {other or 'at rest'}\n"
                "It depends on the order of a set, on id(), a clock or a random number that the "
                "schedule does not control: sort what comes out of sets, take the time from trio, "
                "and seed what is random.",
                step=place,
                expected=mine or "",
                found=() if other is None else (other,),
            )

"""From a failing schedule to the few orders that matter, by delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from ._course import Course, Play
from ._event import Event
from ._order import Constraint, Guided, constraints_of
from ._strategies import Scripted
from ._trace import Rules

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[list[T]], bool], *, tries: int = 200) -> list[T]:
    """Return a part of ``items``, in their order, that still fails and of which all is needed.

    Zeller and Hildebrandt's delta debugging. ``fails(items)`` is taken for granted. Needed means
    that taking away any one item no longer fails; when ``tries`` ran out, that may not be so.
    """
    rest, parts = list(items), 2
    if rest and tries > 0 and fails([]):
        return []
    tries -= 1
    while len(rest) > 1:
        size = -(-len(rest) // parts)
        chunks = [rest[at : at + size] for at in range(0, len(rest), size)]
        for index, chunk in enumerate(chunks):
            others = [item for n, c in enumerate(chunks) if n != index for item in c]
            candidates = [(chunk, 2)] if parts == 2 else [(chunk, 2), (others, max(parts - 1, 2))]
            found = None
            for smaller, next_parts in candidates:
                if tries <= 0:
                    return rest
                tries -= 1
                if fails(smaller):
                    found = smaller, next_parts
                    break
            if found is not None:
                rest, parts = found
                break
        else:
            if parts >= len(rest):
                return rest
            parts = min(parts * 2, len(rest))
    return rest


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest way found to the same failure.

    Args:
        course: A schedule that fails like that.
        constraints: What was asked of it; all of its races when the tape is needed.
        tape: Its events, when no constraints alone led to the failure; else empty.
        replays: How many schedules it took to find out.
    """

    course: Course
    constraints: tuple[Constraint, ...]
    tape: tuple[Event, ...]
    replays: int


def shrink(play: Play, failing: Course, *, tries: int = 200) -> Shrunk:
    """Find few constraints under which the ordinary run fails as ``failing`` did.

    Args:
        play: Plays a schedule from scratch.
        failing: A schedule that failed.
        tries: How many schedules it may cost.
    """
    search = _Shrinking(play, failing, tries)
    wanted = search.enough()
    if wanted is None:
        tape = tuple(step.event for step in failing.trace.steps)
        return Shrunk(failing, tuple(constraints_of(failing.trace)), tape, search.replays)
    few = ddmin(wanted, search.fails, tries=tries - search.replays)
    return Shrunk(search.best(few), tuple(few), (), search.replays)


class _Shrinking:
    def __init__(self, play: Play, failing: Course, tries: int) -> None:
        self.replays = 0
        self._play, self._failing, self._tries = play, failing, tries
        self._sign = _sign(failing)
        self._found: dict[tuple[Constraint, ...], Course] = {}

    def run(self, constraints: Sequence[Constraint]) -> Course:
        self.replays += 1
        return run(self._play, Guided(constraints), self._failing.rules)

    def fails(self, constraints: Sequence[Constraint]) -> bool:
        course = self.run(constraints)
        if _sign(course) != self._sign:
            return False
        self._found[tuple(constraints)] = course
        return True

    def best(self, constraints: Sequence[Constraint]) -> Course:
        return self._found[tuple(constraints)]

    def enough(self) -> list[Constraint] | None:
        """Return constraints that suffice: those that the ordinary run breaks, round by round."""
        full = constraints_of(self._failing.trace)
        wanted: list[Constraint] = []
        while self.replays < self._tries:
            course = self.run(wanted)
            if _sign(course) == self._sign:
                self._found[tuple(wanted)] = course
                return wanted
            broken = {c for c in full if c.is_broken(course.trace)}
            more = [c for c in full if c in wanted or c in broken]
            if more == wanted:
                break
            wanted = more
        return full if wanted != full and self.fails(full) else None


def run(play: Play, chooser: Guided | Scripted, rules: Rules) -> Course:
    """Play one schedule and return how it went."""
    course = Course(chooser, rules)
    play(course)
    return course


def _sign(course: Course) -> tuple[object, ...] | None:
    """Return by what one failure is told from another: its type, and the line that raised it."""
    error = course.failure
    if error is None:
        return None
    where: tuple[str, int] | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        where = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return (type(error), where)

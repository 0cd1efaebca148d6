"""All schedules there are, or one of each kind: depth first, every time from scratch.

Three depths of the same search, so that the shallow ones can check the deep one. ``naive`` plays
every interleaving. ``sleep`` leaves out a schedule as soon as all that could come next was played
already, before events that commute with it (sleep sets). ``dfs`` also does not even begin most of
them: it turns around only what is seen to race (source sets: Abdulla, Aronsson, Jonsson and
Sagonas, "Optimal dynamic partial order reduction", POPL 2014, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ...errors import ScheduleDiverged
from ._course import Course, diverged
from ._event import REST, Accesses, Event
from ._strategies import usual
from ._trace import Step, Trace

Depth: TypeAlias = Literal["naive", "sleep", "dfs"]
DEPTHS: Final[dict[str, Depth]] = {"naive": "naive", "sleep": "sleep", "dfs": "dfs"}


@dataclass(slots=True)
class _Node:
    """A state on the path that is being explored: before its step number so many."""

    options: tuple[Event, ...]
    sleep: dict[Event, Accesses]  # explored from an earlier state; all since commutes with it
    todo: list[Event]  # to explore from here, or explored
    chosen: Event
    took: Accesses = field(default_factory=Accesses)  # what the chosen event's step touched
    done: dict[Event, Accesses] = field(default_factory=dict[Event, Accesses])


class Exhaustive:
    """Chooses schedule after schedule until there are no more."""

    def __init__(self, depth: Depth) -> None:
        self._depth = depth
        self._path: list[_Node] = []
        self._fresh = 0  # steps before this place were looked at in an earlier schedule

    def choose(self, options: Sequence[Event], trace: Trace) -> Event | None:
        """See `Chooser.choose`."""
        place = len(trace.steps)
        if place < len(self._path):
            return self._again(place, tuple(options), trace)
        sleep = self._inherited(trace)
        free = [option for option in options if option not in sleep]
        if not free:
            return None
        first = usual(free) if any(e.kind != "crash" for e in free) else free[0]
        # at rest a crash is seen to race with nothing: to crash there or not is a choice
        todo = [first] if self._depth == "dfs" and REST not in options else free
        todo.sort(key=lambda event: event is not first)
        self._path.append(_Node(tuple(options), sleep, todo, first))
        return first

    def _again(self, place: int, options: tuple[Event, ...], trace: Trace) -> Event:
        node = self._path[place]
        if place:
            before, now = self._path[place - 1].took, trace.steps[-1]
            if before != now.accesses:
                raise _touched(place, now)
        if node.options != options:
            raise diverged(place, node.chosen, options)
        return node.chosen

    def _inherited(self, trace: Trace) -> dict[Event, Accesses]:
        if self._depth == "naive" or not self._path:
            return {}
        node, step = self._path[-1], trace.steps[-1]
        if step.event.kind == "crash":
            return {}  # what slept died with its actors
        known = node.sleep | node.done
        return {e: took for e, took in known.items() if took.commutes(step.accesses)}

    def end(self, course: Course) -> bool:
        """Take in how a schedule went; return whether there is another one."""
        trace = course.trace
        for node, step in zip(self._path, trace.steps, strict=False):
            node.took = step.accesses
        if self._depth == "dfs":
            self._turn_around(trace)
        while self._path:
            node = self._path[-1]
            node.done[node.chosen] = node.took
            left = (e for e in node.todo if e not in node.done and e not in node.sleep)
            if (event := next(left, None)) is not None:
                node.chosen, node.took = event, Accesses()
                self._fresh = len(self._path) - 1
                return True
            self._path.pop()
        return False

    def _turn_around(self, trace: Trace) -> None:
        # messages that nobody took count also where a schedule was cut off: what was played
        # instead of its rest had them behind the same turns
        for step in [*trace.steps[self._fresh :], *trace.blocked()]:
            for head in trace.races(step):
                self._turn(step, head, trace)
        for step, head in trace.withdrawn():
            self._turn(step, head, trace)

    def _turn(self, step: Step, head: Step, trace: Trace) -> None:
        """See to it that the step, or what it takes for it, is tried before ``head``."""
        if head.place >= len(self._path):
            return  # the fair order had taken over
        node = self._path[head.place]
        initials = trace.initials(step, head)
        if any(event in node.todo or event in node.sleep for event in initials):
            return
        # none is there when it is not the time for a timer
        node.todo += [event for event in initials if event in node.options][:1]


def _touched(place: int, step: Step) -> ScheduleDiverged:
    return ScheduleDiverged(
        f"step {place}, {step.event}, touched something else than the last time it was played "
        "after the same steps. It depends on a clock, a random number, the order of a set, or on "
        "what an earlier schedule left behind.",
        step=place - 1,
        expected=str(step.event),
        found=(),
    )

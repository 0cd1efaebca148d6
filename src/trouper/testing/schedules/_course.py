"""One schedule under way: what the driver of a world talks to, step by step.

The course asks for nothing and calls nobody: whoever drives the code under test says what could
happen next, hears what shall, lets it happen and says what it touched. So a driver may be a plain
loop over a model (`player`), or a coroutine inside a trio run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ...errors import Deadlock, InvariantError, NeverQuiesced, ScheduleDiverged
from ._event import REST, Event, Footprint
from ._trace import Rules, Trace


class Chooser(Protocol):
    """What decides which event is next."""

    def choose(self, options: Sequence[Event], trace: Trace) -> Event | None:
        """Return one of the options, or None: this schedule is known already, end it here.

        ``options`` are never empty, and in the order of age. `REST` is among them when nothing but
        a crash can happen.
        """
        ...


@dataclass(frozen=True, slots=True)
class Wait:
    """An ask without an answer, or a send without room, at the end of a schedule."""

    waiter: str
    target: str
    what: str


class Course:
    """One schedule, from the first event to rest.

    A driver calls `born` with what the scenario sent, then `next`, `done`, `next`, ... until `next`
    returns None, then, unless `is_cut`, `finish`; and `fail` with whatever the code under test
    raised on the way. A driver never catches what these calls raise.
    """

    def __init__(self, chooser: Chooser, rules: Rules) -> None:
        self.rules = rules
        self.trace = Trace(rules)
        self.failure: Exception | None = None
        self.is_cut = False  # ended early: it goes on like another that was explored
        self.is_unfair = False  # came to the point where the fair order took over
        self.is_blind = False  # failed in a step of which nobody knows what it touched
        self._chooser = chooser
        self._chosen: Event | None = None

    def born(self, events: Iterable[Event]) -> None:
        """Take in what the scenario sent by itself, in the order of sending."""
        self.trace.born(events)

    def next(self, offered: Iterable[Event], *, must: bool = False) -> Event | None:
        """Return the event that shall take place now, or None: the schedule ends here.

        Args:
            offered: All that could take place: every message that an idle actor has, replies,
                commits, the timers whose turn it is, a crash while the budget allows one. The
                course leaves out what delivery or time does not allow.
            must: The scenario wants a crash here: only that is offered, and cannot be left out.
        """
        if self._chosen is not None:
            raise InvariantError(f"the step {self._chosen} was begun and neither done nor failed")
        options = self.narrow(offered)
        if not options:
            return None
        # a crash is the youngest
        if options[0].kind == "crash" and not must:
            options.append(REST)  # a crash can always be left out
        place = len(self.trace.steps)
        if place >= self.rules.max_steps:
            self.fail(_endless(place, options))
            return None
        if place >= self.rules.fair_after:
            self.is_unfair = True
            event: Event | None = _oldest(options)
        else:
            event = self._chooser.choose(options, self.trace)
        if event is None:
            self.is_cut = True
            return None
        if event not in options:
            raise diverged(place, event, options)
        if event is REST:
            return None
        self._chosen = event
        return event

    def narrow(self, offered: Iterable[Event]) -> list[Event]:
        """Return what delivery, journal and time allow of what could take place, oldest first."""
        events = self.trace.by_age(offered)
        if len(events) < 2:
            return events
        queues: dict[tuple[str, str, int], list[Event]] = {}
        for event in events:
            if (queue := event.queue) is not None:
                queues.setdefault(queue, []).append(event)
        held = {e for queue in queues.values() if len(queue) > 1 for e in self._held(queue)}
        if self.rules.time == "idle":
            timers = [event for event in events if event.kind == "timer"]
            if timers and any(e.kind not in ("timer", "crash") and e not in held for e in events):
                held.update(timers)
        return [event for event in events if event not in held] if held else events

    def _held(self, queue: Sequence[Event]) -> Iterator[Event]:
        """Yield what has its place behind something else in its queue."""
        precedes = self.trace.precedes
        for place, event in enumerate(queue):  # oldest first: only an older one precedes
            if any(precedes(older, event) for older in queue[:place]):
                yield event

    def done(self, event: Event, footprint: Footprint) -> None:
        """Take in what the step touched. Call it before `fail` when the step itself failed."""
        if event != self._chosen:
            raise InvariantError(f"{event} took place, but {self._chosen} was to be next")
        self._chosen = None
        self.trace.append(event, footprint)

    def fail(self, error: Exception) -> None:
        """Take in that the code under test failed; the first failure counts."""
        if self._chosen is not None:
            event, self._chosen = self._chosen, None
            self.trace.append(event, Footprint())
            self.is_blind = True
        if self.failure is None:
            self.failure = error

    def finish(self, waits: Iterable[Wait] = ()) -> None:
        """Take in that all is at rest, and who still waits: that is a `Deadlock`."""
        found = tuple((w.waiter, w.target, w.what) for w in waits)
        if found:
            self.fail(_deadlock(found))


Play: TypeAlias = Callable[[Course], None]
"""What plays one schedule from scratch, as the course says."""


class World(Protocol):
    """A model of actors in plain Python, made anew for every schedule.

    It must be deterministic: the same events in the same order do the same.
    """

    def begin(self) -> Sequence[Event]:
        """Return what the scenario sends before anything happens, in that order."""
        ...

    def enabled(self) -> Sequence[Event]:
        """Return all that could take place now; see `Course.next`."""
        ...

    def step(self, event: Event) -> Footprint:
        """Let it take place, up to where everybody waits again. What it raises is a failure."""
        ...

    def waits(self) -> Sequence[Wait]:
        """Return who waits for an answer or for room, when nothing more can take place."""
        ...

    def finish(self) -> None:
        """Check how it ended; raise `AssertionError`, or anything else, if that is wrong."""
        ...


def player(make: Callable[[], World]) -> Play:
    """Return what plays schedules of a model."""

    def play(course: Course) -> None:
        world = make()
        course.born(world.begin())
        while (event := course.next(world.enabled())) is not None:
            try:
                footprint = world.step(event)
            except Exception as exc:
                course.fail(exc)
                return
            course.done(event, footprint)
        if course.is_cut or course.failure is not None:
            return
        course.finish(world.waits())
        try:
            world.finish()
        except Exception as exc:
            course.fail(exc)

    return play


def diverged(place: int, expected: Event, options: Sequence[Event]) -> ScheduleDiverged:
    """Return the error for a recorded event that cannot take place."""
    found = tuple(str(option) for option in options)
    return ScheduleDiverged(
        f"step {place + 1} was recorded as: {expected}. That cannot happen here; what can: "
        f"{'; '.join(found) or 'nothing'}. Either the code under test changed, or it depends on a "
        "clock, a random number or the order of a set that the schedule does not control.",
        step=place,
        expected=str(expected),
        found=found,
    )


def _oldest(options: Sequence[Event]) -> Event:
    """Return the fair choice: never a crash, and what has waited longest, but for timers.

    They come when all else is at rest: if time passed as fast as commits return, two owners of a
    lease that it outlasts would take it over from each other for ever.
    """
    ways = [option for option in options if option.kind != "crash"]
    return next((way for way in ways if way.kind != "timer"), (ways or options)[0])


def _endless(steps: int, options: Sequence[Event]) -> NeverQuiesced:
    ways = "; ".join(str(option) for option in options[:3])
    return NeverQuiesced(
        f"not at rest after {steps} steps, next would be: {ways}. End what polls or repeats "
        "before the scenario ends, or raise max_steps.",
        steps=steps,
    )


def _deadlock(waits: tuple[tuple[str, str, str], ...]) -> Deadlock:
    onward: dict[str, str] = {}
    for waiter, target, _ in waits:
        onward.setdefault(waiter, target)
    lines = [f"{waiter} waits for {target} ({what})" for waiter, target, what in waits]
    circle = _circle(onward)
    head = "in a circle: " + " -> ".join(circle) if circle else "for what will never come"
    return Deadlock(f"everything waits, {head}\n  " + "\n  ".join(lines), waits=waits)


def _circle(onward: dict[str, str]) -> list[str]:
    for start in onward:
        path = [start]
        while (after := onward.get(path[-1])) is not None:
            if after in path:
                return [*path[path.index(after) :], after]
            path.append(after)
    return []

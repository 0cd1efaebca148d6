"""One schedule, driven by hand from plain code: what happens next is what the test says."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, cast, final

from ..errors import InvariantError, NotPending, OptionRefused, ScheduleError
from ._explore import AnyScenario
from ._plan import Plan
from ._scenario import called, complete, model_name, refuse_inside_a_run
from ._setting import told
from .schedules import (
    Course,
    Event,
    Options,
    Play,
    Rules,
    Scenario,
    Simulation,
    Token,
    Trace,
    encode_token,
    model_digest,
    scenario_play,
    shrink,
)
from .schedules._course import Chooser
from .schedules._event import REST, Kind
from .schedules._search import failure_of
from .schedules._strategies import Fifo, sampler


@contextmanager
def simulate(
    scenario: AnyScenario,
    *,
    seed: int | None = None,
    tries: int = 200,
    rules: Rules | None = None,
    options: Options | None = None,
) -> Generator[Steering]:
    """Drive one schedule of a scenario by hand, for the time of a ``with`` block.

    ``with simulate(two_drivers) as sim: sim.deliver("store", sender="d1")``. The block begins where
    the scenario yields. Behind its end the rest takes place by itself, then the scenario checks;
    what fails is raised there, with its story.

    Args:
        scenario: See `explore`.
        seed: Which random order the rest takes; by default the ordinary one.
        tries, rules, options: See `explore`.

    Raises:
        ScenarioRefused, OptionRefused, ScheduleDiverged, RuntimeError: As `explore` does.
    """
    __tracebackhide__ = True
    refuse_inside_a_run("simulate")
    plan = Plan(
        complete(scenario),
        seed=seed or 0,
        tries=tries,
        rules=rules or Rules(),
        options=options or Options(),
    )
    rest = Fifo() if seed is None else sampler("pos", seed, 0)
    steering = Steering(plan, rest)
    if steering.has_failed:  # in the set-up: there is nothing to drive
        steering.end()
    try:
        yield steering
    except BaseException:
        steering.abandon()
        raise
    steering.end()


@dataclass(frozen=True, slots=True)
class _End:
    """The schedule is over; ``error`` is what was raised in playing it, by a bug or a misuse."""

    error: BaseException | None


@final
class Steering(Chooser):
    """What `simulate` hands out.

    Each of its steps lets one event take place, up to where everybody waits again.
    """

    def __init__(self, plan: Plan, rest: Chooser) -> None:
        self._plan, self._rest = plan, rest
        self._play: Play = scenario_play(self._noting(plan.scenario), plan.options)
        self._simulation: Simulation | None = None  # that of the last play
        self._asked: SimpleQueue[Sequence[Event] | _End] = SimpleQueue()
        self._told: SimpleQueue[Event | None] = SimpleQueue()
        self._goes_on = False  # without anybody telling
        self._course = Course(self, plan.rules)
        self._thread = Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="simulate", daemon=True
        )
        self._thread.start()
        self._next = self._asked.get()

    # --- in the thread of the run -----------------------------------------------------------------

    def _noting(self, scenario: Any) -> Scenario:
        @functools.wraps(scenario)
        def noted(simulation: Simulation) -> Any:
            self._simulation = simulation
            return scenario(simulation)

        return noted

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._play(self._course)
        except BaseException as exc:
            error = exc
        self._asked.put(_End(error))

    def choose(self, options: Sequence[Event], trace: Trace) -> Event | None:
        """See `Chooser.choose`; the run itself calls it."""
        if self._goes_on:
            return self._rest.choose(options, trace)
        self._asked.put(options)
        event = self._told.get()
        if event is None and self._goes_on:
            return self._rest.choose(options, trace)
        return event

    # --- in the test's ----------------------------------------------------------------------------

    @property
    def has_failed(self) -> bool:
        """Whether it is over, with a failure; the end of the block raises that."""
        over = self._next
        return isinstance(over, _End) and (over.error or self._course.failure) is not None

    def pending(self) -> tuple[Event, ...]:
        """Return all that can happen next, the oldest first; nothing when the schedule is over."""
        if isinstance(self._next, _End):
            return ()
        return tuple(event for event in self._next if event is not REST)

    @property
    def steps(self) -> tuple[Event, ...]:
        """What has happened so far."""
        return tuple(step.event for step in self._course.trace.steps)

    @property
    def token(self) -> str:
        """A token for all that has happened so far; what comes after that is in ordinary order."""
        rules = self._plan.rules
        model = model_digest(model_name(self._plan.scenario))
        return encode_token(Token(model, (), self.steps, rules.delivery, rules.time))

    def take(self, event: Event) -> Event:
        """Let this event take place, one of those that `pending` returns.

        Raises:
            NotPending: It cannot happen now.
        """
        __tracebackhide__ = True
        if event not in self.pending():
            raise self._missing(str(event))
        self._told.put(event)
        self._next = self._asked.get()
        return event

    def deliver(
        self, target: str, *, sender: str | None = None, message: str | None = None
    ) -> Event:
        """Deliver the oldest message to an actor that fits.

        Args:
            target: The path of the actor, or the end of it: ``store`` for ``/shop/store``.
            sender: Who sent it, likewise.
            message: The name of its type.

        Raises:
            NotPending: There is none, or the actor is busy.
        """
        __tracebackhide__ = True
        return self.take(self._find("deliver", target, sender, message))

    def reply(self, target: str, *, sender: str | None = None) -> Event:
        """Let the oldest answer that fits reach the actor that asked, ``target``.

        Raises:
            NotPending: There is none.
        """
        __tracebackhide__ = True
        return self.take(self._find("reply", target, sender, None))

    def commit(self, target: str) -> Event:
        """Let the oldest commit of an actor return.

        Raises:
            NotPending: It has none under way.
        """
        __tracebackhide__ = True
        return self.take(self._find("commit", target, None, None))

    def fire(self, target: str | None = None) -> Event:
        """Let the next timer fire: time passes up to it.

        Args:
            target: Whose it is; whoever's it is by default.

        Raises:
            NotPending: None is armed; or, unless the rules say ``time="anytime"``, something else
                has to happen first.
        """
        __tracebackhide__ = True
        return self.take(self._find("timer", target, None, None))

    def crash(self) -> Event:
        """Crash: all that is not in the journal is gone.

        Raises:
            NotPending: The scenario allows no crash (`Simulation.crash_points`), or none any more.
        """
        __tracebackhide__ = True
        return self.take(self._find("crash", None, None, None))

    @property
    def now(self) -> float:
        """Seconds of virtual time since the scenario began."""
        return 0.0 if self._simulation is None else self._simulation.now

    def advance(self, seconds: float) -> tuple[Event, ...]:
        """Let this much time pass: settle, and fire what is due meanwhile; return what happened.

        The clock stands at the last timer that fired: time in which nothing is due does not pass.

        Raises:
            OptionRefused: ``seconds`` is negative, or no number.
        """
        __tracebackhide__ = True
        if not isinstance(cast("object", seconds), int | float) or not seconds >= 0:
            raise OptionRefused(f"time goes forward: 0 seconds or more, not {seconds!r}")
        before, goal = len(self.steps), self.now + seconds
        self.settle()
        while self._is_due(goal):
            self.fire()
            self.settle()
        return self.steps[before:]

    def _is_due(self, goal: float) -> bool:
        if self._simulation is None or all(event.kind != "timer" for event in self.pending()):
            return False
        due = self._simulation.next_timer
        return due is not None and due <= goal

    def settle(self) -> tuple[Event, ...]:
        """Let everything but timers and crashes happen, in the ordinary order; return what did."""
        before = len(self.steps)
        while quick := [event for event in self.pending() if event.kind not in ("timer", "crash")]:
            self.take(quick[0])
        return self.steps[before:]

    def _find(self, kind: Kind, target: str | None, sender: str | None, what: str | None) -> Event:
        __tracebackhide__ = True
        for event in self.pending():
            if event.kind != kind or (what is not None and event.what != what):
                continue
            if _is_called(event.target, target) and _is_called(event.sender, sender):
                return event
        wanted = " ".join(
            part
            for part in (
                f"a {what or _NOUNS[kind]}",
                f"for `{target}`" if target else "",
                f"from {sender}" if sender else "",
            )
            if part
        )
        raise self._missing(wanted)

    def _missing(self, wanted: str) -> NotPending:
        found = tuple(map(str, self.pending()))
        if isinstance(self._next, _End):
            now = f"the schedule is over ({self._course.failure or self._next.error or 'all well'})"
        else:
            now = f"what can: {'; '.join(found)}"
        return NotPending(f"{wanted}: that cannot happen now; {now}", pending=found)

    # --- the end of the block ---------------------------------------------------------------------

    def abandon(self) -> None:
        """End the run where it is; nothing is checked."""
        self._told.put(None)
        self._thread.join()

    def end(self) -> None:
        """Let the rest take place; raise what failed, or what was raised in playing."""
        __tracebackhide__ = True
        while not isinstance(self._next, _End):
            self._goes_on = True
            self._told.put(None)
            self._next = self._asked.get()
        self._thread.join()
        error = self._next.error
        if isinstance(error, ScheduleError) and not isinstance(error, InvariantError):
            raise error.with_traceback(None)
        if error is not None:
            raise error
        if self._course.failure is None:
            return
        name = model_name(self._plan.scenario)
        rerun = f"explore({called(self._plan.scenario)}, token='{{token}}')"
        smallest = shrink(self._play, self._course, tries=self._plan.tries)
        failure = failure_of(smallest, name, rerun, "driven by hand, then shrunk")
        raise told(failure)


_NOUNS: Final = {
    "deliver": "message",
    "reply": "reply",
    "commit": "commit",
    "timer": "timer",
    "crash": "crash",
    "rest": "rest",
}


def _is_called(name: str, wanted: str | None) -> bool:
    return wanted is None or name == wanted or name.endswith(f"/{wanted}")

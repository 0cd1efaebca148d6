"""Plays schedules of a scenario on the real runtime, inside a real trio run.

Nothing goes on but what the driver lets: whenever every task waits, it asks the course which event
is next, and lets that happen. It does so between two steps of tasks: a task of its own would cost
each event another turn of trio's loop. While the scenario itself waits - in its set-up and in its
checks - and when the course has ended, the oldest event is next: so a system can always stop.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import final

import trio
from trio.abc import Instrument
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule
from trio.testing import MockClock

from ... import _trio
from ...errors import (
    Deadlock,
    InvariantError,
    NeverQuiesced,
    ScenarioRefused,
    ScheduleError,
)
from ._course import Course, Play
from ._engine import GatedParts
from ._event import Event, Footprint
from ._gate import OUTSIDE, Gate
from ._journal import Journal
from ._life import Life
from ._outside import Outside, Wait
from ._patience import TURNS, Patience
from ._shared import WatchedClock
from ._simulation import Options, Scenario, Simulation
from ._stillness import Stillness


def scenario_play(scenario: Scenario, options: Options | None = None) -> Play:
    """Return what plays one schedule of a scenario from scratch, as a course says.

    Args:
        scenario: An async function with one ``yield``. What it does before that is the set-up, in
            the ordinary order; then the schedule runs to rest; then the rest of it checks.
        options: How its system is opened.
    """
    chosen = options or Options()
    _trio.check_order()

    def play(course: Course) -> None:
        world = World(scenario, chosen, course)
        state, collects = random.getstate(), gc.isenabled()
        random.seed(0)  # what the code under test draws is the same in every schedule
        gc.disable()  # what it would finalize in a step depends on all that was made before
        try:
            with _trio.ordered():
                trio.run(world.main, clock=world.watched, instruments=world.instruments)
        except BaseExceptionGroup as exc:
            alone = _only(exc)
            raise alone from (None if alone is exc else alone.__cause__)
        finally:
            random.setstate(state)
            if collects:
                gc.enable()

    return play


@final
class World:
    """One play: the trio run, its main task and its driver."""

    def __init__(self, scenario: Scenario, options: Options, course: Course) -> None:
        self.clock = MockClock()
        self.gate = Gate(self.clock)
        self._outside = Outside(self.gate, self.clock)
        watching = self._outside if options.uncontrolled == "error" else None
        patience = Patience(self.gate, self._lose_patience)
        self.stillness = Stillness(self.gate, self._at_rest, watching, patience)
        self.gate.go_on = self.stillness.go_on
        self.instruments: list[Instrument] = [self.stillness]
        self.watched = WatchedClock(self.clock, self.gate.time_read)
        self._scenario = scenario
        self._options = options
        self._course = course
        self._journal = Journal(self.gate, late=options.late_verdicts)
        self._sim = Simulation(self.gate, self._journal)
        self._abort = trio.CancelScope()
        self._nursery: trio.Nursery
        self._life: Life
        self._explorer: Task | None = None  # the main task, while the schedule is played
        self._began = False
        self._is_stuck = False  # a step has no end
        self._is_over = False  # nothing is left to drive
        self._playing: Event | None = None  # its step is under way
        self._crashing: Event | None = None  # until the next life is up
        self._error: BaseException | None = None  # of the course: not of what is tested

    async def main(self) -> None:
        """Play the schedule."""
        self.gate.deadlines.hold()
        self._outside.watch()
        current_task().name = OUTSIDE
        self.gate.owners.name(current_task(), OUTSIDE)
        async with trio.open_nursery() as self._nursery:
            self._begin_life([])
            try:
                with self._abort:
                    await self._life.up.wait()
                    if self._life.error is None:
                        await self._scene()
            except BaseException as exc:
                self._caught(exc)
            if self._is_stuck or not isinstance(self._error, Exception | None):
                # Ctrl-C, say: it ends as in a crash, and waits for nobody who is at work
                self._life.crash()
                self._nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                self.gate.is_over = True
                self._life.end()
                await self._life.ended.wait()
            if self._life.error is not None:
                self._caught(self._life.error)
            self._is_over = True
        if self._error is not None:
            raise self._error

    def _begin_life(self, begin: Sequence[Callable[[Simulation], Awaitable[object]]]) -> None:
        parts = GatedParts(self.gate)
        life = Life(parts, self._journal.store(), self._options.for_system())
        self._life = self._sim.life = life
        self._sim.booted()
        with self.gate.owners.naming(OUTSIDE):
            self._nursery.start_soon(life.run, [partial(fn, self._sim) for fn in begin])

    def _caught(self, raised: BaseException) -> None:
        """Tell the course what came out of the scenario or its system."""
        error = _only(raised)
        if self._error is not None:
            return
        if isinstance(error, ScenarioRefused | InvariantError):
            self._error = error
        elif type(error).__name__ == "Failed" and not isinstance(error, Exception):  # pytest.fail
            self._course.fail(AssertionError(str(error)).with_traceback(error.__traceback__))
        elif not isinstance(error, Exception):
            self._error = error
        elif not self._course.is_cut:
            self._course.fail(error)

    async def _scene(self) -> None:
        try:
            async with asynccontextmanager(self._scenario)(self._sim):
                await self._explored()
                self._sim.is_played = True
        except RuntimeError as exc:
            if str(exc).startswith(("generator didn't yield", "generator didn't stop")):
                name = getattr(self._scenario, "__qualname__", "a scenario")
                raise ScenarioRefused(
                    f"{name} must yield once: what is before that is the set-up, what "
                    "is after it checks",
                ) from exc
            raise

    async def _explored(self) -> None:
        """Wait until the schedule is at its end."""
        self._explorer = current_task()

        def abort(_: RaiseCancelT) -> Abort:
            self._explorer = None
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    # --- driving ----------------------------------------------------------------------------------

    def _at_rest(self) -> bool:
        """Go on, since every task waits. Return False when that is for somebody else to do."""
        if self._is_over:
            return False
        try:
            called = self._outside.called()
            if called is not None:
                self._refuse(called)
                return True
            if not self._comes_to_rest():
                return False
            if self._crashing is not None:
                self._reboot(self._crashing)
            else:
                self._once()
        except BaseException as exc:
            self._error = self._error or exc
            self.gate.rest()
            self._playing = self._crashing = None
            self._end(cut=True)
        return True

    def _comes_to_rest(self) -> bool:
        """Let that happen which is no event; return False while something comes by itself."""
        if _trio.has_callbacks() or self.gate.settle():
            return False
        wait = self._outside.look()
        if wait is None or self._lets_be(wait):
            return True
        if self._options.uncontrolled == "error" and not wait.is_controlled:
            self._refuse(wait.error())
        return False

    def _lets_be(self, wait: Wait) -> bool:
        """Tell whether to go on while something outside is waited for."""
        if wait.is_controlled:
            return False
        if self._options.uncontrolled == "allow":
            return True
        if not (self._abort.cancel_called or self.gate.is_over):
            return False
        # what ends a system cuts a wait for a socket, and has to wait for a thread
        return not wait.is_thread or self.gate.is_quick()

    def _lose_patience(self) -> None:
        """Fail a schedule with a step that has no end, and cancel all that runs."""
        where = f"after {self.gate.last}" if self._playing is not None else "in the scenario itself"
        why = (
            f"a step does not end: {where} something still runs after {TURNS} turns of trio's "
            "loop. Await something else than a checkpoint in what polls"
        )
        self._refuse(NeverQuiesced(why, steps=len(self._course.trace.steps)))
        self._is_stuck = True

    def _refuse(self, error: ScheduleError) -> None:
        """Fail a schedule that nothing can go on with; what follows waits for what it must."""
        if self._course.failure is None and not self._course.is_cut:
            if self._playing is not None:
                self._course.done(self._playing, self.gate.footprint())
                self._playing = None
            self._course.fail(error)
        self._end(cut=True)

    def _once(self) -> None:
        course, gate = self._course, self.gate
        if self._playing is not None:
            course.done(self._playing, gate.footprint())
            self._playing = None
        if self._explorer is None or self._life.is_leaving:
            gate.rest()
            if self._explorer is not None and self._life.ended.is_set():
                self._end(cut=self._life.error is not None)
            else:
                self._go_on()
            return
        if not self._began:
            self._began = True
            self._sim.require_own_names()
            gate.born()
            course.born(gate.pending())
            gate.rest()
        must = self._sim.must_crash()
        offered = [] if must else gate.enabled()
        if must or gate.life < self._sim.budget:
            offered.append(Event("crash", "journal", sequence=gate.life + 1, life=gate.life))
        event = course.next(offered, must=must)
        if event is None:
            gate.rest()
            if not course.is_cut and course.failure is None:
                course.finish(gate.waits())
            self._end(cut=course.is_cut or course.failure is not None)
        elif event.kind == "crash":
            self._crash(event)
        else:
            self._playing = event
            gate.begin(event)

    def _end(self, *, cut: bool) -> None:
        """Let the main task go on: to the checks, or out."""
        explorer, self._explorer = self._explorer, None
        if cut:
            self._abort.cancel()
        elif explorer is not None:
            reschedule(explorer)

    def _go_on(self) -> None:
        """Let the oldest event take place: what the scenario waits for, or the end of it all."""
        gate = self.gate
        gate.born()
        event = gate.oldest()
        if event is not None:
            gate.begin(event)
            gate.rest()
            return
        waits = gate.waits()
        if self._abort.cancel_called:
            self._break_off(f"a system in a schedule does not stop; still waiting: {waits}")
        self._course.finish(waits)
        if self._course.failure is None:
            why = "the scenario waits for what will never come, outside of any actor"
            self._course.fail(Deadlock(why, waits=()))
        self._abort.cancel()

    def _break_off(self, why: str) -> None:
        """End the run of trio without any order: the last resort, against a wait for ever."""
        error = InvariantError(why)
        self._is_over = True

        def end() -> None:
            raise error

        trio.lowlevel.current_trio_token().run_sync_soon(end)

    # --- crashes ----------------------------------------------------------------------------------

    def _crash(self, event: Event) -> None:
        """Take away all that is not in the journal. What ends now is no part of the schedule."""
        self._crashing = event
        self.gate.rest()
        self._journal.crash()
        self._life.crash()

    def _reboot(self, crash: Event) -> None:
        """Wait for the end of the old life, then for the start of the new one."""
        gate, life = self.gate, self._life
        if gate.life == crash.life:
            if not life.ended.is_set():
                self._go_on()
                return
            gate.next_life()
            if self._explorer is not None:
                self._begin_life(self._sim.boots)
        elif not life.up.is_set():
            self._go_on()
        else:
            self._crashing = None
            self._sim.require_own_names()
            gate.born()
            self._course.done(crash, Footprint(creates=tuple(gate.pending())))
            gate.rest()


def _only(error: BaseException) -> BaseException:
    """Return what is alone in a group, or alone in that."""
    exceptions: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return _only(exceptions[0]) if len(exceptions) == 1 else error

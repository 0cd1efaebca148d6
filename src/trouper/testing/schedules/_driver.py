"""Plays schedules of a scenario on the real runtime, inside a real trio run.

Nothing goes on but what the driver lets: it waits until every task waits, asks the course which
event is next, and lets that happen. While the scenario itself waits - in its set-up and its checks
- and when the course has ended, the oldest event is next: so a system can always stop.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import Final, final

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule
from trio.testing import MockClock

from ... import _trio
from ...actors._open import open_staged
from ...errors import Deadlock, InvariantError, ScenarioRefused
from ._course import Course, Play
from ._engine import GatedParts
from ._event import Event
from ._gate import OUTSIDE, Gate
from ._journal import Journal
from ._simulation import Options, Scenario, Simulation
from ._stillness import Stillness

NAME: Final = "sim"


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
        state = random.getstate()
        random.seed(0)  # what the code under test draws is the same in every schedule
        try:
            with _trio.ordered():
                trio.run(world.main, clock=world.clock, instruments=[world.stillness])
        finally:
            random.setstate(state)

    return play


@final
class World:
    """One play: the trio run, its main task and its driver."""

    def __init__(self, scenario: Scenario, options: Options, course: Course) -> None:
        self.clock = MockClock()
        self.gate = Gate(self.clock)
        self.stillness = Stillness(self.gate)
        self._scenario = scenario
        self._options = options
        self._course = course
        self._journal = Journal(self.gate)
        self._sim = Simulation(self.gate, self._journal)
        self._abort = trio.CancelScope()
        self._explorer: Task | None = None  # the main task, while the schedule is played
        self._error: BaseException | None = None  # of the course: not of what is tested

    async def main(self) -> None:
        """Play the schedule."""
        self.gate.deadlines.hold()
        self.gate.owners.name(current_task(), OUTSIDE)
        async with trio.open_nursery() as nursery:
            with self.gate.owners.naming(None):
                nursery.start_soon(self._drive, name="schedule driver")
            try:
                await self._live()
            except BaseException as exc:
                self._caught(exc)
            nursery.cancel_scope.cancel()
        if self._error is not None:
            raise self._error

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

    async def _live(self) -> None:
        options = self._options.for_system()
        parts, store = GatedParts(self.gate), self._journal.store()
        async with open_staged(parts, NAME, store=store, **options) as system:
            with self._abort:
                async with trio.open_nursery() as clients:
                    self._sim.enter(system, clients)
                    try:
                        await self._scene()
                    finally:
                        self.gate.is_over = True

    async def _scene(self) -> None:
        try:
            async with asynccontextmanager(self._scenario)(self._sim):
                await self._explored()
        except RuntimeError as exc:
            if str(exc).startswith(("generator didn't yield", "generator didn't stop")):
                raise ScenarioRefused(
                    f"{self._scenario!r} must yield once: what is before that is the set-up, what "
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

    async def _drive(self) -> None:
        playing: Event | None = None
        began = False
        while True:
            await self._rest()
            try:
                if self._explorer is None and playing is None:
                    self._go_on()
                    continue
                if playing is not None:
                    self._course.done(playing, self.gate.footprint())
                    playing = None
                elif not began:
                    self.gate.born()
                    self._course.born(self.gate.pending())
                    began = True
                self.gate.rest()
                if self._explorer is None:
                    continue  # the system has failed, or a client: it ends
                playing = self._next()
            except BaseException as exc:
                self._error = self._error or exc
                playing = None
                self._end(cut=True)

    def _next(self) -> Event | None:
        course, gate = self._course, self.gate
        event = course.next(gate.enabled())
        if event is not None:
            gate.begin(event)
            return event
        if not course.is_cut and course.failure is None:
            course.finish(gate.waits())
        self._end(cut=course.is_cut or course.failure is not None)
        return None

    def _end(self, *, cut: bool) -> None:
        """Let the main task go on: to the checks, or out."""
        explorer, self._explorer = self._explorer, None
        if cut:
            self._abort.cancel()
        if explorer is not None and not cut:
            reschedule(explorer)

    def _go_on(self) -> None:
        """Let the oldest event take place: what the scenario waits for, or the end of it all."""
        gate = self.gate
        gate.born()
        event = gate.oldest()
        if event is not None:
            gate.begin(event)
            gate.step = type(gate.step)(None)
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

        def end() -> None:
            raise error

        trio.lowlevel.current_trio_token().run_sync_soon(end)

    async def _rest(self) -> None:
        """Wait until everything that the last event set off has come to rest."""
        while True:
            await self.stillness.come()
            if trio.lowlevel.current_statistics().run_sync_soon_queue_size:
                await trio.lowlevel.checkpoint()
            elif not self.gate.settle():
                return


def _only(error: BaseException) -> BaseException:
    """Return what is alone in a group, or alone in that."""
    exceptions: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return _only(exceptions[0]) if len(exceptions) == 1 else error

"""Knows when every task waits, by trio's public instruments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import trio
from trio.lowlevel import Task, add_instrument

if TYPE_CHECKING:
    from ._gate import Gate
    from ._outside import Outside
    from ._patience import Patience

LONG: Final = 1_000  # steps of tasks in one step of a schedule: few have so many


@final
class Stillness(trio.abc.Instrument):
    """Calls ``at_rest`` when no task can run: so trio never has two steps to choose from.

    It is called between two steps of tasks, and called again as long as it lets nothing run and
    returns True. False: something comes by itself, a thread for one. It must not raise.

    It is the only instrument while all is well, since trio pays for each in every step of a task.

    Args:
        at_rest: See above.
        outside: Is asked first, after each step: it sees a call before the rest that follows.
        patience: Becomes an instrument when a step of the schedule is a long one.
    """

    def __init__(
        self, gate: Gate, at_rest: Callable[[], bool], outside: Outside | None, patience: Patience
    ) -> None:
        self._gate = gate
        self._at_rest = at_rest
        self._outside = outside
        self._patience = patience
        self._runnable = 0
        self._number = -1  # of the step under way
        self._steps = 0  # of tasks, in that

    def task_spawned(self, task: Task) -> None:
        """See `trio.abc.Instrument`."""
        self._gate.owners.spawned(task)

    def task_exited(self, task: Task) -> None:
        """See `trio.abc.Instrument`."""
        self._gate.owners.exited(task)

    def task_scheduled(self, task: Task) -> None:
        """See `trio.abc.Instrument`."""
        self._runnable += 1

    def before_task_step(self, task: Task) -> None:
        """See `trio.abc.Instrument`."""
        self._runnable -= 1
        gate = self._gate
        gate.stepped(task)
        if gate.number != self._number:
            self._number, self._steps = gate.number, 0
        self._steps += 1
        if self._steps == LONG:
            add_instrument(self._patience)  # once more is as good as once

    def after_task_step(self, task: Task) -> None:
        """See `trio.abc.Instrument`."""
        if self._outside is not None:
            self._outside.stepped(task)
        if not self._runnable:
            self._gate.is_switched = True
            self.go_on()

    def go_on(self) -> None:
        """Drive until a task can run, or until there is something for the worker that asks."""
        gate = self._gate
        gate.is_driven, gate.is_served = True, False
        while not (self._runnable or gate.is_served) and self._at_rest():
            pass
        gate.is_driven = False

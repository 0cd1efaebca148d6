"""Knows when every task waits, by trio's public instruments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

import trio
from trio.lowlevel import Task

if TYPE_CHECKING:
    from ._gate import Gate


@final
class Stillness(trio.abc.Instrument):
    """Calls ``at_rest`` when no task can run: so trio never has two steps to choose from.

    It is called between two steps of tasks, and called again as long as it lets nothing run and
    returns True. False: something comes by itself, a thread for one. It must not raise.
    """

    def __init__(self, gate: Gate, at_rest: Callable[[], bool]) -> None:
        self._gate = gate
        self._at_rest = at_rest
        self._runnable = 0

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
        self._gate.stepped(task)

    def after_task_step(self, task: Task) -> None:
        """See `trio.abc.Instrument`."""
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

"""Knows when every task waits, by trio's public instruments."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule

if TYPE_CHECKING:
    from ._gate import Gate


@final
class Stillness(trio.abc.Instrument):
    """Wakes the driver when no task can run: so trio never has two steps to choose from."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._runnable = 0
        self._driver: Task | None = None
        self._patient = False

    async def come(self, *, patient: bool = False) -> None:
        """Wait until every other task waits; ``patient``: and one has run before that."""
        self._driver, self._patient = current_task(), patient

        def abort(_: RaiseCancelT) -> Abort:
            self._driver = None
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

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
        driver = self._driver
        if driver is not None and not (self._runnable or (self._patient and task is driver)):
            self._driver = None
            reschedule(driver)

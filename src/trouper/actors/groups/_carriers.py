"""Tasks that carry one attempt after the other.

To make a task, and to end it, costs more than many an effect does, and it would stand between a
flush and the effect behind it. A task that has carried an attempt therefore waits for the next one,
which finds in it a context of its own, and nothing that is open. It is the same task nevertheless:
what the last one noted by `current_task`, or borrowed of a `trio.CapacityLimiter` and did not give
back, is found too (docs/how-to/durable-work.md says so).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Final, Protocol, TypeAlias, final

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, enable_ki_protection, reschedule

from ..._trio import WOKEN, Trap, cancel_status_of, holds_lock, wait_in

SPARE: Final = 64
"""So many tasks wait for work at most; more of them end. A group of 50 finds its tasks here."""

WAITING: Final = "trouper attempts"

Job: TypeAlias = tuple[Callable[..., Awaitable[Any]], tuple[Any, ...]]


class Tasks(Protocol):
    """Where tasks are started: a nursery, or what decides when they begin."""

    def start_soon(
        self, fn: Callable[..., Awaitable[Any]], /, *args: Any, name: object = None
    ) -> object:
        """Let a task begin."""
        ...


@final
class _Carrier:
    __slots__ = ("_idle", "_waiting", "job", "task")

    task: Task

    def __init__(self, job: Job, waiting: list[_Carrier]) -> None:
        self.job: Job | None = job
        self._waiting = waiting
        self._idle: Trap | None = None

    async def wait(self) -> None:
        """Wait for the next job; without one it is over."""
        if self._idle is None:
            self._idle = Trap(self._leave)
        self._waiting.append(self)
        await wait_in(self._idle)

    def _leave(self, _: RaiseCancelT) -> Abort:
        self._waiting.remove(self)  # at once: it must not be woken a second time
        return Abort.SUCCEEDED


@final
class Carriers:
    """Starts tasks, or has those that wait go on.

    Args:
        tasks: Where to start them. Only those of a nursery wait: what decides when a task begins
            has to see each of them.
        context: What each job begins in a copy of.
    """

    def __init__(self, tasks: Tasks, context: Context) -> None:
        self._tasks = tasks
        self._context = context
        self._keeps = isinstance(tasks, trio.Nursery)
        self._waiting: list[_Carrier] = []

    def start(self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str) -> None:
        """Let ``await fn(*args)`` begin in a task; it must not raise but to end with its task."""
        if not self._waiting:
            carrier = _Carrier((fn, args), self._waiting)
            self._context.run(lambda: self._tasks.start_soon(self._carry, carrier, name=name))
            return
        carrier = self._waiting.pop()
        carrier.job = fn, args
        carrier.task.context = self._context.copy()
        carrier.task.name = name
        reschedule(carrier.task, WOKEN)

    def close(self) -> None:
        """Let those end that wait, and none wait any more."""
        self._keeps = False
        while self._waiting:
            reschedule(self._waiting.pop().task, WOKEN)

    @enable_ki_protection
    async def _carry(self, carrier: _Carrier) -> None:
        task = carrier.task = current_task()
        status = cancel_status_of(task)
        while carrier.job is not None:
            fn, args = carrier.job
            carrier.job = None
            await fn(*args)
            del fn, args  # what they hold shall not live as long as this task
            # The end of a task breaks the locks it did not release; going on, it would keep them.
            is_clean = (
                cancel_status_of(task) is status
                and not task.child_nurseries
                and not holds_lock(task)
            )
            if not (self._keeps and is_clean and len(self._waiting) < SPARE):
                return
            task.name = WAITING
            task.context = self._context  # no longer the one in which the job set variables
            await carrier.wait()

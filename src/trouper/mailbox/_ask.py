"""The envelope of a request. It is the reply slot as well: one object per ask, none per tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule, wait_task_rescheduled

from .._trio import WOKEN, Trap

if TYPE_CHECKING:
    from ._worker import Worker


class Ask:
    """One request on its way, and the place where its answer arrives.

    ``done`` is set once, by whoever comes first: the handler, a stop, the safety net or the asker
    that went away. A request that is done before its turn began is skipped; an answer that comes
    after it is dropped. At most one task waits on it.
    """

    __slots__ = ("asker", "done", "error", "message", "target", "task", "value")

    def __init__(self, message: Any, asker: Any = None, target: Any = None) -> None:
        self.message = message
        self.asker = asker  # the mailbox whose turn structurally waits, or None
        self.target = target  # whom the safety net names, while it is under one
        self.task: Task | None = None
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def settle(self, value: Any) -> bool:
        """Answer with a value. Return False when the request was over already."""
        if self.done:
            return False
        self.done = True
        self.value = value
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task, WOKEN)
        return True

    def fail(self, error: BaseException) -> bool:
        """Answer with an error. Return False when the request was over already."""
        if self.done:
            return False
        self.error = error
        return self.settle(None)

    async def wait(self) -> Any:
        """Wait for the answer. The caller's cancellation ends the request, not the handler.

        Raises:
            BaseException: Whatever `fail` was given; the same object may reach several askers.
        """
        if not self.done:
            self.task = current_task()
            await wait_task_rescheduled(self.abandon)
        if self.error is not None:
            raise self.error
        return self.value

    def give_up(self) -> None:
        """End the request because its asker went away."""
        self.task = None
        self.done = True

    def abandon(self, _: RaiseCancelT) -> Abort:
        """End the request because its asker was cancelled; trio's abort function."""
        self.give_up()
        return Abort.SUCCEEDED


def message_of(entry: Any) -> Any:
    """Return the message of an entry of a user lane: it, or what a request carries."""
    return entry.message if entry.__class__ is Ask else entry


class _Waiting:
    """The request a task waits for now; apart from `Asker`, whose trap would make it a cycle."""

    __slots__ = ("ask",)

    ask: Ask | None

    def abandon(self, cancel: RaiseCancelT) -> Abort:
        """End the request because its asker was cancelled; trio's abort function."""
        assert self.ask is not None
        return self.ask.abandon(cancel)


class Asker:
    """What stays the same for all requests of a task: the worker it descends from, and its trap."""

    __slots__ = ("trap", "waiting", "worker")

    def __init__(self, worker: Worker | None) -> None:
        self.worker = worker
        self.waiting = _Waiting()
        self.trap = Trap(self.waiting.abandon)

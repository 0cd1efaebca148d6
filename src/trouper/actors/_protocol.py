"""Actors written as one coroutine that reads its inbox.

Such an actor has one task for its life, unlike one with handlers: a coroutine may hold cancel
scopes and nurseries open from one `receive` to the next. To the rest of the runtime the whole run
of the coroutine is one turn, and the task stands for the worker that carries it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

import trio
from trio.lowlevel import Task, current_task, disable_ki_protection, enable_ki_protection

from ..errors import ActorStopped, InboxClosed
from ..mailbox import DRAINING, RUNNING, Control, Dispatcher, run_control
from ..supervision import Exit, unwrap
from ._handlers import Behaviour
from ._lifecycle import request_stop

if TYPE_CHECKING:
    from ._context import Context
    from ._inbox import Inbox
    from ._local import LocalRef


async def _no_turn(target: Any, message: Any) -> None:
    """Stand in the table: no worker ever runs a turn of a protocol."""


@final
class ProtocolActor:
    """What stands behind the ref: the coroutine of one life."""

    __slots__ = ("args", "fn")

    # It takes every message; which it wants is said by each `receive`.
    __behaviour__: ClassVar[Behaviour] = Behaviour(
        {object: (True, False, _no_turn), Control: (True, False, run_control)},
        has_started=True,
        has_stopping=False,
        wants_context=True,
    )

    def __init__(self, fn: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
        self.fn = fn
        self.args = args

    async def started(self, ctx: Context[Any]) -> None:
        """Begin: the coroutine has its first step once the actor is up."""
        ref = cast("LocalRef", ctx.self_ref)
        mine = ref.need_belongings()
        if mine.inbox is None:
            mine.inbox = ref.inbox_type(ref)
            ref.dispatcher = cast("Dispatcher", Door(ref.dispatcher, mine.inbox))
        run = ProtocolTask(ref, mine.inbox, self.fn(ctx, *self.args))
        ref.worker = cast(Any, run)
        ref.system.dispatcher.nursery.start_soon(run.main, name=ref.path)


@final
class Protocol:
    """Makes the actor of a coroutine function, as a class makes one of handlers."""

    def __init__(self, fn: Callable[..., Coroutine[Any, Any, None]], redeliver: int) -> None:
        if redeliver:
            raise ValueError(
                "redeliver= is for handlers; a protocol itself knows what it had taken"
            )
        self.fn = fn
        plain = inspect.unwrap(_inner(fn))
        self.__name__: str = plain.__name__
        self.__qualname__: str = plain.__qualname__
        if inspect.isfunction(plain):
            disable_ki_protection(plain)  # as with handlers

    def __call__(self, *args: Any) -> ProtocolActor:
        return ProtocolActor(self.fn, args)


def is_protocol(make: Callable[..., Any]) -> bool:
    """Whether this is the second form of an actor."""
    return inspect.iscoroutinefunction(_inner(make))


def _inner(make: Any) -> Any:
    while isinstance(make, functools.partial):
        make = make.func
    return make


@final
class Door:
    """The dispatcher as the mailbox of a protocol sees it.

    What a mailbox does when mail comes is to list itself on `ready`. Here that wakes the protocol,
    so that senders need no test for the second form.
    """

    __slots__ = ("_dispatcher", "_inbox", "parked", "ready")

    def __init__(self, dispatcher: Dispatcher, inbox: Inbox[Any]) -> None:
        self._dispatcher = dispatcher
        self._inbox = inbox
        self.ready = self
        self.parked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    @property
    def credit(self) -> int:
        return self._dispatcher.credit

    @credit.setter
    def credit(self, value: int) -> None:
        self._dispatcher.credit = value

    def append(self, item: Any) -> None:
        self._inbox.wake()

    def dismiss(self) -> None:
        """Nothing is left to do when the actor has ended: its task has."""


@final
class ProtocolTask:
    """One life of a protocol. Never raises into the nursery."""

    __slots__ = ("_coro", "_inbox", "_ref", "dispatcher", "running", "scope", "task")

    task: Task

    def __init__(self, ref: LocalRef, inbox: Inbox[Any], coro: Coroutine[Any, Any, None]) -> None:
        self._ref = ref
        self._inbox = inbox
        self._coro = coro
        self.dispatcher = ref.dispatcher
        self.running: LocalRef | None = ref
        self.scope = trio.CancelScope(shield=True)

    def burn(self) -> None:
        """Cut it; only the runtime does."""
        self.scope.cancel()

    @enable_ki_protection
    async def main(self) -> None:
        """Run the coroutine to its end and account for that."""
        ref, workers = self._ref, self._ref.system.dispatcher.workers
        self.task = current_task()
        error: BaseException | None = None
        if ref.state > DRAINING or ref.doomed is not None:
            self._coro.close()  # stopped before its first step
        else:
            workers[self.task] = cast(Any, self)
            ref.scope = self.scope
            try:
                with self.scope:
                    await self._coro
            except BaseException as exc:
                error = exc
        ref.worker = ref.scope = None
        ref.queued = True
        try:
            self._account(error)
        finally:
            workers.pop(self.task, None)
            self.running = None
            ref.pass_over()

    def _account(self, error: BaseException | None) -> None:
        ref = self._ref
        real = None if error is None else _real(error)
        self._inbox.settle(real if ref.doomed is None else None)
        if ref.doomed is not None:
            ref.turn_killed(None, None if real is None else unwrap(real))
        elif real is not None:
            ref.turn_failed(None, real)
        elif ref.state == RUNNING and ref.options.restart == "permanent":
            ref.turn_failed(None, ActorStopped(f"{ref.path} returned, and is permanent"))
        elif ref.state == RUNNING:
            request_stop(ref, "stop", Exit("finished"))
        if ref.state == DRAINING:
            ref.close("was left in the inbox")


def _real(error: BaseException) -> BaseException | None:
    """Return the error without `InboxClosed`, which is how a protocol is told to end."""
    if isinstance(error, InboxClosed):
        return None
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(InboxClosed)[1]
    return error

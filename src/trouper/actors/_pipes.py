"""Work beside an actor's turns, whose result comes back as a message."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, final

import trio
from trio.lowlevel import Task, current_task, enable_ki_protection, reschedule

from ..errors import PipesFull
from ..mailbox import Owed, order
from ..supervision import unwrap
from ._callables import require_function, require_plain

if TYPE_CHECKING:
    from ._local import LocalRef

log = logging.getLogger("trouper.actors")


@final
class Pipe:
    """One piece of such work. It ends before its actor does, and no failure of it gets lost.

    It runs under a shielded scope of its own: only its actor's crash, restart or stop cancels it.
    """

    __slots__ = ("_failed", "_fn", "_is_cut", "_ref", "_scope", "_task", "_to")

    def __init__(
        self,
        ref: LocalRef,
        fn: Callable[[], Awaitable[Any]],
        to: Callable[[Any], Any],
        failed: Callable[[Exception], Any] | None,
    ) -> None:
        self._ref = ref
        self._fn = fn
        self._to = to
        self._failed = failed
        self._is_cut = False
        self._scope = trio.CancelScope(shield=True)
        self._task: Task | None = None

    def cancel(self) -> None:
        """End it; what it yields from now on is dropped."""
        self._is_cut = True
        self._scope.cancel()

    def frames(self) -> Iterable[tuple[FrameType, int]]:
        """Yield where it stands now, for the log."""
        return self._task.iter_await_frames() if self._task is not None else ()

    @enable_ki_protection
    async def main(self) -> None:
        """Run the work and hand its result over. Never raises into the nursery."""
        self._task = current_task()
        error: BaseException | None = None
        message: Any = None
        try:
            with self._scope:
                message = self._to(await _awaitable(self._fn()))
                if not self._is_cut:
                    self._ref.find(message)
        except BaseException as exc:
            error = unwrap(exc) if self._is_cut else (unwrap(exc) or exc)
        try:
            if self._is_cut:
                self._log_leftover(error)
            elif error is None:
                order(self._ref, Owed(self._ref.parcel("pipe", message)))
            else:
                self._fall(error)
        finally:
            self._leave()

    def _fall(self, error: BaseException) -> None:
        """Turn a failure into the declared message, or into the actor's own crash."""
        ref = self._ref
        if not isinstance(error, Exception):
            if isinstance(error, trio.Cancelled):
                ref.fail(RuntimeError(f"{ref.path}: a pipe that was not cancelled let it out"))
            else:
                ref.system.fail(error)
            return
        if self._failed is None:
            ref.fail(error)
            return
        try:
            message = self._failed(error)
            ref.find(message)
        except Exception as exc:
            exc.__cause__ = error
            ref.fail(exc)
        else:
            order(ref, Owed(ref.parcel("pipe", message)))

    def _log_leftover(self, error: BaseException | None) -> None:
        if error is not None:
            log.error("%s: a pipe failed while it was cut", self._ref.path, exc_info=error)
            if not isinstance(error, Exception):
                self._ref.system.fail(error)

    def _leave(self) -> None:
        mine = self._ref.need_belongings()
        mine.pipes.pop(self, None)
        if not mine.pipes:
            for task in mine.pipe_waiters:
                reschedule(task)
            mine.pipe_waiters.clear()


def _awaitable(work: Any) -> Awaitable[Any]:
    if not inspect.isawaitable(work):
        raise TypeError(
            f"ctx.pipe awaits what its function returns, not {type(work).__qualname__}: take an "
            "async def, or trio.to_thread.run_sync for a plain function that blocks"
        )
    return work


def start_pipe(
    ref: LocalRef,
    fn: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    to: Callable[[Any], Any],
    failed: Callable[[Exception], Any] | None,
) -> None:
    """Start a piece of work for an actor."""
    require_function("ctx.pipe", fn)
    require_plain("to= of ctx.pipe", to)
    if failed is not None:
        require_plain("failed= of ctx.pipe", failed)
    if ref.starts_nothing:
        return  # it would be cut by the end of this very turn
    pipes = ref.need_belongings().pipes
    if len(pipes) >= ref.capacity:
        raise PipesFull(
            f"{ref.path} has {len(pipes)} pipes running; let some end, or give it a larger "
            "mailbox=",
            target=ref.path,
            capacity=ref.capacity,
        )
    pipe = Pipe(ref, partial(fn, *args), to, failed)
    pipes[pipe] = None
    ref.dispatcher.nursery.start_soon(pipe.main, name=f"{ref.path} pipe")

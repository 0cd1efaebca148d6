"""What stands between trio and the coroutine of a worker: it sees when a handler blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import CodeType, CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

from trio.lowlevel import enable_ki_protection

if TYPE_CHECKING:
    from ._worker import Worker


class Drive:
    """The coroutine of a worker's task: steps that of the worker, and sees every yield of it.

    A class with what a coroutine has, which trio takes as it takes Cython's: task dumps and locks
    look through it at the worker's own coroutine. While the worker carries a blocked handler there
    is nothing to be seen, and ``send`` is that coroutine's own: trio asks for it each time it wakes
    the task, and the handler pays for no frame of ours.
    """

    __slots__ = ("_coro", "_worker", "send")

    send: Callable[[Any], Any]

    def __init__(self, worker: Worker, coro: CoroutineType[Any, Any, None]) -> None:
        self._worker = worker
        self._coro = coro
        self.watch()

    def watch(self) -> None:
        """See every yield, from the next time that the task is woken."""
        self.send = self._send

    def release(self) -> None:
        """Let go of a worker that ends; nothing refers to it in a circle then."""
        self.send = self._coro.send
        del self._worker

    @enable_ki_protection
    def _send(self, value: Any) -> Any:
        yielded = self._coro.send(value)
        worker = self._worker
        if worker.owner and worker.running is not None:
            self._blocked(worker)
        return yielded

    @enable_ki_protection
    def throw(self, *error: Any) -> Any:
        """Throw into the worker: trio does that to a task that awaits something foreign."""
        yielded = self._coro.throw(*error)
        worker = self._worker
        if worker.owner and worker.running is not None:
            self._blocked(worker)
        return yielded

    def close(self) -> None:
        """Close the worker's coroutine."""
        self._coro.close()

    def _blocked(self, worker: Worker) -> None:
        """Note that the running handler blocks: this worker carries it, another drains `ready`."""
        running = worker.running
        assert running is not None
        worker.owner = False
        self.send = self._coro.send
        running.scope = worker.scope
        running.hold_up()
        worker.task.name = running.path
        if running.doomed is not None:  # killed before it blocked: delivered at this yield
            worker.burn()
        worker.dispatcher.hand_over()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("the coroutine of a worker is run as a task")

    @property
    def cr_frame(self) -> FrameType | None:
        return self._coro.cr_frame

    @property
    def cr_await(self) -> Any:
        return self._coro.cr_await

    @property
    def cr_running(self) -> bool:
        return self._coro.cr_running

    @property
    def cr_suspended(self) -> bool:
        return self._coro.cr_suspended

    @property
    def cr_code(self) -> CodeType:
        return self._coro.cr_code

"""The hot path: a worker takes what is ready and plainly calls or awaits its handlers.

One worker at a time owns `ready`. A small driver steps the worker's own coroutine: when a handler
really blocks, this worker stays behind as that mailbox's *carrier* and another one takes over the
queue. A handler that never blocks costs no task switch, and no cancel scope per message is needed:
each worker enters one shielded scope at its start, which is bound to a mailbox at the moment its
handler blocks. Only the runtime cancels it (derisk R1), through `Mailbox.doom`.
"""

from __future__ import annotations

from collections.abc import Generator
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any, Final, cast

import trio
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    checkpoint,
    current_task,
    enable_ki_protection,
)

from .._trio import Trap, cancel_status_of, wait_in
from ..errors import ScopeLeak
from ._age import note_depth, note_turns
from ._ask import Ask
from ._jobs import Job
from ._room import move_in
from ._states import DRAINING, JOB, STEPPER

if TYPE_CHECKING:
    from ._dispatcher import Dispatcher
    from ._mailbox import Mailbox

IDLE_NAME = "trouper worker"
# The clock is read once per so many handler steps; every step once handlers turn out slow.
CLOCK_STEPS = 16


class Drive:
    """Awaitable that steps a worker's loop and sees every yield of it.

    A class, not a generator: with ``cr_frame`` and ``cr_await`` trio's task dumps go on through it
    into the handler's frames. ``throw`` and ``close`` are forwarded, since trio throws into a task
    that awaits something foreign.
    """

    __slots__ = ("_coro", "_send", "_worker")

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._coro: CoroutineType[Any, Any, None] = cast(Any, worker.loop())
        self._send = self._coro.send

    @property
    def cr_frame(self) -> FrameType | None:
        return self._coro.cr_frame

    @property
    def cr_await(self) -> Any:
        return self._coro.cr_await

    def __await__(self) -> Generator[Any, Any, None]:
        return self

    def __iter__(self) -> Drive:
        return self

    @enable_ki_protection
    def __next__(self) -> Any:
        return self.send(None)

    @enable_ki_protection
    def send(self, value: Any) -> Any:
        yielded = self._send(value)
        if self._worker.owner and self._worker.running is not None:
            self._blocked()
        return yielded

    @enable_ki_protection
    def throw(self, *error: Any) -> Any:
        yielded = self._coro.throw(*error)
        if self._worker.owner and self._worker.running is not None:
            self._blocked()
        return yielded

    def close(self) -> None:
        self._coro.close()

    def _blocked(self) -> None:
        """Note that the running handler blocks: this worker carries it, another drains `ready`."""
        worker = self._worker
        running = worker.running
        assert running is not None
        worker.owner = False
        running.scope = worker.scope
        running.hold_up()
        worker.task.name = running.path
        if running.doomed is not None:  # killed before it blocked: delivered at this yield
            worker.burn()
        worker.dispatcher.hand_over()


class Worker:
    """One task of the pool. Never raises into the nursery (derisk R8)."""

    __slots__ = (
        "ask",
        "burnt",
        "dispatcher",
        "leaked",
        "owner",
        "running",
        "scope",
        "status",
        "task",
    )

    task: Task
    scope: trio.CancelScope
    status: object

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.owner = False  # drains `ready`; False while it carries a blocked handler, or waits
        self.running: Mailbox | Job | None = None
        self.ask: Ask | None = None  # the last request begun; settled if this worker dies
        self.burnt = False  # the leased scope was cancelled: nothing more may run in it
        self.leaked = False  # a handler left a scope open in this task

    def burn(self) -> None:
        """Cancel the leased scope. This worker ends with the turn it carries (derisk R6)."""
        self.burnt = True
        self.scope.cancel()

    @enable_ki_protection
    async def main(self) -> None:
        """Live: lease a scope, run the loop, and report to the dispatcher how it ended."""
        self.task = current_task()
        self.dispatcher.workers[self.task] = self
        error: BaseException | None = None
        try:
            with trio.CancelScope(shield=True) as self.scope:
                self.status = cancel_status_of(self.task)
                await Drive(self)
        except BaseException as exc:  # a bug of the runtime, or a scope that a handler left open
            error = exc
        self.dispatcher.worker_ended(self, error)

    @enable_ki_protection
    async def loop(self) -> None:
        """Drain `ready`, wait, and again; end when the scope is spent or the dispatcher closes."""
        d = self.dispatcher
        while not d.closed:
            d.coming -= 1
            if not d.owned:  # else another one that was called as well still drains
                d.owned = self.owner = True
                while self.owner:
                    if not await self.drain():
                        return
                    self.running = self.ask = None
                    if not self.owner:  # it carried a handler; now nobody may have `ready`
                        self.task.name = IDLE_NAME
                        if d.parked and d.ready:
                            d.parked = False
                            d.owned = self.owner = True
                    elif d.later:
                        await checkpoint()  # the next tick has begun when this returns
                    else:
                        d.owned = self.owner = False
                        d.step_back()
            else:
                d.step_back()
            if d.closed or len(d.idle) >= d.idle_limit:
                return
            d.idle.append(self)
            await wait_in(IDLE)

    @enable_ki_protection
    async def drain(self) -> bool:
        """Run passes while this worker owns `ready`. Return False when this worker must end."""
        # The body of a pass stands in here: a call per pass would cost a fifth of a ring hop.
        d, me, status, status_of = self.dispatcher, self.task, self.status, cancel_status_of
        ready, put, recycle, turns = d.ready, d.ready.append, d.spare.append, d.turns
        left, since, mark = d.budget, d.clock(), d.budget - CLOCK_STEPS
        while ready:
            a = ready.popleft()
            if a.state > DRAINING:
                n = await self._run_other(a)
            else:
                self.running = a
                a.worker = self
                q, table, target = a.queue, a.table, a.target
                n, senders, e = turns, a.senders, None
                if (depth := len(q)) > a.high_water:
                    a.high_water = depth
                try:
                    while q and n:
                        n, e = n - 1, q.popleft()
                        if senders:
                            move_in(a)
                        if (kind := e.__class__) is Ask:
                            if e.done:
                                continue
                            self.ask, m = e, e.message
                            is_async, wants_context, fn = table[m.__class__]
                            r = fn(target, m, a.context) if wants_context else fn(target, m)
                            if is_async:
                                r = await r
                            if a.doomed is None and not e.settle(r):
                                d.late += 1
                        else:
                            is_async, wants_context, fn = table[kind]
                            r = fn(target, e, a.context) if wants_context else fn(target, e)
                            if is_async:
                                await r
                        if not self.owner:
                            if a.doomed is not None:
                                break  # also when the handler swallowed its cancellation
                            senders = a.senders
                            if len(q) < 2 or len(q) > a.high_water:
                                note_depth(a, q)
                            if not n:
                                n, e = note_turns(a, q, turns), None
                                await checkpoint()  # a resumed carrier has a budget too
                    if a.doomed is not None:
                        a.turn_killed(e, None)
                except BaseException as exc:
                    a.turn_failed(e, exc)
                a.worker = None
                a.processed += turns - n
                if status_of(me) is not status:
                    return self._leaked(a)
                if a.state:  # anything but RUNNING
                    a.pass_ended()
                elif a.queue:  # no more `q` if the mail was set aside
                    put(a)
                else:
                    a.queued = False
                    a.queue = None
                    recycle(q)
            if not self.owner:
                return self._put_down(a)
            left -= turns - n
            if left <= mark:
                left, mark, since = await self._look_at_clock(left, since)
        return True

    async def _look_at_clock(self, left: int, since: float) -> tuple[int, int, float]:
        """Yield to trio when steps or time are used up; say when to look again."""
        d = self.dispatcher
        step = 1 if d.clock() - since > d.time_budget else CLOCK_STEPS
        if left <= 0 or step == 1:
            self.running = None
            await checkpoint()
            left, since = d.budget, d.clock()
        return left, left - step, since

    async def _run_other(self, a: Any) -> int:
        """Run what is no runnable mailbox; return what is left of the pass."""
        if a.state == STEPPER:
            self.running = None
            a.listed = False
            worth = a.step()
            return 0 if worth is None else self.dispatcher.turns - worth
        if a.state == JOB:
            self.running = a
            try:
                await a.fn(*a.args)
            except BaseException as exc:
                self.dispatcher.on_bug(exc)
        else:
            a.pass_over()  # a mailbox that crashed or closed while it stood there
            return self.dispatcher.turns
        return 0

    def _put_down(self, carried: Mailbox | Job) -> bool:
        """Unbind the scope from what was carried. Return False when it may not be used again."""
        carried.scope = None
        return self._leave() if self.burnt else True

    def _leaked(self, box: Mailbox) -> bool:
        """Charge an open scope to the mailbox whose handler left it, and end this worker."""
        self.leaked = True
        box.turn_failed(
            None,
            ScopeLeak(
                f"{box.path}: a handler left a cancel scope or a nursery open; use `with`, and "
                "close async generators that open one (contextlib.aclosing)",
                target=box.path,
            ),
        )
        box.scope = None
        box.pass_over()
        return self._leave()

    def _leave(self) -> bool:
        self.running = self.ask = None
        if self.owner or self.dispatcher.parked:
            self.owner = False
            self.dispatcher.hand_over()
        return False


def _never(_: RaiseCancelT) -> Abort:
    return Abort.FAILED  # an idle worker is woken, never cancelled (derisk R9)


IDLE: Final = Trap(_never)

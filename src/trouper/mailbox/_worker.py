"""The hot path: a worker takes what is ready and plainly calls or awaits its handlers.

One worker at a time owns `ready`. A small driver steps the worker's own coroutine: when a handler
really blocks, this worker stays behind as that mailbox's *carrier* and another one takes over the
queue. A handler that never blocks costs no task switch, and no cancel scope per message is needed:
each worker enters one shielded scope at its start, which is bound to a mailbox at the moment its
handler blocks. Only the runtime cancels it (derisk R1), through `Mailbox.doom`.
"""

from __future__ import annotations

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
from ._drive import Drive
from ._jobs import Job, Stepper
from ._room import move_in
from ._states import DRAINING, JOB, STEPPER

if TYPE_CHECKING:
    from ._dispatcher import Dispatcher
    from ._mailbox import Mailbox

IDLE_NAME = "trouper worker"
# The clock is read once per so many handler steps; every step once handlers turn out slow.
CLOCK_STEPS = 16


class Worker:
    """One task of the pool. Never raises into the nursery (derisk R8)."""

    __slots__ = (
        "ask",
        "burnt",
        "dispatcher",
        "drive",
        "leaked",
        "owner",
        "running",
        "scope",
        "status",
        "task",
    )

    task: Task
    drive: Drive
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

    def start(self) -> Drive:
        """Return the coroutine of this worker's task."""
        self.drive = Drive(self, cast(Any, self.live()))
        return self.drive

    @enable_ki_protection
    async def live(self) -> None:
        """Lease a scope, drain `ready`, wait, and again; then report how it ended.

        It ends when the scope is spent, when enough others wait, or with the dispatcher. What is
        between this frame and a handler's is paid by every turn that blocks: one call, no more.
        """
        d, drive, error = self.dispatcher, self.drive, None
        self.task = current_task()
        d.workers[self.task] = self
        try:
            with trio.CancelScope(shield=True) as self.scope:
                self.status = cancel_status_of(self.task)
                while not d.closed:
                    d.coming -= 1
                    if not d.owned:  # else another one that was called as well still drains
                        d.owned = self.owner = True
                        while self.owner and await self.drain():
                            if self._has_to_wait():
                                await checkpoint()  # the next tick has begun when this returns
                        if self.burnt or self.leaked:
                            break
                    else:
                        d.step_back()
                    if d.closed or len(d.idle) >= d.idle_limit:
                        break
                    d.idle.append(self)
                    await wait_in(IDLE)
        except BaseException as exc:  # a bug of the runtime, or a scope that a handler left open
            error = exc
        drive.release()
        d.worker_ended(self, error)

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
                n = self._run_step(a) if a.state == STEPPER else await self._run_other(a)
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
                            if not n and not d.is_gated:  # who is next is for a gate to say
                                n, e = note_turns(a, q, turns), None
                                await checkpoint()  # a resumed carrier has a budget too
                    if a.doomed is not None:
                        a.turn_killed(e, None)
                except BaseException as exc:
                    a.turn_failed(e, exc)
                a.worker = None
                n = turns - n
                a.processed += n
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
            left -= n
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

    def _run_step(self, a: Stepper) -> int:
        """Run a pass of a stepper; return for how many turns it counts."""
        self.running = None
        a.listed = False
        worth = a.step()
        return self.dispatcher.turns if worth is None else worth

    async def _run_other(self, a: Any) -> int:
        """Run what is neither a runnable mailbox nor a stepper, and return the same."""
        if a.state == JOB:
            self.running = a
            try:
                await a.fn(*a.args)
            except BaseException as exc:
                self.dispatcher.on_bug(exc)
        else:
            a.pass_over()  # a mailbox that crashed or closed while it stood there
            return 0
        return self.dispatcher.turns

    def _has_to_wait(self) -> bool:
        """Give up what is done; True if `ready` is only empty until the next tick."""
        d = self.dispatcher
        self.running = self.ask = None
        if not self.owner:  # it carried a handler; now nobody may have `ready`
            self.task.name = IDLE_NAME
            self.drive.watch()
            if d.parked and d.ready:
                d.wake()
        elif not d.later:
            d.owned = self.owner = False
            d.step_back()
        return self.owner

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

"""One ready queue and the pool of workers that drain it.

State owned by the event loop's thread; nothing here is touched from another one. `ready` is an
object with ``append``, ``popleft`` and ``__bool__``, fixed for the life of the dispatcher, so that
a schedule can choose what runs next.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from threading import current_thread, get_ident
from typing import Any, Final, Protocol

import trio
from trio.lowlevel import Task, checkpoint, current_task, enable_ki_protection, reschedule

from .._trio import WOKEN
from ..errors import InvariantError
from ._ask import Asker
from ._jobs import Job, Named, News, Stepper
from ._mailbox import Mailbox
from ._statistics import DispatcherStatistics
from ._ticks import TickCounter
from ._worker import IDLE_NAME, Worker

# Sends, spawns and direct asks yield to trio once in so many: a checkpoint costs as much as
# fifteen messages.
CREDIT: Final = 64
ASKER_CACHE: Final = 256
SPARE_QUEUES: Final = 256
FAN_LIMIT: Final = 256


class ReadyQueue(Protocol):
    """What `ready` must be able to do. Its truth value says whether something may run now."""

    def append(self, item: Any, /) -> None: ...
    def popleft(self) -> Any: ...
    def __len__(self) -> int: ...


class Dispatcher:
    """Runs mailboxes, steppers and jobs on workers in ``nursery``.

    Args:
        nursery: Holds the workers. Nothing may cancel it while handlers run.
        on_bug: Told what a job or a stepper raised, or what ended a worker; must not raise.
        turns: Handler calls of one mailbox per pass (fairness between mailboxes).
        budget: Handler calls between two checkpoints (fairness towards other trio tasks).
        time_budget: Seconds of work after which a checkpoint comes early, looked at every
            sixteen handler calls and, once they turn out slow, after each pass.
        idle_limit: Workers kept waiting for work; more end.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        on_bug: Callable[[BaseException], None],
        *,
        ready: ReadyQueue | None = None,
        turns: int = 32,
        budget: int = 256,
        time_budget: float = 0.001,
        idle_limit: int = 256,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.nursery = nursery
        self.on_bug = on_bug
        self.ready: ReadyQueue = deque[Any]() if ready is None else ready
        self.turns = turns
        self.budget = budget
        self.time_budget = time_budget
        self.idle_limit = idle_limit
        self.clock = clock
        self.parked = True  # nobody drains `ready` or is on the way to, and it is empty
        self.owned = False  # a worker drains `ready`
        self.coming = 0  # workers that were called and did not run yet
        self.fan = 1  # so many are called when the next handler blocks
        # A schedule that chooses what runs next has one worker at a time to choose for.
        self.is_gated = ready is not None
        self.fan_limit = 1 if self.is_gated else FAN_LIMIT
        self.closed = False
        self.home = self  # for an annex, the one that it belongs to
        self.idle: list[Worker] = []
        self.workers: dict[Task, Worker] = {}
        self.later: list[Stepper] = []  # join `ready` when the next tick begins
        # Empty queues for the next mailbox that gets mail. An idle mailbox has none: an empty deque
        # weighs 0.7 kB, twice as much as everything else an idle actor has.
        self.spare: deque[deque[Any]] = deque(maxlen=SPARE_QUEUES)
        self.direct = True  # plain handlers of idle mailboxes may run in the asker's task
        self.credit = CREDIT  # sends and direct asks until the next checkpoint
        self.late = 0  # answers that came when their ask was over
        self._started = 0
        # Tasks in which hooks of mailboxes run that have no turn yet; see `hosting`.
        self.hosts: dict[Task, list[tuple[Mailbox, int]]] = {}
        # Where tasks of another loop say for whose turn they wait; None until there is such a loop.
        self.foreign: ContextVar[Any] | None = None
        # What is known of a task never changes; bounded, since it keeps tasks alive.
        self.askers: dict[Task, Asker] = {}
        self._askers_room = ASKER_CACHE  # when to look for those that have ended
        self._gone: trio.Event | None = None
        self._ticks: TickCounter | None = None
        self._thread = get_ident()
        # Workers start in this context, whoever wakes the pool; derisk section 2, contextvars.
        self._context: Context = copy_context()

    # --- putting things on `ready` ----------------------------------------------------------------

    def enlist(self, stepper: Stepper) -> None:
        """Let a worker call ``stepper.step()`` soon, unless it is listed already.

        Call it on the loop's thread: from a task, or from a ``run_sync_soon`` callback.
        """
        if not stepper.listed:
            if self.parked:
                self.wake()
            stepper.listed = True
            self.ready.append(stepper)

    def enlist_next_tick(self, stepper: Stepper) -> None:
        """Like `enlist`, but it runs only after every task of the current tick has run."""
        if not stepper.listed:
            if self._ticks is None:
                self._count_ticks()
            stepper.listed = True
            self.later.append(stepper)
            if self.parked:
                self.wake()  # or the loop would sleep over it

    def touch(self, what: Named) -> None:
        """Hear that somebody else looks into a stepper, or changes it; or cancels an attempt.

        What nobody else has to know: a schedule does, to tell which orders matter.
        """

    def news(self, of: Named) -> News:
        """Return what is set when whoever waits for news of something shall wake."""
        return trio.Event()

    def pass_now(self, stepper: Stepper) -> None:
        """Run a pass where the caller stands if nothing is to run before it, else `enlist` it.

        It spares a switch and a tick. For the last thing that a task or a callback of trio does.
        """
        if not (self.direct and self.parked):
            return self.enlist(stepper)
        self.parked = False  # what the pass asks for waits until it is over
        try:
            stepper.step()
        except BaseException as bug:
            self.on_bug(bug)
        return self.hand_over()

    async def pay(self) -> None:
        """Yield to trio, and give the next credit of calls that need not."""
        self.credit = CREDIT
        await checkpoint()

    def run_job(self, job: Job) -> None:
        """Let a worker run this job."""
        if self.parked:
            self.wake()
        self.ready.append(job)

    @property
    def tick(self) -> int:
        """Number of the current event-loop tick; counting begins with the first use."""
        ticks = self._ticks or self._count_ticks()
        return ticks.tick

    def _count_ticks(self) -> TickCounter:
        self._ticks = TickCounter(self._between_ticks)
        trio.lowlevel.add_instrument(self._ticks)
        return self._ticks

    def _between_ticks(self) -> None:
        later = self.later
        if later:
            for stepper in later:
                self.ready.append(stepper)
            later.clear()

    # --- the pool ---------------------------------------------------------------------------------

    def require_thread(self) -> None:
        """Refuse to be used from another thread than the loop's.

        Raises:
            RuntimeError: Naming the ways that there are.
        """
        if get_ident() != self._thread:
            raise RuntimeError(
                f"actors live on trio's thread, this is {current_thread().name!r}: go through "
                "trio.from_thread.run_sync(ref.tell, message) or trio.from_thread.run(ref.ask, "
                "request), in a thread that trio did not start with trio_token="
            )

    @enable_ki_protection
    def wake(self) -> None:
        """Call a waiting or a new worker; it becomes the owner of `ready`.

        Raises:
            RuntimeError: This is not the loop's thread. Nothing has changed.
        """
        self.require_thread()  # a call of nobody would leave the pool waiting for ever
        self.parked = False
        self.coming += 1
        if self.idle:
            reschedule(self.idle.pop().task, WOKEN)
        else:
            self._started += 1
            worker = Worker(self)
            self._context.run(partial(self.nursery.start_soon, worker.start, name=IDLE_NAME))

    @enable_ki_protection
    def hand_over(self) -> None:
        """Give `ready` up: to another worker if there is work, to nobody otherwise.

        Where handler after handler blocks, ever more workers are called at once. They run in the
        same tick and take `ready` over from each other in it, so that many handlers that block
        begin within a few ticks, not one in each. One that finds nothing to take over ends that.
        """
        self.owned = False
        if self.coming:
            return  # one of those takes it, or parks it
        if self.ready:
            for _ in range(min(self.fan, len(self.ready))):
                self.wake()
            self.fan = min(2 * self.fan, self.fan_limit)
        elif self.later:
            self.wake()
        else:
            self.parked = True

    def step_back(self) -> None:
        """Give up an empty `ready`, or the wish to have it: there are workers enough."""
        self.fan = 1
        if not (self.owned or self.coming):
            self.parked = True

    def worker_ended(self, worker: Worker, error: BaseException | None) -> None:
        """Take a worker out of the pool; after a bug, leave nothing pointing at it."""
        self.workers.pop(worker.task, None)
        if worker in self.idle:
            self.idle.remove(worker)
        running, worker.running = worker.running, None
        if error is not None:
            if worker.owner:
                self.hand_over()  # or the whole system would stop silently
            if isinstance(running, Mailbox):
                running.worker = running.scope = None
                running.pass_over()
            if worker.ask is not None:
                worker.ask.fail(InvariantError(f"a worker died of {type(error).__qualname__}"))
            if not worker.leaked:  # else it was charged to the actor that did it
                self.on_bug(error)
        gone = self.home._gone
        if gone is not None and not self.workers:
            gone.set()

    def running_mailbox(self) -> Mailbox | None:
        """Return whose turn waits if the current task waits, or None outside of any turn.

        Walks from the task to its parents up to a worker, so the children of a handler's nursery
        count, and so does ``trio.from_thread.run`` from its threads.
        """
        return self.mailbox_of(current_task())

    def mailbox_of(self, task: Task) -> Mailbox | None:
        """Return whose turn waits if this task waits; see `running_mailbox`."""
        if self.home.hosts:
            box = self.hosted_mailbox(task)
            if box is not None:
                return box
        worker = (self.askers.get(task) or self.know(task)).worker
        if worker is None:
            foreign = self.home.foreign
            return None if foreign is None else self._foreign_mailbox(task, foreign)
        running = worker.running
        return running.box if isinstance(running, Job) else running

    @contextmanager
    def hosting(self, box: Mailbox) -> Generator[None]:
        """Charge waits of this task to ``box``, and those of nurseries opened in the block.

        For a hook that runs in the task of whoever waits for it.
        """
        task, hosts = current_task(), self.home.hosts
        hosts.setdefault(task, []).append((box, len(task.child_nurseries)))
        try:
            yield
        finally:
            hosts[task].pop()
            if not hosts[task]:
                del hosts[task]

    def hosted_mailbox(self, asking: Task) -> Mailbox | None:
        """Return whose hook runs in this task or around it, or None: it may be in a turn."""
        hosts = self.home.hosts
        task = asking
        depth = len(asking.child_nurseries)
        while True:
            for box, opened in reversed(hosts.get(task, ())):
                if depth >= opened:
                    return box
            if task in self.workers or (nursery := task.parent_nursery) is None:
                return None
            task = nursery.parent_task
            if task in hosts:
                depth = task.child_nurseries.index(nursery)

    def _foreign_mailbox(self, task: Task, call_of: ContextVar[Any]) -> Mailbox | None:
        call = task.context.get(call_of)
        return None if call is None else call.box

    def know(self, asking: Task) -> Asker:
        """Find out which worker a task descends from, and keep that.

        Raises:
            RuntimeError: It is a task of another loop, which nobody here could wake.
        """
        self.require_thread()
        task: Task | None = asking
        while task is not None and task not in self.workers:
            nursery = task.parent_nursery
            task = nursery.parent_task if nursery is not None else None
        if len(self.askers) >= self._askers_room:
            for ended in [task for task in self.askers if _has_ended(task)]:
                del self.askers[ended]
            self._askers_room = ASKER_CACHE + 2 * len(self.askers)
        asker = self.askers[asking] = Asker(None if task is None else self.workers[task])
        return asker

    def annex(self) -> Dispatcher:
        """Make a dispatcher for one mailbox that wants a task of its own; `dismiss` ends it.

        Its workers count among this one's; its context is a copy of the caller's.
        """
        other = self._sibling()
        other.home, other.direct = self, False
        other.workers, other.askers = self.workers, self.askers
        return other

    def _sibling(self) -> Dispatcher:
        return Dispatcher(
            self.nursery,
            self.on_bug,
            turns=self.turns,
            budget=self.budget,
            time_budget=self.time_budget,
            idle_limit=1,
            clock=self.clock,
        )

    def dismiss(self) -> None:
        """Let every worker leave, without waiting for that. Nothing may be queued any more."""
        if not self.closed:
            self.closed = True
            self.parked = False
            for worker in self.idle:
                reschedule(worker.task, WOKEN)
            self.idle.clear()

    async def close(self) -> None:
        """Let every worker leave and wait until all have. Nothing may be queued any more.

        KeyboardInterrupt comes out of the wait; call again to go on waiting.
        """
        self.dismiss()
        self._gone = trio.Event()
        if self.workers:
            await self._gone.wait()
        if self._ticks is not None:
            trio.lowlevel.remove_instrument(self._ticks)
            self._ticks = None

    def statistics(self) -> DispatcherStatistics:
        """Return the size of the pool and of the queue as they are now."""
        return DispatcherStatistics(
            workers=sum(worker.dispatcher is self for worker in self.workers.values()),
            idle=len(self.idle),
            ready=len(self.ready),
            started=self._started,
        )


def _has_ended(task: Task) -> bool:
    return getattr(task.coro, "cr_frame", None) is None

"""What could happen next in a system, by name. Nothing of it happens before the driver says so.

The gate stands in the place of the parts of a runtime that decide who is served next (`_engine`,
`_refs`). Messages wait in the real mailboxes; what would run a mailbox, wake whoever waits, or ring
a timer is an offer here. Between two offers lies a step: everything that the chosen one sets off,
up to where every task waits again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, final

import outcome
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, reschedule

from ..._trio import WOKEN, HeldDeadlines
from ...mailbox import Ask, Job
from ._alarms import Alarms
from ._course import Wait
from ._event import Event, Footprint, Kind, new_tuple
from ._letters import Letter, Mail
from ._owners import Owners
from ._step import NOTHING, Held, Step

if TYPE_CHECKING:
    from ...actors._ref import Ref
    from ...actors._runtime import Runtime

OUTSIDE: Final = "scenario"
NEWS: Final = "news"  # of durable work
ATTEMPTS: Final = "effect "  # what names of the tasks begin with that do that work


@final
class Gate:
    """One for all lives of a schedule."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self.life = 0
        self.number = 0  # steps so far
        self.is_driven = False  # the driver acts, between two steps of tasks
        self.is_served = False  # it has something for a worker, which may be the one that asked
        self.is_switched = False  # a task came to wait since nobody waited outside
        self.go_on: Callable[[], None]  # asks the driver for the next event
        self.is_over = False  # the scenario has ended, or is ending: no client starts any more
        self.step = Step(None)
        self.last: Event | None = None
        self.owners = Owners()
        self._clock = clock
        self.mail = Mail(self)
        self.alarms = Alarms(self, clock)
        self.deadlines = HeldDeadlines(lambda scope: self.alarms.deadline_set(scope))
        self.stamps = count()
        self.keys = count(1)
        self._counts: dict[tuple[Kind, str, str, str, int], int] = {}
        self._offers: dict[Event, tuple[int, Callable[[], None]]] = {}
        self._held: dict[Hashable, list[Held]] = {}
        self._running: set[str] = set()  # jobs and clients that have begun and not ended
        self._withdrawn: set[Event] = set()

    def next_life(self) -> None:
        """Forget what was of a system that has crashed, and of which nothing runs any more."""
        self.life += 1
        self.rest()
        self.mail, self.alarms = Mail(self), Alarms(self, self._clock)
        self._offers.clear()
        self._held.clear()
        self._running.clear()

    # --- names ------------------------------------------------------------------------------------

    def time_read(self) -> None:
        """Hear that somebody looked at the clock."""
        self.step.arms = True

    def attach(self, runtime: Runtime) -> None:
        """Begin to watch over the system of this life."""
        self.owners.attach(runtime)

    def owner(self) -> str:
        """Return the name of whoever acts now."""
        name = None if self.is_driven else self.owners.of_current()
        if name is not None:
            return name
        return OUTSIDE if self.step.event is None else self.step.event.target

    def mint(self, kind: Kind, target: str, sender: str, what: str) -> Event:
        """Name an event that is born now."""
        key = (kind, target, sender, what, self.life)
        self._counts[key] = number = self._counts.get(key, 0) + 1
        return Event(kind, target, sender, what, number, self.life)

    # --- what may happen --------------------------------------------------------------------------

    def offer(self, event: Event, run: Callable[[], None]) -> None:
        """Take an event that can take place; ``run`` lets it."""
        stamp = next(self.stamps)
        self._offers[event] = stamp, run
        self.step.creates.append((stamp, event))

    def withdraw(self, event: Event) -> None:
        """Take an event back: it never takes place."""
        self._offers.pop(event, None)
        self.alarms.pop(event)
        self.gone(event)

    def gone(self, event: Event) -> None:
        """Note that an event never takes place, unless it is the one under way."""
        if event != self.step.event:
            self._withdrawn.add(event)
            self.step.withdraws[event] = None

    def was_taken(self, event: Event) -> bool:
        """Tell whether an event took place, or never will."""
        return event in self._withdrawn or event in self.mail.taken

    def enabled(self) -> list[Event]:
        """Return all that could take place now."""
        found = self.mail.choices()
        if self._offers:
            found = [*self._offers, *found]
        timer = self.alarms.next()
        if timer is not None:
            found.append(timer)
        return found

    def is_quick(self) -> bool:
        """Tell whether anything but a timer could take place now."""
        return bool(self._offers or self.mail.choices())

    def oldest(self) -> Event | None:
        """Return what takes place in the ordinary order; timers when there is nothing else."""
        stamps = {event: stamp for event, (stamp, _) in self._offers.items()}
        stamps.update((event, self.mail.stamp(event)) for event in self.mail.choices())
        if stamps:
            return min(stamps, key=stamps.__getitem__)
        return self.alarms.next()

    def begin(self, event: Event) -> None:
        """Let an event take place; what follows from it belongs to its step."""
        self.number += 1
        self.last = event
        self.mail.is_stale = True
        self.step = Step(event)
        offered = self._offers.pop(event, None)
        if offered is not None:
            offered[1]()
        elif event.kind == "timer":
            self.alarms.ring(event)
        else:
            self.mail.deliver(event)

    def settle(self) -> bool:
        """Let that happen which is no event; return whether there was anything."""
        if self._held:
            for ask, waiting in list(self._held.items()):
                if isinstance(ask, Ask) and ask.done and waiting[0].event is None:
                    self.let_go(ask)
        return self.mail.settle()

    def pending(self) -> list[Event]:
        """Return all that was born and did not take place, in the order of sending."""
        stamps = {event: stamp for event, (stamp, _) in self._offers.items()}
        stamps |= self.alarms.stamps() | self.mail.stamps()
        return sorted(stamps, key=stamps.__getitem__)

    def born(self) -> list[Event]:
        """Return all that was born since the last step, in the order of sending."""
        self.alarms.look()
        self.mail.look()
        step = self.step
        if len(step.creates) == 1 and not step.withdraws:
            return [step.creates[0][1]]
        return [event for _, event in sorted(step.creates) if event not in step.withdraws]

    def footprint(self) -> Footprint:
        """End the step under way and say what it touched."""
        created, step = self.born(), self.step
        assert step.event is not None
        withdrawn: tuple[Event, ...] = ()
        if step.withdraws:
            kept = set(created)
            born = {event for _, event in step.creates}
            withdrawn = tuple(e for e in step.withdraws if e in kept or e not in born)
        me = step.event.target
        also = [(n, self._is_busy(n)) for n in step.also if n != me] if step.also else ()
        fields = (
            tuple(created),
            withdrawn,
            step.reads,
            step.writes,
            frozenset(step.shares) if step.shares else NOTHING,
            step.arms,
            self._is_busy(me),
            step.scans,
            step.fills,
            frozenset(step.looks - step.shares) if step.looks else NOTHING,
            tuple(also),
        )
        footprint: Footprint = new_tuple(Footprint, fields)
        return footprint

    def rest(self) -> None:
        """Begin to collect what belongs to no step."""
        self.step = Step(None)

    def _is_busy(self, name: str) -> bool:
        return name in self._running or self.mail.is_busy(name)

    def note(
        self,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        scans: Iterable[str] = (),
        fills: Iterable[str] = (),
        shares: Iterable[str] = (),
        looks: Iterable[str] = (),
    ) -> None:
        """Take in what the step under way touched; see `Footprint`."""
        step = self.step
        if shares:
            step.shares.update(shares)
        if looks:
            step.looks.update(looks)
        if reads:
            step.reads = step.reads.union(reads)
        if writes:
            step.writes = step.writes.union(writes)
        if scans:
            step.scans = step.scans.union(scans)
        if fills:
            step.fills = step.fills.union(fills)

    # --- waiting ----------------------------------------------------------------------------------

    async def hold(
        self,
        key: Hashable,
        sender: str,
        what: str,
        *,
        give_up: Callable[[], None] = lambda: None,
        asked: Event | None = None,
    ) -> None:
        """Wait until `let_go` was called for ``key``, and the driver has chosen that.

        Cancelled before that, it leaves after ``give_up``; cancelled later it has not been.
        """
        held = Held(self.owner(), sender, what, asked)
        self._held.setdefault(key, []).append(held)

        def abort(_: RaiseCancelT) -> Abort:
            if asked is not None and self.mail.knows(asked):
                self.step.withdraws[asked] = None  # also when that is too late
            if held.event is not None:
                return Abort.FAILED
            self._held[key].remove(held)
            if not self._held[key]:
                del self._held[key]
            give_up()
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def land(self, what: str) -> None:
        """Wait for the event that brings the result of a thread; nothing cancels that."""
        held = Held(self.owner(), "thread", what, None)
        self._held[held] = [held]
        self.let_go(held)
        await trio.lowlevel.wait_task_rescheduled(lambda _: Abort.FAILED)

    def let_go(self, key: Hashable, error: BaseException | None = None) -> None:
        """Offer to wake those who wait under a key."""
        for held in self._held.pop(key, ()):
            kind: Kind = "reply"
            if held.asked is not None:
                sequence = held.asked.sequence
                held.event = Event(kind, held.owner, held.sender, held.what, sequence, self.life)
            else:
                held.event = self.mint(kind, held.owner, held.sender, held.what)
            self.offer(held.event, partial(_wake, held.task, error))

    def waits(self) -> list[Wait]:
        """Return who waits for an answer, for room, for an end, or for news.

        Durable work may wait for ever, for a signal say, and go on in another life.
        """
        return [
            Wait(held.owner, held.sender, held.what)
            for waiting in self._held.values()
            for held in waiting
            if not (held.what == NEWS and held.owner.startswith(ATTEMPTS))
        ]

    # --- jobs and clients -------------------------------------------------------------------------

    def take_job(self, job: Job, release: Callable[[], None]) -> None:
        """Offer to run a job of the runtime."""
        path, _, verb = job.path.rpartition("!")
        name = f"{self.owners.short(path)}!{verb}"
        fn = job.fn

        async def tracked(*args: Any) -> None:
            self._running.add(name)
            try:
                await fn(*args)
            finally:
                self._running.discard(name)

        job.fn = tracked
        self.offer(self.mint("deliver", name, self.owner(), verb), release)

    def take_task(
        self,
        nursery: trio.Nursery,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        counts: bool = False,
    ) -> None:
        """Offer to start a task that acts under a name of its own.

        Args:
            nursery, fn, args: As for `trio.Nursery.start_soon`.
            name: Under which it acts.
            counts: Whoever starts it waits for its end, so it begins after the schedule too.
        """
        context = copy_context()

        async def tracked() -> None:
            self._running.add(name)
            try:
                await fn(*args)
            finally:
                self._running.discard(name)

        def start() -> None:
            if self.is_over and not counts:
                return
            self.note(shares=(f"inbox of {name}",))  # it may have been cancelled by now
            # closed: what it was part of has ended
            with self.owners.naming(name), suppress(RuntimeError):
                context.run(partial(nursery.start_soon, tracked, name=name))

        self.offer(self.mint("deliver", name, self.owner(), "start"), start)

    # --- what instruments hear --------------------------------------------------------------------

    def sending(self, how: Any, target: Ref[Any], message: object) -> Letter:
        """See `trouper.actors.Instrument`."""
        return self.mail.sending(how, target, message)

    def stepped(self, task: Task) -> None:
        """Hear that a task runs now."""
        step = self.step
        self.mail.is_stale = True
        if step.event is not None:
            name = self.owners.of(task)
            if name is not None and name != step.event.target:
                step.also[name] = None


def _wake(task: Task, error: BaseException | None) -> None:
    """Let a task go on that waits."""
    reschedule(task, WOKEN if error is None else outcome.Error(error))

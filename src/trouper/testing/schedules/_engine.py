"""The parts of a runtime that a gate takes the place of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, final

import trio
from trio.lowlevel import current_task

from ...actors._dead_letters import DeadLetters
from ...actors._instruments import Instrument
from ...actors._local import LocalRef
from ...actors._parts import Parts
from ...actors._registry import Registry
from ...actors._timers import Timer, TimerHeap
from ...actors._topics import Topics
from ...actors._waits import WaitGraph
from ...actors.durable_actors._ref import DurableRef
from ...mailbox import Dispatcher, Job, Named, Stepper, bare
from ._durable import GatedClock, GatedNews, GatedTasks
from ._durable_refs import ScheduledDurableRef
from ._event import Event
from ._refs import ScheduledRef
from ._shared import WatchedRegistry, WatchedTopics, WatchedWaits

if TYPE_CHECKING:
    from ...actors._runtime import Runtime
    from ._gate import Gate


@final
class GatedReady:
    """A ready queue that holds what the gate let through: one thing, or nothing."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._through: deque[Any] = deque()
        self.dispatcher: Dispatcher

    def __len__(self) -> int:
        return len(self._through)

    def __bool__(self) -> bool:
        """Ask for the next event when a worker is done with the last one and nothing else can run.

        So that worker goes on with it, and neither a task nor trio's loop has a turn in between.
        """
        if not self._through and self.dispatcher.owned:
            worker = self.dispatcher.workers[current_task()]
            worker.running = worker.ask = None  # as when it waits
            self._gate.go_on()
        return bool(self._through)

    def append(self, item: Any, /) -> None:
        """Take what could be run from now on."""
        if item.__class__ is ScheduledRef:
            self._gate.mail.enlist(item, self)
        elif isinstance(item, Job):
            self._gate.take_job(item, partial(self.release, item))
        elif isinstance(item, Stepper):
            gate = self._gate
            event = gate.mint("deliver", item.name, "", "pass")
            gate.offer(event, partial(self._step, item))
        else:
            self._gate.mail.enlist(item, self)

    def popleft(self) -> Any:
        """Return what runs now."""
        return self._through.popleft()

    def release(self, item: Any) -> None:
        """Let something run, unless nobody is left to run it: the system has ended."""
        if self.dispatcher.closed:
            return
        self._through.append(item)
        self._gate.is_served = True
        if self.dispatcher.parked:
            self.dispatcher.wake()

    def _step(self, item: Stepper) -> None:
        self._gate.note(shares=(f"inbox of {item.name}",))
        self.release(item)


class GatedDispatcher(Dispatcher):
    """Serves one turn at a time, and only what the gate lets through."""

    def __init__(
        self, gate: Gate, nursery: trio.Nursery, on_bug: Callable[[BaseException], None]
    ) -> None:
        ready = GatedReady(gate)
        super().__init__(nursery, on_bug, ready=ready, turns=1, clock=_standing)
        ready.dispatcher = self
        self.gate = gate
        self.direct = False

    def wake(self) -> None:
        """Call a worker if there is anything to do for it."""
        self.require_thread()
        if len(self.ready):
            super().wake()

    def enlist(self, stepper: Stepper) -> None:
        """See `Dispatcher.enlist`. Who puts something into its inbox touches that."""
        self.touch(stepper)
        super().enlist(stepper)

    def pass_now(self, stepper: Stepper) -> None:
        """Let its pass be an event of its own, too."""
        self.enlist(stepper)

    def touch(self, what: Named) -> None:
        """See `Dispatcher.touch`."""
        self.gate.note(shares=(f"inbox of {what.name}",))

    def news(self, of: Named) -> GatedNews:
        """See `Dispatcher.news`."""
        return GatedNews(self.gate, of)

    def enlist_next_tick(self, stepper: Stepper) -> None:
        """A pass begins only when every task waits: the tick is over by then."""
        self.enlist(stepper)

    @property
    def tick(self) -> int:
        """A step is a tick: what arrives in it is a tie."""
        return self.gate.number

    def _sibling(self) -> Dispatcher:
        return GatedDispatcher(self.gate, self.nursery, self.on_bug)


def _standing() -> float:
    return 0.0


@final
class GatedTimers(TimerHeap):
    """Timers that ring by events."""

    def __init__(self, gate: Gate, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self._gate = gate
        self._events: dict[Timer, Event] = {}

    def __len__(self) -> int:
        return len(self._events)

    def add(self, timer: Timer) -> None:
        """Let a timer run."""
        ref: Any = timer.ref
        gate = self._gate
        name = gate.owners.short(ref.path)
        what = type(bare(timer.message)).__name__
        event = self._events[timer] = gate.mint("timer", f"timer of {name}", name, what)
        gate.alarms.set(event, timer.due, partial(self._ring, timer))

    def cancel(self, timer: Timer) -> None:
        """Take a timer out."""
        ref: Any = timer.ref
        timer.cancel()
        if ref is not None:
            self._gate.mail.touched(ref)
        event = self._events.pop(timer, None)
        if event is not None:
            self._gate.withdraw(event)

    def _ring(self, timer: Timer) -> None:
        del self._events[timer]
        if timer.ring(self._gate.alarms.now):
            self.add(timer)


@final
class GatedParts(Parts):
    """What a system is put together from that runs under a gate."""

    def __init__(self, gate: Gate, instruments: tuple[Instrument, ...] = ()) -> None:
        super().__init__((gate, *instruments))
        self._gate = gate

    @property
    def ref_type(self) -> type[LocalRef]:
        """See `Parts.ref_type`."""
        return ScheduledRef

    @property
    def durable_ref_type(self) -> type[DurableRef]:
        """See `Parts.durable_ref_type`."""
        return ScheduledDurableRef

    def dispatcher(
        self, nursery: trio.Nursery, on_bug: Callable[[BaseException], None]
    ) -> Dispatcher:
        """See `Parts.dispatcher`."""
        return GatedDispatcher(self._gate, nursery, on_bug)

    def waits(self) -> WaitGraph:
        """See `Parts.waits`."""
        return WatchedWaits(self._gate)

    def registry(self) -> Registry:
        """See `Parts.registry`."""
        return WatchedRegistry(self._gate)

    def topics(self, dead_letters: DeadLetters) -> Topics:
        """See `Parts.topics`."""
        return WatchedTopics(self._gate, dead_letters)

    def timers(self, nursery: trio.Nursery) -> TimerHeap:
        """See `Parts.timers`."""
        return GatedTimers(self._gate, nursery)

    def tasks(self, nursery: trio.Nursery) -> GatedTasks:
        """See `Parts.tasks`."""
        return GatedTasks(self._gate, nursery)

    def clock(self) -> GatedClock:
        """See `Parts.clock`."""
        return GatedClock(self._gate)

    def new_key(self) -> str:
        """See `Parts.new_key`."""
        self._gate.note(shares=("new keys",))
        return f"key-{next(self._gate.keys)}"

    def ready(self, runtime: Runtime) -> None:
        """See `Parts.ready`."""
        self._gate.attach(runtime)

"""What a runtime is put together from. Whoever takes over the order of things replaces it whole.

Chosen once, when a system opens, so that nothing on the way of a message has to look for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ..mailbox import Dispatcher
from ._asks import AskNet
from ._dead_letters import DeadLetters
from ._instruments import Instrument
from ._local import LocalRef
from ._registry import Registry
from ._timers import TimerHeap
from ._topics import Topics
from ._traced import TracedRef
from ._waits import WaitGraph
from .durable_actors._ref import DurableRef
from .durable_actors._traced import TracedDurableRef
from .groups import Clock, Tasks, WallClock

if TYPE_CHECKING:
    from ._runtime import Runtime


class Parts:
    """Makes the parts of a system as it is in production.

    Args:
        instruments: What follows the messages of the system.
    """

    def __init__(self, instruments: tuple[Instrument, ...] = ()) -> None:
        self.instruments = instruments

    @property
    def ref_type(self) -> type[LocalRef]:
        """What stands for an actor: one choice, so that nobody looks whether it is followed."""
        return TracedRef if self.instruments else LocalRef

    @property
    def durable_ref_type(self) -> type[DurableRef]:
        """What stands for a durable actor."""
        return TracedDurableRef if self.instruments else DurableRef

    def dispatcher(
        self, nursery: trio.Nursery, on_bug: Callable[[BaseException], None]
    ) -> Dispatcher:
        """Return what chooses who is served next."""
        return Dispatcher(nursery, on_bug)

    def asks(self, nursery: trio.Nursery, limit: float) -> AskNet:
        """Return what ends an ask that has waited for ``limit`` seconds."""
        return AskNet(nursery, limit)

    def waits(self) -> WaitGraph:
        """Return who waits for whom."""
        return WaitGraph()

    def timers(self, nursery: trio.Nursery) -> TimerHeap:
        """Return what lets timers ring."""
        return TimerHeap(nursery)

    def registry(self) -> Registry:
        """Return the names of actors."""
        return Registry()

    def topics(self, dead_letters: DeadLetters) -> Topics:
        """Return who hears what is published."""
        return Topics(dead_letters)

    def tasks(self, nursery: trio.Nursery) -> Tasks:
        """Return where the durable side starts its tasks: attempts, and what follows them."""
        return nursery

    def clock(self) -> Clock:
        """Return what tells the time of journaled facts."""
        return WallClock()

    def new_key(self) -> str:
        """Return a key for work that was given none."""
        return str(uuid.uuid4())

    def ready(self, runtime: Runtime) -> None:
        """Hear that the runtime is put together; nothing runs yet."""

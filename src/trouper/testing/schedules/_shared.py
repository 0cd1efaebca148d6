"""What all actors of a system share, and touch without a message: names, topics, waits, time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, final

import trio

from ...actors._dead_letters import DeadLetters
from ...actors._local import LocalRef
from ...actors._ref import Ref
from ...actors._registry import Registry
from ...actors._topics import Topics
from ...actors._waits import WaitGraph

if TYPE_CHECKING:
    from ._gate import Gate


# Modules whose looks at the clock are no actor's.
_OURS: Final = ("trio.", "trouper.")
_LOOP: Final = trio.run.__globals__


@final
class WatchedRegistry(Registry):
    """A registry in which looking at a name and changing one depend on each other."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def __len__(self) -> int:
        self._gate.note(looks=("the registry",))
        return super().__len__()

    def __iter__(self) -> Iterator[str]:
        self._gate.note(looks=("the registry",))
        return super().__iter__()

    def whereis(self, name: str) -> Ref[Any] | None:
        """See `Registry.whereis`."""
        self._gate.note(looks=(f"name {name}",))
        return super().whereis(name)

    def register(self, name: str, ref: Ref[Any]) -> None:
        """See `Registry.register`."""
        self._gate.note(shares=(f"name {name}", "the registry"))
        super().register(name, ref)

    def unregister(self, name: str) -> bool:
        """See `Registry.unregister`."""
        self._gate.note(shares=(f"name {name}", "the registry"))
        return super().unregister(name)

    def release(self, names: Iterable[str]) -> None:
        """See `Registry.release`."""
        held = tuple(names)
        if held:
            self._gate.note(shares=(*(f"name {name}" for name in held), "the registry"))
        super().release(held)


@final
class WatchedTopics(Topics):
    """Topics in which publishing and subscribing depend on each other."""

    def __init__(self, gate: Gate, dead_letters: DeadLetters) -> None:
        super().__init__(dead_letters)
        self._gate = gate

    def subscribe(self, topic: str, ref: Ref[Any]) -> None:
        """See `Topics.subscribe`."""
        self._gate.note(shares=(f"topic {topic}",))
        super().subscribe(topic, ref)

    def unsubscribe(self, topic: str, ref: Ref[Any]) -> bool:
        """See `Topics.unsubscribe`."""
        self._gate.note(shares=(f"topic {topic}",))
        return super().unsubscribe(topic, ref)

    def publish(self, topic: str, message: object) -> int:
        """See `Topics.publish`."""
        self._gate.note(looks=(f"topic {topic}",))
        return super().publish(topic, message)

    def subscribers(self, topic: str) -> tuple[Ref[Any], ...]:
        """See `Topics.subscribers`."""
        self._gate.note(looks=(f"topic {topic}",))
        return super().subscribers(topic)

    def release(self, ref: LocalRef, topics: Iterable[str]) -> None:
        """See `Topics.release`."""
        held = tuple(topics)
        self._gate.note(shares=tuple(f"topic {topic}" for topic in held))
        super().release(ref, held)


@final
class WatchedWaits(WaitGraph):
    """A graph of waits in which whether a wait is refused depends on who began or ended another."""

    __slots__ = ("_gate", "_names")

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate
        self._names: dict[LocalRef, str] = {}

    def enter(self, waiter: LocalRef, target: LocalRef) -> None:
        """See `WaitGraph.enter`."""
        self._gate.step.shares.add(self._name(waiter))
        super().enter(waiter, target)

    def leave(self, waiter: LocalRef, target: LocalRef) -> None:
        """See `WaitGraph.leave`."""
        self._gate.step.shares.add(self._name(waiter))
        super().leave(waiter, target)

    def _way(self, start: LocalRef, goal: LocalRef) -> list[LocalRef] | None:
        self._gate.step.looks.add(self._name(start))
        return super()._way(start, goal)

    def _next(self, ref: LocalRef) -> list[LocalRef]:
        self._gate.step.looks.add(self._name(ref))
        return super()._next(ref)

    def _name(self, ref: LocalRef) -> str:
        name = self._names.get(ref)
        if name is None:
            name = self._names[ref] = f"waits of {self._gate.owners.short(ref.path)}"
        return name


@final
class WatchedClock(trio.abc.Clock):
    """A `MockClock`, composed since it is final: whoever reads it depends on timers."""

    def __init__(self, clock: trio.testing.MockClock, read: Callable[[], None]) -> None:
        self._clock = clock
        self._read = read

    def start_clock(self) -> None:
        """See `trio.abc.Clock`."""
        self._clock.start_clock()

    def current_time(self) -> float:
        """See `trio.abc.Clock`. A look of trio, or of this library, is no look of an actor."""
        here = inspect.currentframe()
        frame = None if here is None else here.f_back
        while frame is not None and frame.f_code.co_name == "current_time":
            frame = frame.f_back
        if frame is None or frame.f_globals is _LOOP:
            return self._clock.current_time()  # the loop asks once a turn
        if not str(frame.f_globals.get("__name__", "")).startswith(_OURS):
            self._read()
        return self._clock.current_time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """See `trio.abc.Clock`."""
        return self._clock.deadline_to_sleep_time(deadline)

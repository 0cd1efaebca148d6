"""Virtual time: timers of actors, and the deadlines of trio's cancel scopes, as events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import trio

from ._event import Event

if TYPE_CHECKING:
    from ._gate import Gate

# Tasks of the runtime that look after things for ever: alone they keep no schedule from its rest.
DAEMONS: Final = ("claims of host", "trouper ")


class _Deadline:
    """The deadline of one cancel scope, for as long as it is the same."""

    __slots__ = ("due", "event", "owner")

    def __init__(self, owner: str, due: float) -> None:
        self.owner = owner
        self.due = due
        self.event: Event | None = None  # once a step has ended with it


@final
class Alarms:
    """What is due when. One is next; the clock jumps there when it is chosen."""

    def __init__(self, gate: Gate, clock: trio.testing.MockClock) -> None:
        self._gate = gate
        self._clock = clock
        self._due: dict[Event, tuple[float, Callable[[], None], int]] = {}
        self._scopes: dict[trio.CancelScope, _Deadline] = {}

    @property
    def now(self) -> float:
        """Seconds of virtual time."""
        return self._clock.current_time()

    def set(self, event: Event, due: float, ring: Callable[[], None]) -> None:
        """Let an event take place at a time."""
        stamp = next(self._gate.stamps)
        self._due[event] = due, ring, stamp
        self._gate.step.creates.append((stamp, event))
        self._gate.step.arms = True

    def pop(self, event: Event) -> None:
        """Forget what is due."""
        if self._due.pop(event, None) is not None:
            self._gate.step.arms = True

    def next(self) -> Event | None:
        """Return what is due first; None if nothing is, or only what looks after things."""
        if not self._due or all(event.target.startswith(DAEMONS) for event in self._due):
            return None
        return min(self._due, key=lambda event: (self._due[event][0], event))

    def stamps(self) -> dict[Event, int]:
        """Return the places of all that is due in the order in which it was set."""
        return {event: stamp for event, (_, _, stamp) in self._due.items()}

    def next_due(self) -> float | None:
        """Return when the next one is due."""
        event = self.next()
        return None if event is None else self._due[event][0]

    def ring(self, event: Event) -> None:
        """Let time pass up to an event, and let it take place."""
        due, ring, _ = self._due.pop(event)
        self.move_to(due)
        ring()

    def move_to(self, due: float) -> None:
        """Let time pass."""
        self._clock.jump(max(0.0, due - self.now))

    # --- deadlines --------------------------------------------------------------------------------

    def deadline_set(self, scope: trio.CancelScope) -> None:
        """Hear that a scope has a deadline, another one perhaps."""
        self._gate.step.arms = True
        due = self._gate.deadlines.due(scope)
        known = self._scopes.get(scope)
        owner = known.owner if known is not None else self._gate.owner()
        if known is not None and known.event is not None:
            self._gate.withdraw(known.event)
        assert due is not None
        self._scopes[scope] = _Deadline(owner, due)

    def look(self) -> None:
        """See which deadlines there are now, at the end of a step."""
        if not self._scopes:
            return
        gate = self._gate
        for scope, known in list(self._scopes.items()):
            if gate.deadlines.due(scope) is None:
                del self._scopes[scope]
                if known.event is not None and known.event in self._due:
                    gate.withdraw(known.event)
            elif known.event is None:
                known.event = gate.mint("timer", known.owner, known.owner, "deadline")
                self.set(known.event, known.due, self._passing(scope))

    def _passing(self, scope: trio.CancelScope) -> Callable[[], None]:
        return lambda: self._gate.deadlines.expire_one(scope)

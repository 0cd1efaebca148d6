"""The way between the desks of one system and its store: their units go together.

Desks call the courier, and it sets out when all that stood on `ready` before has had its turn: it
takes along what each of them has decided by then. It does not set out again before it is back with
the verdicts and has told them, since those who were answered have more to say, and that goes
together too. There is no timer and no window; a unit that is alone goes at once.

Large batches are what makes durable messages cheap: what a flush costs is shared, and the writer's
thread does not take the interpreter from the loop for a few units at a time (ADR 0007).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import trio

from ...errors import TrouperError
from ...mailbox import Dispatcher, Stepper
from ...store import Store
from ._unit import Unit

if TYPE_CHECKING:
    from ._desk import Desk


@final
class Courier(Stepper):
    """Takes units to the store, and verdicts back to the desks."""

    __slots__ = ("_away", "_back", "_callers", "_store")

    def __init__(self, dispatcher: Dispatcher, store: Store) -> None:
        super().__init__(dispatcher)
        self._store = store
        self._callers: list[Desk] = []  # who have something to be written
        self._away = 0  # units that the store has
        self._back: deque[Unit] = deque()  # whose verdicts are to be told

    def call(self, desk: Desk) -> None:
        """Take along what a desk has decided by then; `Desk.land` hears of the verdict."""
        if not desk.has_called:
            desk.has_called = True
            self._callers.append(desk)
            if not self._away:
                self.dispatcher.enlist(self)

    def step(self) -> int:
        """Tell some verdicts, or set out. Called by a worker, never by anybody else."""
        back = self._back
        told = min(len(back), self.dispatcher.turns)
        now = trio.current_time() if told else 0.0
        for _ in range(told):
            unit = back.popleft()
            unit.desk.land(unit, now)
        if back or (told and self._callers):
            self.dispatcher.enlist(self)
        elif self._callers and not self._away:
            self._set_out()
        return told or 1

    def _set_out(self) -> None:
        callers, self._callers = self._callers, []
        units: list[Unit] = []
        for desk in callers:
            desk.has_called = False
            unit = desk.launch()
            if unit is not None:  # else it was dropped, or its life is over
                units.append(unit)
        if not units:
            return
        self._away = len(units)
        try:
            self._store.submit_all(units, self._return)
        except TrouperError as error:  # closed, or lost
            self._return(units, [error.again() for _ in units])

    def _return(self, units: Sequence[Unit], errors: Sequence[BaseException | None]) -> None:
        # Runs in the loop's callback task: note and enlist, nothing else.
        self._away -= len(units)
        for unit, error in zip(units, errors, strict=True) if any(errors) else ():
            unit.error = error
        self._back.extend(units)
        if not self.dispatcher.closed:
            self.dispatcher.enlist(self)

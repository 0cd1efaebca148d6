"""The single writer: what groups, operations and activations are.

Journal first, then apply, then reply. A pass takes the commands that arrived, decides, and hands
one unit to the store; no task waits for it. When the commit is durable another pass follows, and
only then its state changes and its replies go out. One unit is in flight at a time; what
arrives meanwhile shares the next one, so a busy writer pays one flush for many commands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import outcome

from ..mailbox import Dispatcher, Stepper
from ..store import Store, Tx

C = TypeVar("C")


class Plan:
    """A decision on its way to the journal: the unit, what to do once it is durable, or refused."""

    __slots__ = ("refused", "release", "unit", "verdict")

    def __init__(
        self,
        unit: Callable[[Tx], Any],
        release: Callable[[Any], None],
        refused: Callable[[Exception], None] | None = None,
    ) -> None:
        self.unit = unit
        self.release = release
        self.refused = refused
        self.verdict: outcome.Outcome[Any] | None = None


class SingleWriter(Stepper, Generic[C]):
    """An actor whose facts live in the journal. Subclasses say how commands become a `Plan`."""

    __slots__ = ("_fail", "_flight", "_inbox", "_store")

    def __init__(
        self, dispatcher: Dispatcher, store: Store, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__(dispatcher)
        self._store = store
        self._fail = fail
        self._inbox: deque[C] = deque()
        self._flight: Plan | None = None

    def plan(self, inbox: deque[C]) -> Plan | None:
        """Take commands and decide; None when nothing is to be journaled. Must not block."""
        raise NotImplementedError

    @property
    def in_flight(self) -> bool:
        """Tell whether a unit waits for its verdict."""
        return self._flight is not None

    @property
    def pending(self) -> bool:
        """Tell whether commands wait, or a unit does."""
        return self._flight is not None or bool(self._inbox)

    def post(self, command: C) -> None:
        """Take a command; it is decided in one of the next passes, in arrival order."""
        self._inbox.append(command)
        self.dispatcher.enlist(self)

    def post_last(self, command: C) -> None:
        """Take a command as the last thing that its task does: a pass may follow inside the call.

        See `Dispatcher.pass_now`.
        """
        self._inbox.append(command)
        self.dispatcher.pass_now(self)

    def step(self) -> None:
        """Run one pass. Called by the dispatcher, never by anybody else."""
        try:
            flight = self._flight
            if flight is not None:
                if flight.verdict is None:
                    return
                self._flight = None
                self._land(flight)
            if self._flight is None:
                self._launch()
        except BaseException as bug:  # Ctrl-C in a durable step, or a bug: the system ends with it
            self._fail(bug)

    def _land(self, flight: Plan) -> None:
        verdict = flight.verdict
        if isinstance(verdict, outcome.Value):
            flight.release(verdict.value)
            return
        assert isinstance(verdict, outcome.Error)
        error = verdict.error
        if flight.refused is not None and isinstance(error, Exception):
            flight.refused(error)
        else:
            self._fail(error)

    def _launch(self) -> None:
        plan = self.plan(self._inbox)
        if plan is None:
            return
        self._flight = plan
        self._store.submit(plan.unit, self._completed)

    def _completed(self, verdict: outcome.Outcome[Any]) -> None:
        # Runs in the loop's callback task, which no exception may leave: a pass raises none.
        if self._flight is not None:
            self._flight.verdict = verdict
            self.dispatcher.pass_now(self)

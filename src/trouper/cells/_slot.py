"""The shell around one cell's rules: applies decisions, and is the only one to do so.

Everything here runs on the loop's thread: in the task of a caller, in a task that serves
providers, or in a callback from the cell's thread. The cell's state has this one writer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import outcome
import trio

from ..errors import GuestDeadline, ShuttingDown
from ._activation import Activation, result_of
from ._cell import (
    Action,
    Capped,
    Cell,
    CellState,
    Closed,
    Event,
    Killed,
    Lease,
    Opened,
    Reconcile,
    Returned,
    decide,
)
from ._lock_step import PATIENCE
from ._provider import answer, begin
from ._quarantine import CellView, Quarantine
from ._shim import Shim
from ._transport import TransportName, make_transport

if TYPE_CHECKING:
    from ._wasm import Frame, Runtime

guest_log = logging.getLogger("trouper.cells.guest")
log = logging.getLogger("trouper.cells")


class Owner(Protocol):
    """What a slot asks of its pool."""

    nursery: trio.Nursery
    token: trio.lowlevel.TrioToken
    cleanup: float
    transport: TransportName

    def account(self, frame: Frame) -> None:
        """Add what a frame used to the totals."""
        ...

    def ended(self, slot: Slot) -> None:
        """Learn that a lease ended: the cell is free, or quarantined."""
        ...


class Slot:
    """One cell with its thread and whoever runs in it."""

    def __init__(self, index: int, owner: Owner, runtime: Runtime) -> None:
        self.index = index
        self.cell = Cell()
        self._owner = owner
        self.transport = make_transport(
            owner.transport, f"trouper-cell-{index}", runtime, owner.token, self
        )
        self._activation: Activation | None = None
        self._cap: trio.CancelScope | None = None  # of the cleanup cap, while it runs
        self._last_guest = ""  # for the quarantine's text, once the activation is gone

    # --- what the pool asks

    def lease(self, activation: Activation) -> None:
        """Start a run in this free cell."""
        self._activation = activation
        self._last_guest = activation.guest.name
        self._apply(Lease())

    def kill(self) -> None:
        """End the run of the live lease; harmless when there is none."""
        self._apply(Killed(self.cell.generation))

    def close(self) -> None:
        """End the run because the pool ends."""
        activation = self._activation
        if activation is not None:
            activation.decide(
                outcome.Error(ShuttingDown(f"guest {activation.guest.name!r}: the pool closed"))
            )
            self.kill()

    def reconcile(self) -> None:
        """Look at the evidence of a quarantined cell again."""
        self._apply(Reconcile())

    def quarantine(self) -> Quarantine | None:
        """Return why this cell is out of service, or None."""
        cell = self.cell
        if cell.state is not CellState.QUARANTINED:
            return None
        return Quarantine(
            self.index, cell.generation, self._last_guest, cell.reasons, cell.missing()
        )

    def view(self) -> CellView:
        """Return this cell for display."""
        activation = self._activation
        guest, key = (activation.guest.name, activation.key) if activation else (None, None)
        return CellView(self.index, self.cell.state, self.cell.generation, guest, key)

    # --- decisions

    def _apply(self, event: Event) -> tuple[Action, ...]:
        decision = decide(self.cell, event)
        self.cell = decision.cell
        for action in decision.actions:
            match action:
                case Action.START:
                    self._start()
                case Action.KILL:
                    self._end_run()
                case Action.WATCH:
                    self._owner.nursery.start_soon(self._watch, self.cell.generation)
                case Action.FREE:
                    self._end_lease()
                case Action.QUARANTINE:
                    log.warning("cell %d is quarantined: %s", self.index, self.cell.reasons)
                    self._end_lease()
                case Action.SERVE | Action.REPLY | Action.ACCOUNT:
                    pass  # done by whoever brought the event, with what it brought
        return decision.actions

    def _start(self) -> None:
        from ._wasm import Job

        activation = self._activation
        assert activation is not None
        guest, generation = activation.guest, self.cell.generation
        ask = self.transport.asker(generation, activation.bridge)
        shim = Shim(guest.limits, frozenset(guest.imports), activation.bridge, ask)
        if guest.deadline is not None:
            activation.scope.deadline = trio.current_time() + guest.deadline
        self.transport.start(
            Job(generation, activation.image, guest.export, activation.data, guest.limits, shim)
        )

    def _end_run(self) -> None:
        activation = self._activation
        assert activation is not None
        # In this order: the run reads the flag after it set its epoch deadline and before each
        # host call, so one that misses the bump or the poison sees the flag.
        activation.bridge.dying = True
        activation.providers.cancel()
        self.transport.kill(activation.bridge)

    def _end_lease(self) -> None:
        if self._cap is not None:
            self._cap.cancel()
        activation, self._activation = self._activation, None
        if activation is not None:
            activation.finish()
        self._owner.ended(self)

    async def _watch(self, generation: int) -> None:
        if not self._cleans(generation):
            return
        deadline = trio.current_time() + self._owner.cleanup
        # Shielded: the cap has to come even when everything around the pool is cancelled.
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            self._cap = scope
            await trio.sleep_forever()
        if self._cap is scope:
            self._cap = None
        if self._cleans(generation):
            self._apply(Capped(generation))

    def _cleans(self, generation: int) -> bool:
        return self.cell.generation == generation and self.cell.state is CellState.CLEANING

    # --- what the cell's thread and the providers say

    def on_frame(self, generation: int, frame: Frame) -> None:
        """See `Listener.on_frame`."""
        activation = self._activation
        live = generation == self.cell.generation and activation is not None
        if activation is not None and live and not self.cell.killed:
            activation.decide(result_of(activation.guest, frame))
        if Action.ACCOUNT in self._apply(Returned(generation, frame.store_dead, frame.unexpected)):
            self._owner.account(frame)
            for line in frame.logs:
                guest_log.info("%s: %s", self._last_guest, line)

    def on_request(self, generation: int, name: str, request: bytes) -> bool:
        """See `Listener.on_request`."""
        activation = self._activation
        if Action.SERVE not in self._apply(Opened(generation, len(request))):
            return False
        assert activation is not None

        def closed(result: outcome.Outcome[object]) -> None:
            self._on_response(generation, len(request), result)

        begin(activation, name, request, self._owner.nursery, self.transport, closed)
        return True

    def on_overrun(self, generation: int) -> None:
        """See `Listener.on_overrun`."""
        activation = self._activation
        assert activation is not None
        activation.decide(
            outcome.Error(
                GuestDeadline(
                    f"guest {activation.guest.name!r} ran for {PATIENCE} s without a word, and in "
                    "lock-step nothing else can happen meanwhile; give it less fuel"
                )
            )
        )
        self._apply(Killed(generation))

    def _on_response(self, generation: int, size: int, result: outcome.Outcome[object]) -> None:
        activation = self._activation
        if Action.REPLY not in self._apply(Closed(generation, size)):
            return
        assert activation is not None
        response = answer(activation.guest, size, result)
        if isinstance(response, bytes):
            self.transport.resume(activation.bridge, response)
        else:
            activation.decide(outcome.Error(response))
            self.kill()

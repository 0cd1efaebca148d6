"""Signals to activations: who may still take one, and who is woken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...store import Tx
from ..groups import Signal, is_open, refused, require_open_scope
from ._rows import TABLE, ActivationRow, activation_key

if TYPE_CHECKING:
    from ._service import Activations


async def send_signal(
    service: Activations, key: str, name: str, payload: Any, known_by: str | None
) -> None:
    """Journal a signal for an activation, or for a scope of the host of that name.

    Raises:
        SignalRefused: nobody could ever take it.
        SignalsFull: too many of its name wait there.
        ValueRefused, TooLarge: a name or a payload that the journal does not carry.
    """
    service.require_open(key)
    signal = Signal.make(key, name, payload, known_by, service.host.now())
    actor = service.in_memory(key)
    if actor is not None:
        await actor.recorded()  # one that was started just now is no unknown one
    await service.host.send_signal(signal, lambda tx: _require_taker(tx, signal))


def _require_taker(tx: Tx, signal: Signal) -> None:
    row = tx.get(TABLE, activation_key(signal.address), ActivationRow)
    if row is None:
        require_open_scope(tx, signal.address, signal.name)
    elif row.ended and not is_open(tx, signal.address):
        raise refused(signal.address, signal.name, "ended", "the activation has ended")

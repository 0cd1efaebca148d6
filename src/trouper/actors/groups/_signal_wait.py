"""Waiting for a signal: a runner that looks at the journal, and is woken by news of it."""

from __future__ import annotations

from ...store import Store
from ._envelope import EffectEnvelope
from ._outcome import Cancelled
from ._roster import roster_of
from ._rows import GROUP_TABLE, GroupRow, group_key
from ._runner import EffectContext
from ._signals import SignalTake, address_of, oldest


class SignalRunner:
    """Waits until a signal of its name is there. Whoever records its end takes it.

    It looks where it was opened: at the key of its activation, or at the scope of its group.
    """

    __slots__ = ("_envelope", "_store")
    releasable = True

    def __init__(self, store: Store, envelope: EffectEnvelope) -> None:
        self._store = store
        self._envelope = envelope

    async def run(self, ctx: EffectContext) -> SignalTake | Cancelled:
        """Wait. In a group that was closed there is nothing to wait for."""
        address, name = address_of(self._store, self._envelope.scope), self._envelope.name
        board = roster_of(self._store).board
        while True:
            news = board.news("signal", address, name)
            if self._is_closed():
                return Cancelled()
            if oldest(self._store, address, name) is not None:
                return SignalTake(address, name)
            await news.wait()

    def _is_closed(self) -> bool:
        membership = self._envelope.membership
        if membership is None:
            return False
        row = self._store.get(GROUP_TABLE, group_key(membership.group), GroupRow)
        return row is not None and row.closed

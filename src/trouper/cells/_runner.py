"""Guests as a runner kind: how an envelope of kind ``guest`` finds a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.groups import EffectContext, EffectEnvelope
from ..errors import GuestRefused
from ._guest import Guest

if TYPE_CHECKING:
    from ._pool import CellPool


class GuestRunner:
    """Runs one call of a guest in a cell of the pool; waits its turn like any other caller.

    A guest run is one effect, at least once: its providers repeat with it.
    """

    __slots__ = ("_envelope", "_guest", "_pool")
    releasable = False

    def __init__(self, pool: CellPool, guest: Guest, envelope: EffectEnvelope) -> None:
        self._pool = pool
        self._guest = guest
        self._envelope = envelope

    async def run(self, ctx: EffectContext) -> bytes:
        """Run the guest. A cancel ends when its cell is proven clean, or quarantined."""
        args, kwargs = self._envelope.call()
        if len(args) != 1 or kwargs or not isinstance(args[0], bytes):
            raise GuestRefused(
                f"guest {self._guest.name!r} takes one bytes argument, it was called with "
                f"{len(args)} positional and {len(kwargs)} keyword arguments",
                rule="arguments",
                where=self._envelope.replay_key,
            )
        return await self._pool.run(self._guest, args[0], key=ctx.key)

"""Reading ranks through handles: the cursor moves by what was returned, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...errors import CursorOutOfRange, HandleBusy
from ._actor import GroupActor
from ._handle import GroupHandle, Settlement


class Cursors:
    """Serves ranks to handles. It keeps nothing per caller, but that somebody waits."""

    def __init__(
        self, group: Callable[[str], GroupActor], exhausted: Callable[[GroupActor], None]
    ) -> None:
        self._group = group
        self._exhausted = exhausted
        self._busy: set[int] = set()  # handles somebody waits on

    async def next(self, handle: GroupHandle) -> Settlement:
        """See `EffectHost.next_settlement`."""
        return (await self._ranks(handle, 1))[0]

    async def recorded(self, handle: GroupHandle) -> list[Settlement]:
        """See `EffectHost.next_settlements`."""
        return await self._ranks(handle, handle.children)

    async def _ranks(self, handle: GroupHandle, limit: int) -> list[Settlement]:
        if handle.exhausted:
            raise CursorOutOfRange(
                f"all {handle.children} children of group {handle.key!r} are consumed",
                key=handle.key,
                consumed=handle.consumed,
                children=handle.children,
            )
        if id(handle) in self._busy:
            raise HandleBusy(
                f"another task waits on this handle of group {handle.key!r}; make one per task",
                key=handle.key,
            )
        self._busy.add(id(handle))
        try:
            await trio.lowlevel.checkpoint()
            actor = self._group(handle.key)
            if actor.row.children != handle.children:
                raise CursorOutOfRange(
                    f"the handle counts {handle.children} children, group {handle.key!r} has "
                    f"{actor.row.children}",
                    key=handle.key,
                )
            while True:
                actor.require_open(handle)
                recorded = min(len(actor.settled), handle.consumed + limit)
                if recorded > handle.consumed:
                    ranks = range(handle.consumed + 1, recorded + 1)
                    found = [actor.settlement(rank) for rank in ranks]
                    handle.consumed = recorded  # behind the decoding: what raised was not served
                    if handle.exhausted:
                        self._exhausted(actor)
                    return found
                await actor.changed()
        finally:
            self._busy.discard(id(handle))

"""Keeps the claims of running children alive, while there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import trio

from ...store import Store
from ._actor import RunningChild
from ._ledger import renew_all


class ClaimKeeper:
    """Renews claims at a third of the lease, those of all runners of a host in one unit.

    Silence for a whole lease then means trouble, and still proves nothing about the old runner. A
    child whose claim was lost is interrupted: its result would meet the fence.
    """

    def __init__(
        self,
        store: Store,
        lease: float,
        running: Callable[[], Iterable[tuple[str, RunningChild]]],
    ) -> None:
        self._store = store
        self._lease = lease
        self._running = running
        self._needed = trio.Event()

    def needed(self) -> None:
        """Take note that a child was dispatched; an idle host does not wake for its claims."""
        self._needed.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Renew, for ever."""
        while True:
            await self._needed.wait()
            await trio.sleep(self._lease / 3)
            children = {(key, child.position): child for key, child in self._running()}
            if not children:
                self._needed = trio.Event()
                continue
            held = [(key, position, child.held) for (key, position), child in children.items()]
            expires = trio.current_time() + self._lease
            lost = await self._store.commit(partial(renew_all, held=held, expires=expires))
            for key, position, _ in lost:
                children[key, position].context.interrupt()

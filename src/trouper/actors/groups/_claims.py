"""Keeps the claims of running children alive, while there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import trio

from ...store import Store, Tx
from ._actor import RunningChild
from ._ledger import renew_all
from ._rules import Claim

Renewal: TypeAlias = Callable[[Tx, float], None]
"""Extends claims of another kind, to the given end, within a unit."""


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
        self._others: list[Callable[[], Renewal | None]] = []

    def also(self, other: Callable[[], Renewal | None]) -> None:
        """Renew claims of another kind as well: what this returns, unless there are none now."""
        self._others.append(other)

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
            others = [renew for other in self._others if (renew := other()) is not None]
            if not children and not others:
                self._needed = trio.Event()
                continue
            held = [(key, position, child.held) for (key, position), child in children.items()]
            lost = await self._renew(held, others)
            for key, position, _ in lost:
                children[key, position].context.interrupt()

    async def _renew(
        self, held: list[tuple[str, int, Claim]], others: list[Renewal]
    ) -> list[tuple[str, int, Claim]]:
        expires = trio.current_time() + self._lease

        def unit(tx: Tx) -> list[tuple[str, int, Claim]]:
            for renew in others:
                renew(tx, expires)
            return renew_all(tx, held, expires)

        return await self._store.commit(unit)

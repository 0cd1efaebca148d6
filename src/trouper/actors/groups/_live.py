"""The groups that a host has in memory, as views of what the journal holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._ids import Incarnation
from ...errors import CorruptGroup, GroupShapeError
from ...mailbox import Dispatcher
from ...store import Store
from .._key import require_text
from ._actor import GroupActor
from ._board import Board
from ._contract import EffectHostBase
from ._ledger import ranks_above
from ._retire import retired
from ._roster import roster_of
from ._rows import (
    CHILD_TABLE,
    GROUP_TABLE,
    ChildRow,
    GroupRow,
    child_key,
    children_prefix,
    group_key,
)
from ._signals import (
    SIGNALS_KEPT,
    RequireTaker,
    Signal,
    address_of,
    require_open_scope,
    send,
)
from ._sweep import GROUPS, SCOPES, sweep_key
from ._sweeper import Sweeper
from ._timer import Clock


class LiveGroups(EffectHostBase):
    """The part of a host that reads groups, hears news of them, and lets go of them."""

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        clock: Clock,
        fail: Callable[[BaseException], None],
        *,
        signal_limit: int = SIGNALS_KEPT,
    ) -> None:
        if signal_limit < 1:
            raise ValueError(f"signal_limit is at least 1, it is {signal_limit!r}")
        self.store = store
        self.dispatcher = dispatcher
        self.fail = fail
        self.owner: Incarnation = store.next_owner()
        self.fences_moved = 0  # writer: group actors
        self.settled = 0  # children ranked by this host; writer: group actors
        self._clock = clock
        self._signal_limit = signal_limit
        self._groups: dict[str, GroupActor] = {}  # writer: this class, and the host's `adopt`
        self._roster = roster_of(store)
        self._roster.join(self)
        self._sweeper = Sweeper(dispatcher, store, fail, self._scope_gone, self.called("sweeper"))
        self._sweeper.resume()

    def now(self) -> float:
        """Return the time of journaled facts (UTC, seconds)."""
        return self._clock.now()

    def called(self, part: str) -> str:
        """Return what schedules call a part of this host: several hosts may share a store."""
        number = self.owner.number
        return part if number == 1 else f"{part} of host {number}"

    def is_dead(self, owner: Incarnation) -> bool:
        """Tell whether an incarnation is known to be dead; silence is no proof."""
        return self._roster.is_dead(owner)

    @property
    def board(self) -> Board:
        """Return where the hosts of this store tell one another what changed."""
        return self._roster.board

    # -- reading --------------------------------------------------------------------------------

    def group(self, key: str) -> GroupActor:
        """Return the group's actor, reading it from the journal when it is not in memory."""
        actor = self._groups.get(key)
        if actor is None:
            row, children = self._read(key)
            actor = self._groups[key] = GroupActor(self, row, children)
        self.dispatcher.touch(actor)
        return actor

    def _read(self, key: str) -> tuple[GroupRow, Sequence[ChildRow]]:
        row = self.store.get(GROUP_TABLE, group_key(key), GroupRow)
        if row is None:
            raise GroupShapeError(f"group {key!r} is not in the journal; open it first", key=key)
        if row.retired:
            raise retired(key)
        return row, [c for _, c in self.store.scan(CHILD_TABLE, children_prefix(key), ChildRow)]

    def in_memory(self, key: str) -> GroupActor | None:
        """Return the group's actor if it is in memory."""
        actor = self._groups.get(key)
        if actor is not None:
            self.dispatcher.touch(actor)
        return actor

    def is_settled(self, key: str, position: int) -> bool:
        """Tell whether a child has its terminal in the journal, or had it."""
        group = self.store.get(GROUP_TABLE, group_key(key), GroupRow)
        if group is not None and group.retired:
            return True
        child = self.store.get(CHILD_TABLE, child_key(key, position), ChildRow)
        return child is not None and child.settled

    # -- news -----------------------------------------------------------------------------------

    def reread(self, actor: GroupActor) -> None:
        """Take the journal's word for a group: what is new of it, since no recorded rank changes.

        Costs a read of what is new, however wide the group is.
        """
        row = self.store.get(GROUP_TABLE, group_key(actor.key), GroupRow)
        if row is None or row.retired:
            self._groups.pop(actor.key, None)
            actor.retire()
            return
        try:
            actor.catch_up(row, ranks_above(self.store, actor.key, actor.last_sequence))
        except CorruptGroup as damage:
            actor.damaged(damage)

    def noticed(self, key: str) -> None:
        """Read a group again: another host on this store changed it."""
        actor = self.in_memory(key)
        if actor is not None:
            self.reread(actor)
            actor.apply_close(actor.row)
            actor.announce()
            self.forget_settled(actor)

    def changed_by_drain(self, key: str) -> None:
        """Read a group again after a drain pass, if it is in memory, and spread the news."""
        self.noticed(key)
        self._sweeper.look(sweep_key(GROUPS, key))
        self._roster.tell_peers(self, key)

    def group_changed(self, actor: GroupActor) -> None:
        """Spread the news of new ranks, and drop the group from memory once nobody needs it."""
        if actor.row.retired:
            self.retired(actor.row)
            return
        self._roster.tell_peers(self, actor.key)
        self.forget_settled(actor)

    def closed(self, row: GroupRow) -> None:
        """Act on a close that is durable."""
        if row.retired:
            self.retired(row)
            return
        actor = self.in_memory(row.key)
        if actor is not None:
            actor.apply_close(row)
            actor.announce()
            self.forget_settled(actor)
        self._roster.tell_peers(self, row.key)

    def forget_settled(self, actor: GroupActor) -> None:
        """Drop a group that is closed and settled from memory; its rows stay."""
        idle = not actor.unsettled and not actor.running and not actor.watchers
        if idle and actor.row.closed and not actor.in_flight:
            self._groups.pop(actor.key, None)

    # -- signals --------------------------------------------------------------------------------

    async def signal(
        self,
        scope: str,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of whoever sends
    ) -> None:
        """Send a signal to whoever waits for one of its name in a scope, or will.

        Returns when it is in the journal, behind those of its name that came before. Each is taken
        by one wait, the oldest first; what nobody takes goes with the scope.

        Args:
            scope: That of an open group; with the combinators of a host it is their key.
            name: What the wait names.
            payload: What the wait gives; a plain value.
            id: Makes a repeat harmless: a second signal under one id is not kept.

        Raises:
            SignalRefused: no group of the scope is open, or the id belongs to another signal.
            SignalsFull: too many of this name wait there.
            ValueRefused, TooLarge: a name or a payload that the journal does not carry.
        """
        if not self.supports_groups:
            raise self.unsupported("signal")
        address = address_of(self.store, require_text(scope, "a scope"))
        signal = Signal.make(address, name, payload, id, self.now())
        await self.send_signal(signal, lambda tx: require_open_scope(tx, scope, name))

    async def send_signal(self, signal: Signal, require_taker: RequireTaker) -> None:
        """Journal a signal unless ``require_taker`` refuses, and wake whoever waits for it."""
        limit = self._signal_limit
        await self.store.commit(lambda tx: send(tx, signal, require_taker, limit))
        self.signalled(signal.address, signal.name)

    def signalled(self, address: str, name: str) -> None:
        """Wake whoever waits for a signal, on each host of this store."""
        self.board.tell("signal", address, name)

    # -- retirement -----------------------------------------------------------------------------

    def retired(self, row: GroupRow) -> None:
        """Act on a retirement that is durable."""
        actor = self._groups.pop(row.key, None)
        if actor is not None:
            self.dispatcher.touch(actor)
            actor.retire()
            actor.announce()
        self._sweeper.look(sweep_key(GROUPS, row.key))
        self._roster.tell_peers(self, row.key)

    async def sweep(self, scope: str) -> None:
        """Sweep a scope that is marked, and wait until it is gone or the host closes."""
        where = sweep_key(SCOPES, scope)
        if not self._sweeper.look(where):
            self._scope_gone()
        await self._sweeper.until_gone(where)

    def _scope_gone(self) -> None:
        self.look_again()
        self._roster.tell_swept(self)

    def look_again(self) -> None:
        """Let go of finished groups that went with their scope."""
        for actor in list(self._groups.values()):
            if actor.row.finished:
                self.noticed(actor.key)

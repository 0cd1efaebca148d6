"""Who works on an open store: this process's hosts, and the incarnations known to be dead.

Several hosts may share one open store, each with an incarnation of its own. The store is the truth;
the roster only carries the news that another host changed a group, and the proof of death that
frees a claim at once (ruling 6).
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakKeyDictionary

from ..._ids import Incarnation
from ...mailbox import Dispatcher
from ...store import Store
from ._board import Board


class Neighbour(Protocol):
    """A host, as its peers on the same store see it."""

    owner: Incarnation
    dispatcher: Dispatcher

    def noticed(self, key: str) -> None:
        """Read a group again: a peer changed it."""
        ...

    def look_again(self) -> None:
        """Read again what is finished: a peer swept a scope."""
        ...


class Roster:
    """The hosts of one opening of one store."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.board = Board()
        self._hosts: dict[int, Neighbour] = {}  # writer: join and leave
        self._dead: set[int] = set()  # writer: leave

    def join(self, host: Neighbour) -> None:
        """Add a host."""
        self._hosts[host.owner.number] = host
        self.board.dispatcher = host.dispatcher

    def leave(self, host: Neighbour) -> None:
        """Remove a host whose last task has ended: from now on its claims are free."""
        self._hosts.pop(host.owner.number, None)
        self._dead.add(host.owner.number)
        self.board.tell_all("operation")  # what it attempted may be attempted again
        # A roster lives as long as its store, and what it holds must not hold that store.
        self.board.dispatcher = None
        for other in self._hosts.values():
            self.board.dispatcher = other.dispatcher

    def is_dead(self, owner: Incarnation) -> bool:
        """Tell whether an incarnation is known to be dead; silence is no proof."""
        return owner.epoch < self.epoch or owner.number in self._dead

    def tell_peers(self, host: Neighbour, key: str) -> None:
        """Tell the other hosts that a group changed."""
        for number in sorted(self._hosts):
            peer = self._hosts[number]
            if peer is not host:
                peer.noticed(key)

    def tell_swept(self, host: Neighbour) -> None:
        """Tell the other hosts that a scope or a group is gone."""
        for number in sorted(self._hosts):
            peer = self._hosts[number]
            if peer is not host:
                peer.look_again()


_ROSTERS: WeakKeyDictionary[Store, Roster] = WeakKeyDictionary()


def roster_of(store: Store) -> Roster:
    """Return the roster of a store's current opening."""
    roster = _ROSTERS.get(store)
    if roster is None or roster.epoch != store.epoch:
        roster = _ROSTERS[store] = Roster(store.epoch)
    return roster

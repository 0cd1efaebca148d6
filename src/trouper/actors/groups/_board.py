"""News of the journal by topic, for whoever waits for a row that another writer changes.

The rows are the truth, and the board only wakes: who waits takes the event, then looks, then waits.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import trio

Topic = tuple[str, ...]


class Board:
    """The topics that somebody waits for on one opening of one store."""

    def __init__(self) -> None:
        # Held by whoever waits, so a topic that nobody waits for takes no room.
        self._waited: WeakValueDictionary[Topic, trio.Event] = WeakValueDictionary()

    def news(self, *topic: str) -> trio.Event:
        """Return what is set by the next news of a topic. Take it before you look."""
        event = self._waited.get(topic)
        if event is None:
            event = self._waited[topic] = trio.Event()
        return event

    def tell(self, *topic: str) -> None:
        """Wake whoever waits for a topic."""
        event = self._waited.pop(topic, None)
        if event is not None:
            event.set()

    def tell_all(self, kind: str) -> None:
        """Wake whoever waits for any topic of a kind."""
        for topic in [each for each in self._waited if each[0] == kind]:
            self.tell(*topic)

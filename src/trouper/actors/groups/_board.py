"""News of the journal by topic, for whoever waits for a row that another writer changes.

The rows are the truth, and the board only wakes: who waits takes the event, then looks, then waits.
"""

from __future__ import annotations

from typing import final
from weakref import WeakValueDictionary

import trio

from ...mailbox import Dispatcher, News

Topic = tuple[str, ...]


@final
class Subject:
    """A topic, by the name that schedules know it by."""

    __slots__ = ("_topic",)

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    @property
    def name(self) -> str:
        """Return what schedules call it."""
        return f"news of {' '.join(self._topic)}"


class Board:
    """The topics that somebody waits for on one opening of one store."""

    def __init__(self) -> None:
        # Of one of the hosts that are there, writer: the roster. Under a schedule all share one.
        self.dispatcher: Dispatcher | None = None
        # Held by whoever waits, so a topic that nobody waits for takes no room.
        self._waited: WeakValueDictionary[Topic, News] = WeakValueDictionary()

    def news(self, *topic: str) -> News:
        """Return what is set by the next news of a topic. Take it before you look."""
        subject, dispatcher = Subject(topic), self.dispatcher
        if dispatcher is not None:
            dispatcher.touch(subject)
        event = self._waited.get(topic)
        if event is None:
            event = trio.Event() if dispatcher is None else dispatcher.news(subject)
            self._waited[topic] = event
        return event

    def tell(self, *topic: str) -> None:
        """Wake whoever waits for a topic."""
        if self.dispatcher is not None:
            self.dispatcher.touch(Subject(topic))
        event = self._waited.pop(topic, None)
        if event is not None:
            event.set()

    def tell_all(self, kind: str) -> None:
        """Wake whoever waits for any topic of a kind."""
        for topic in [each for each in self._waited if each[0] == kind]:
            self.tell(*topic)

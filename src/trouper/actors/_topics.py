"""Publish and subscribe within one system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import ActorStopped, MailboxFull, NotHandled, TopicFull
from ..mailbox import CLOSED, STOPPED
from ._callables import local
from ._dead_letters import DeadLetter, DeadLetters

if TYPE_CHECKING:
    from ._local import LocalRef
    from ._ref import Ref


class Topics:
    """Carries messages to whoever subscribed to a topic, as a `tell` to each.

    A publisher knows no subscriber, so it is never blocked or failed by one: what a subscriber has
    no room for, or no handler, becomes a dead letter that names the topic. ``limit`` bounds the
    subscribers of one topic and may be set.
    """

    def __init__(self, dead_letters: DeadLetters, *, limit: int = 1024) -> None:
        self.limit = limit
        self._dead_letters = dead_letters
        self._topics: dict[str, dict[LocalRef, None]] = {}

    def subscribe(self, topic: str, ref: Ref[Any]) -> None:
        """Let an actor have what is published from now on; it ends with the actor.

        Subscribing twice is subscribing once. A restart keeps the subscription.

        Raises:
            ActorStopped: It has ended.
            ValueError: It lives in another system.
            TopicFull: The topic has ``limit`` subscribers.
        """
        actor = local(ref)
        if actor.state == STOPPED:
            raise ActorStopped(f"{actor.path} has ended, it cannot subscribe", target=actor.path)
        if actor.system.topics is not self:  # its end would not end the subscription
            raise ValueError(
                f"{actor.path} lives in another system; subscribe an actor of this one that "
                "passes on what comes"
            )
        subscribers = self._topics.get(topic, {})
        if actor in subscribers:
            return
        if len(subscribers) >= self.limit:
            raise TopicFull(
                f"topic {topic!r} has {len(subscribers)} subscribers; raise topics.limit, or "
                "subscribe one actor that passes it on",
                topic=topic,
                limit=self.limit,
            )
        self._topics.setdefault(topic, subscribers)[actor] = None
        actor.need_belongings().topics[topic] = None

    def unsubscribe(self, topic: str, ref: Ref[Any]) -> bool:
        """End a subscription; return whether there was one."""
        actor = local(ref)
        if actor not in self._topics.get(topic, ()):
            return False
        del actor.need_belongings().topics[topic]
        self._drop(topic, actor)
        return True

    def publish(self, topic: str, message: object) -> int:
        """Tell every subscriber, in the order they subscribed; return how many took it."""
        taken = 0
        for actor in list(self._topics.get(topic, ())):
            if actor not in self._topics.get(topic, ()):
                continue  # whoever hears of dead letters may end subscriptions meanwhile
            is_open = actor.accepts is not CLOSED
            try:
                actor.tell(message)
            except MailboxFull:
                self._missed(topic, message, actor, "its mailbox is full")
            except NotHandled:
                self._missed(topic, message, actor, "it has no handler for this type")
            else:
                taken += is_open
        return taken

    def subscribers(self, topic: str) -> tuple[Ref[Any], ...]:
        """Return who gets what is published now, in order."""
        return tuple(self._topics.get(topic, ()))

    def release(self, ref: LocalRef, topics: Iterable[str]) -> None:
        """End the subscriptions of an actor that has ended; called by the runtime."""
        for topic in topics:
            self._drop(topic, ref)

    def _drop(self, topic: str, actor: LocalRef) -> None:
        subscribers = self._topics[topic]
        del subscribers[actor]
        if not subscribers:
            del self._topics[topic]

    def _missed(self, topic: str, message: object, actor: LocalRef, why: str) -> None:
        self._dead_letters.add(DeadLetter(message, actor.path, None, f"topic {topic!r}: {why}"))

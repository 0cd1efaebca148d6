"""Publish and subscribe within one system."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Actor, Ref, handles, open_system
from trouper.errors import ActorStopped, TopicFull


class Listener(Actor):
    def __init__(self, heard: list[str] | None = None) -> None:
        self.heard = heard if heard is not None else []

    @handles(str)
    def hear(self, message: str) -> None:
        if message == "crash":
            raise ValueError(message)
        self.heard.append(message)


@pytest.mark.proves("Watch: pub/sub topics")
async def test_a_topic_carries_a_message_to_every_subscriber_and_to_no_other() -> None:
    heard: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    async with open_system("s") as system:
        a, b, c = [await system.spawn(Listener, heard[n]) for n in "abc"]
        for ref in (a, b, b):
            system.topics.subscribe("news", ref)
        system.topics.subscribe("sport", c)
        assert system.topics.publish("news", "hello") == 2
        assert system.topics.publish("nobody", "hello") == 0
        await wait_all_tasks_blocked()
        assert heard == {"a": ["hello"], "b": ["hello"], "c": []}
        assert system.topics.unsubscribe("news", b) is True
        assert system.topics.unsubscribe("news", b) is False
        assert system.topics.subscribers("news") == (a,)


async def test_a_subscription_outlives_a_restart_and_ends_with_its_actor() -> None:
    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(Listener, restart="transient")
        system.topics.subscribe("news", ref)
        ref.tell("crash")
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2
        assert system.topics.subscribers("news") == (ref,)
        ref.stop()
        await ref.stopped()
        assert system.topics.subscribers("news") == ()
        with pytest.raises(ActorStopped):
            system.topics.subscribe("news", ref)


async def test_a_subscriber_in_trouble_hurts_neither_publisher_nor_others() -> None:
    heard: list[str] = []
    async with open_system("s") as system:

        class Deaf(Actor):
            pass

        full: Ref[Any] = await system.spawn(Listener, mailbox=1)
        deaf: Ref[Any] = await system.spawn(Deaf)
        for ref in (full, deaf, await system.spawn(Listener, heard)):
            system.topics.subscribe("news", ref)
        full.tell("first")
        assert system.topics.publish("news", "hello") == 1
        await wait_all_tasks_blocked()
        assert heard == ["hello"]
        assert [(letter.target, letter.reason) for letter in system.dead_letters] == [
            (full.path, "topic 'news': its mailbox is full"),
            (deaf.path, "topic 'news': it has no handler for this type"),
        ]


async def test_the_subscribers_of_a_topic_are_bounded() -> None:
    async with open_system("s") as system:
        system.topics.limit = 1
        system.topics.subscribe("news", await system.spawn(Listener))
        with pytest.raises(TopicFull) as raised:
            system.topics.subscribe("news", await system.spawn(Listener))
        assert raised.value.facts == {"topic": "news", "limit": 1}


async def test_a_subscriber_that_is_draining_takes_nothing_more() -> None:
    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(Listener)
        system.topics.subscribe("news", ref)
        ref.tell("first")
        ref.drain()
        assert system.topics.publish("news", "late") == 0
        await ref.stopped()
        assert [letter.reason for letter in system.dead_letters] == ["draining"]

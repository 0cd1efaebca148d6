"""Loads for the raw runtime and for the explorer: the same actors, the same messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from trouper import Actor, ActorSystem, Ref, Request, handles
from trouper.store import Store, Tx, record, row_key

HOPS = 100  # of one message, one schedule: about what a scenario has


@dataclass(frozen=True, slots=True)
class Hop:
    left: int


class Node(Actor[Hop]):
    next: Ref[Hop]

    @handles(Hop)
    async def pass_on(self, message: Hop) -> None:
        if message.left:
            self.next.tell(Hop(message.left - 1))


async def ring(system: ActorSystem, messages: int) -> None:
    """Messages go round eight actors."""
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node())
        return nodes[-1]

    refs = [await system.spawn(make, name=f"node{n}") for n in range(8)]
    for n, node in enumerate(nodes):
        node.next = refs[(n + 1) % len(refs)]
    for n in range(messages):
        refs[n].tell(Hop(HOPS - 1))


@dataclass(frozen=True, slots=True)
class Question(Request[int]):
    pass


class Answerer(Actor[Question]):
    @handles(Question)
    async def answer(self, message: Question) -> int:
        return 7


class Asker(Actor[Hop]):
    def __init__(self, answerer: Ref[Question]) -> None:
        self.answerer = answerer

    @handles(Hop)
    async def ask(self, message: Hop) -> None:
        for _ in range(message.left):
            assert await self.answerer.ask(Question()) == 7


async def asks(system: ActorSystem) -> None:
    """An actor asks another one, time and again: a delivery and a reply each."""
    answerer = await system.spawn(Answerer, name="answerer")
    asker = await system.spawn(Asker, answerer, name="asker")
    asker.tell(Hop(HOPS // 2))


@record("loads.row", version=1)
@dataclass(frozen=True, slots=True)
class Row:
    n: int


class Writer(Actor[Hop]):
    def __init__(self, store: Store) -> None:
        self.store = store

    @handles(Hop)
    async def write(self, message: Hop) -> None:
        for n in range(message.left):
            await self.store.commit(partial(self.put, n=n))

    @staticmethod
    def put(tx: Tx, n: int) -> None:
        tx.put("record", row_key(b"L", "row"), Row(n))


async def commits(system: ActorSystem) -> None:
    """An actor commits to the journal, time and again."""
    writer = await system.spawn(Writer, system.store, name="writer")
    writer.tell(Hop(HOPS))


Load: TypeAlias = Callable[[ActorSystem], Awaitable[None]]
LOADS: dict[str, Load] = {
    "ring": partial(ring, messages=1),
    "rings": partial(ring, messages=8),
    "asks": asks,
    "commits": commits,
}
DELIVERIES = {"ring": HOPS, "rings": 8 * HOPS, "asks": HOPS, "commits": HOPS}

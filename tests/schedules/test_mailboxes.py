"""Bounded mailboxes: nothing is lost, nobody overtakes, and room goes to who waited longest."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from tests.schedules.players import (
    ANYTIME,
    Fail,
    Get,
    Item,
    Log,
    Player,
    Run,
    Scene,
    exhaust,
    outcome_of,
    play,
)

from trouper import Context, Ref
from trouper.errors import ActorStopped, MailboxFull
from trouper.mailbox import Overflow
from trouper.testing import Scenario, Simulation


def said_by(sender: int, items: list[int]) -> list[int]:
    return [n for n in items if n // 10 == sender]


def senders(count: int, each: int, *, mailbox: int = 1, dedicated: bool = False) -> Scenario:
    """Several clients that send to one small mailbox, whose actor asks another one at first."""

    async def scenario(sim: Simulation) -> Scene:
        log, tried = Log(), list[int]()
        key = await sim.system.spawn(Player, "key", log, name="key")
        sink = await sim.system.spawn(
            Player, "sink", log, name="sink", mailbox=mailbox, dedicated=dedicated
        )
        sink.tell(Run(lambda ctx: key.ask(Get())))

        async def client(first: int) -> None:
            for n in range(first, first + each):
                tried.append(n)
                await sink.send(Item(n))

        for n in range(count):
            sim.start(client, 10 * n, name=f"client{n}")
        yield
        assert log.items == tried
        assert len(tried) == count * each

    return scenario


@pytest.mark.parametrize("dedicated", [False, True])
def test_room_is_handed_on_in_the_order_of_waiting(dedicated: bool) -> None:
    exhaust(senders(2, 2 - dedicated, dedicated=dedicated))
    play(senders(4, 3, mailbox=2, dedicated=dedicated), budget=40)


def cancelled_sender(*others: int) -> Scenario:
    return partial(with_a_cancelled_sender, others=others)


async def with_a_cancelled_sender(sim: Simulation, others: tuple[int, ...]) -> Scene:
    """One of those that wait for room goes away, at any time."""
    log, sent = Log(), list[int]()
    key = await sim.system.spawn(Player, "key", log, name="key")
    sink = await sim.system.spawn(Player, "sink", log, name="sink", mailbox=1)
    sink.tell(Run(lambda ctx: key.ask(Get())))

    async def client(n: int, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await sink.send(Item(n))
            sent.append(n)

    for n in (0, *others):
        sim.start(client, n, 9 if n else 1, name=f"client{n}")
    yield
    assert sorted(log.items) == sorted(sent)
    assert sink.statistics().waiting_senders == 0


def test_a_cancelled_send_sent_nothing_and_one_that_returned_was_taken() -> None:
    exhaust(cancelled_sender(1), rules=ANYTIME)
    play(cancelled_sender(1, 2, 3), rules=ANYTIME)


def crowd(overflow: Overflow, *, priority: bool = False) -> Scenario:
    """Asks, sends and tells to a mailbox with room for one: each ends in one way."""

    async def scenario(sim: Simulation) -> Scene:
        log, ends = Log(), dict[str, Any]()
        key = await sim.system.spawn(Player, "key", log, name="key")
        sink = await sim.system.spawn(
            Player,
            "sink",
            log,
            name="sink",
            mailbox=1,
            overflow=overflow,
            priority=(lambda m: getattr(m, "n", 0)) if priority else None,
        )
        lost = list[int]()
        sim.system.dead_letters.subscribe(lambda letter: lost.append(letter.message.n))
        sink.tell(Run(lambda ctx: key.ask(Get())))

        async def ask() -> None:
            ends["ask"] = await outcome_of(sink, Get(3))

        async def send() -> None:
            await sink.send(Item(2))

        async def tell() -> None:
            try:
                sink.tell(Item(1))
            except MailboxFull:
                lost.append(1)

        for fn in (ask, send, tell):
            sim.start(fn, name=fn.__name__)
        yield
        assert sorted(log.items + lost) == [1, 2]
        assert ends["ask"] == 3 or (ends["ask"] is MailboxFull and overflow != "wait")
        if not priority and overflow in ("wait", "reject"):
            assert 2 in log.items  # a send waits, whatever comes

    return scenario


@pytest.mark.parametrize("priority", [False, True])
@pytest.mark.parametrize("overflow", ["reject", "wait", "drop_oldest", "drop_newest"])
def test_each_message_for_a_full_mailbox_ends_in_one_way(
    overflow: Overflow, priority: bool
) -> None:
    exhaust(crowd(overflow, priority=priority))


async def restart_with_a_line(sim: Simulation) -> Scene:
    """The actor fails while one waits for room and one asks: both outlive it, in order."""
    log, got, tried = Log(), list[Any](), list[int]()
    sink = await sim.system.spawn(
        Player, "sink", log, name="sink", mailbox=1, overflow="wait", restart="permanent"
    )
    sink.tell(Fail())

    async def send(first: int) -> None:
        for n in (first, first + 1):
            tried.append(n)
            await sink.send(Item(n))

    async def ask() -> None:
        got.append(await outcome_of(sink, Get(5)))

    sim.start(send, 10, name="sender")
    sim.start(ask, name="asker")
    yield
    assert log.items == tried
    assert got == [5]
    assert log.lives["sink"] == 2


def test_a_restart_keeps_the_mail_and_the_line_behind_it() -> None:
    exhaust(restart_with_a_line)


def stopped_with_a_line(how: str) -> Scenario:
    """The actor ends while one waits for room, one asks, and one watches."""

    async def scenario(sim: Simulation) -> Scene:
        log, sent, ends = Log(), list[int](), list[Any]()
        lost = list[int]()
        sim.system.dead_letters.subscribe(lambda letter: lost.append(letter.message.n))
        sink = await sim.system.spawn(Player, "sink", log, name="sink", mailbox=1, overflow="wait")
        watcher = await sim.system.spawn(Player, "watcher", log, name="watcher")

        async def watch(ctx: Context[Any]) -> None:
            ctx.watch(sink)

        watcher.tell(Run(watch))

        async def send() -> None:
            try:
                for n in (1, 2):
                    await sink.send(Item(n))
                    sent.append(n)
            except ActorStopped:
                pass

        async def ask() -> None:
            ends.append(await outcome_of(sink, Get(5)))

        async def stop() -> None:
            getattr(sink, how)()
            await sink.stopped()

        for fn in (send, ask, stop):
            sim.start(fn, name=fn.__name__)
        yield
        assert sorted(log.items + lost) == sent
        assert how != "drain" or not lost
        assert ends in ([5], [ActorStopped])
        assert [text.split()[0] for text in log.said] == ["sink"]

    return scenario


@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
def test_an_end_sends_the_line_away_and_what_was_taken_in_is_told(how: str) -> None:
    exhaust(stopped_with_a_line(how))


async def two_that_fill_each_other(sim: Simulation) -> Scene:
    """Two full mailboxes whose actors send into one another: one is refused, nobody hangs."""
    log, errors = Log(), list[str]()
    a: Ref[Any] = await sim.system.spawn(Player, "a", log, name="a", mailbox=1)
    b: Ref[Any] = await sim.system.spawn(Player, "b", log, name="b", mailbox=1)

    def towards(ref: Ref[Any]) -> Run:
        async def deed(ctx: Context[Any]) -> None:
            try:
                for n in range(3):
                    await ref.send(Item(n))
            except Exception as exc:
                errors.append(type(exc).__name__)

        return Run(deed)

    a.tell(towards(b))
    b.tell(towards(a))
    yield
    assert errors in ([], ["AskCycle"])
    assert len(log.items) == 6 or errors


def test_two_full_mailboxes_that_send_into_one_another_are_no_deadlock() -> None:
    exhaust(two_that_fill_each_other)

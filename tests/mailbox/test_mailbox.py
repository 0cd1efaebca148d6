"""Mailboxes: order, bounds, waiting senders, and what closing does to what is queued."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.errors import ActorStopped, MailboxFull, NotHandled
from trouper.mailbox import Ask, Intake


@pytest.mark.proves("Sending: tell is synchronous")
async def test_messages_are_handled_in_the_order_they_were_told(stage: Any) -> None:
    box = stage.box()
    for n in range(100):
        box.tell(n)
    await wait_all_tasks_blocked()
    assert box.seen == list(range(100))


@pytest.mark.proves("Dispatch: an idle actor costs no task")
async def test_an_idle_mailbox_has_no_queue(stage: Any) -> None:
    box = stage.box()
    assert box.queue is None
    box.tell(1)
    await wait_all_tasks_blocked()
    assert box.seen == [1]
    assert box.queue is None


@pytest.mark.proves("Mailboxes: reject")
async def test_a_full_mailbox_refuses_a_tell_with_a_named_error(stage: Any) -> None:
    box = stage.box(capacity=2)
    box.tell(1)
    box.tell(2)
    with pytest.raises(MailboxFull, match="box is full") as refused:
        box.tell(3)
    assert isinstance(refused.value, trio.WouldBlock)
    assert box.statistics().dropped == 1
    await wait_all_tasks_blocked()
    assert box.seen == [1, 2]


@pytest.mark.proves("Sending: a message type the target does not handle")
async def test_an_unknown_type_is_refused_at_the_send_line(stage: Any) -> None:
    box = stage.box()
    with pytest.raises(NotHandled, match=r"no handler for str.*float.*int"):
        box.tell("x")
    with pytest.raises(NotHandled):
        await box.send("x")


@pytest.mark.proves("Typing: dispatch follows the MRO")
async def test_dispatch_follows_the_mro_and_remembers_the_hit(stage: Any) -> None:
    class Special(int):
        pass

    box = stage.box()
    box.tell(Special(7))
    await box.send(Special(8))
    await wait_all_tasks_blocked()
    assert box.seen == [7, 8]
    assert box.table[Special] is box.table[int]


@pytest.mark.proves("Sending: send waits for room")
async def test_waiting_senders_get_in_oldest_first_and_no_tell_overtakes(stage: Any) -> None:
    box = stage.box(capacity=1)
    gate = trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()  # the handler is blocked, the queue is empty
    box.tell(0)
    async with trio.open_nursery() as nursery:
        for n in (1, 2, 3):
            nursery.start_soon(box.send, n)
            await wait_all_tasks_blocked()
        assert box.statistics().waiting_senders == 3
        with pytest.raises(MailboxFull):
            box.tell(99)
        gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [0, 1, 2, 3]
    assert box.senders is None


@pytest.mark.proves("Sending: send waits for room")
async def test_a_cancelled_waiting_send_is_not_put_in(stage: Any) -> None:
    box = stage.box(capacity=1)
    gate = trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()
    box.tell(0)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(box.send, 1)
            await wait_all_tasks_blocked()
            scope.cancel()
    assert box.senders is None
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [0]


async def test_an_ask_waits_for_room_and_is_forgotten_when_it_gives_up(stage: Any) -> None:
    box = stage.box(capacity=1, intake=Intake("wait"))
    gate = trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()
    box.tell(0)
    kept, gone = Ask(1), Ask(2)
    box.put_ask(gone)
    box.put_ask(kept)
    box.forget_ask(gone)
    gate.set()
    assert await kept.wait() == 1
    assert box.seen == [0, 1]


async def test_closing_tells_waiting_senders_and_drops_the_queue(stage: Any) -> None:
    box = stage.box(capacity=1)
    gate = trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()
    box.tell(1)
    async with trio.open_nursery() as nursery:

        async def parked() -> None:
            with pytest.raises(ActorStopped, match="before there was room"):
                await box.send(2)

        nursery.start_soon(parked)
        await wait_all_tasks_blocked()
        box.close("closed")
    assert box.not_had == [(1, "closed")]
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == []


@pytest.mark.proves("Ask: stop")
async def test_a_closed_mailbox_settles_queued_requests_at_once(stage: Any) -> None:
    box = stage.box()
    ask = Ask(1)
    box.tell(0)
    box.put_ask(ask)
    box.close("closed")
    assert ask.done
    with pytest.raises(ActorStopped, match="box closed"):
        await ask.wait()
    assert box.not_had == [(0, "closed")]
    await wait_all_tasks_blocked()
    assert box.seen == []


async def test_a_draining_mailbox_takes_nothing_more_but_handles_what_it_has(stage: Any) -> None:
    box = stage.box()
    box.tell(1)
    box.refuse_more()
    box.tell(2)
    with pytest.raises(ActorStopped):
        await box.send(3)
    await wait_all_tasks_blocked()
    assert box.seen == [1]
    assert box.not_had == [(2, "draining")]


@pytest.mark.proves("Ask: if the asker goes away")
async def test_a_request_that_is_over_is_skipped(stage: Any) -> None:
    box = stage.box()
    ask = Ask(1)
    box.put_ask(ask)
    ask.fail(KeyError("gone"))
    await wait_all_tasks_blocked()
    assert box.seen == []


@pytest.mark.proves("Mailboxes: statistics")
async def test_statistics_count_what_passed(stage: Any) -> None:
    box = stage.box(capacity=50)
    for n in range(40):
        box.tell(n)
    assert box.statistics().depth == 40
    await wait_all_tasks_blocked()
    numbers = box.statistics()
    assert (numbers.depth, numbers.processed, numbers.high_water) == (0, 40, 40)
    assert numbers.state == "running"


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(1, 5),
    senders=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    seed=st.integers(0, 2**16),
)
@pytest.mark.proves("Sending: FIFO per sender")
def test_every_sender_keeps_its_order_and_nothing_is_lost_or_doubled(
    open_stage: Any, capacity: int, senders: list[int], seed: int
) -> None:
    """Bounded sends from several tasks: per sender FIFO, everything exactly once."""

    async def main() -> list[int]:
        rng = random.Random(seed)
        async with open_stage() as stage:
            box = stage.box(capacity=capacity)

            async def sender(index: int, count: int) -> None:
                for k in range(count):
                    await box.send(100 * index + k)
                    if rng.random() < 0.3:
                        await trio.lowlevel.checkpoint()

            async with trio.open_nursery() as nursery:
                for index, count in enumerate(senders):
                    nursery.start_soon(sender, index, count)
            await wait_all_tasks_blocked()
            assert box.high_water <= capacity
            return list(box.seen)

    seen = trio.run(main)
    assert len(seen) == sum(senders)
    for index, count in enumerate(senders):
        assert [n for n in seen if n // 100 == index] == [100 * index + k for k in range(count)]

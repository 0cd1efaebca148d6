"""The control lane: before user messages, with a burst limit."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from trouper.errors import MailboxFull
from trouper.mailbox import CONTROL_BURST, Control, put_back


@pytest.mark.proves("Fairness: control messages go before")
async def test_control_messages_go_before_user_messages_in_their_own_order(stage: Any) -> None:
    box = stage.box()
    for n in range(3):
        box.tell(n)
    box.post(100)
    box.post(101)
    await wait_all_tasks_blocked()
    assert box.seen == [100, 101, 0, 1, 2]


@pytest.mark.proves("Fairness: with a burst limit")
async def test_a_burst_of_control_messages_lets_a_user_message_through(stage: Any) -> None:
    box = stage.box()
    box.tell(0)
    box.tell(1)
    for n in range(2 * CONTROL_BURST + 1):
        box.post(100 + n)
    await wait_all_tasks_blocked()
    burst = list(range(100, 100 + CONTROL_BURST))
    again = list(range(100 + CONTROL_BURST, 100 + 2 * CONTROL_BURST))
    assert box.seen == [*burst, 0, *again, 1, 100 + 2 * CONTROL_BURST]


async def test_a_failing_control_handler_loses_nothing_behind_it(stage: Any) -> None:
    box = stage.box()

    async def boom(_: Any) -> None:
        raise ValueError("boom")

    box.post(boom)
    box.post(101)
    box.tell(0)
    await wait_all_tasks_blocked()
    assert [repr(error) for _, error in box.failures] == ["ValueError('boom')"]
    assert sorted(box.seen) == [0, 101]


async def test_the_control_lane_is_bounded_too(stage: Any) -> None:
    box = stage.box(capacity=2)
    box.post(1)
    box.post(2)
    with pytest.raises(MailboxFull):
        box.post(3)
    await wait_all_tasks_blocked()
    assert box.seen == [1, 2]


async def test_closing_drops_both_lanes(stage: Any) -> None:
    box = stage.box()
    box.tell(1)
    box.post(2)
    assert box.statistics().depth == 2
    box.close("closed")
    assert sorted(box.not_had) == [(1, "closed"), (2, "closed")]
    assert box.statistics().depth == 0


async def test_every_control_message_counts_as_processed(stage: Any) -> None:
    box = stage.box()
    box.tell(0)
    for n in range(2 * CONTROL_BURST + 1):
        box.post(100 + n)
    await wait_all_tasks_blocked()
    assert box.statistics().processed == 2 * CONTROL_BURST + 2


@pytest.mark.parametrize("is_after_a_burst", [False, True])
async def test_what_is_put_back_comes_behind_control_and_before_what_is_queued(
    stage: Any, is_after_a_burst: bool
) -> None:
    box = stage.box()
    box.tell(0)
    box.tell(1)
    box.post(100)
    if is_after_a_burst:
        box.queue.rotate(-1)
        box.queue.insert(1, box.queue.pop())  # where a burst leaves the marker: behind one message
        assert [type(entry) for entry in box.queue] == [int, Control, int]
    put_back(box, [7, 8])
    await wait_all_tasks_blocked()
    assert box.seen == [100, 7, 8, 0, 1]

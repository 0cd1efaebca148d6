"""How long the oldest message waits, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked


@pytest.mark.proves("Mailboxes: statistics")
async def test_the_age_counts_from_the_arrival_in_an_empty_mailbox(
    stage: Any, mock_clock: MockClock
) -> None:
    box, gate = stage.box(), trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()
    mock_clock.jump(5)
    assert box.statistics().oldest_age == 0.0  # a turn blocks, but nothing waits
    box.tell(1)
    mock_clock.jump(2)
    box.tell(2)
    mock_clock.jump(1)
    assert box.statistics().oldest_age == 3.0
    gate.set()
    await wait_all_tasks_blocked()
    assert box.statistics().oldest_age == 0.0


async def test_what_was_queued_when_the_turn_began_to_block_is_as_old_as_that(
    stage: Any, mock_clock: MockClock
) -> None:
    box = stage.box()

    async def hold(_: Any) -> None:
        await trio.sleep_forever()

    box.tell(hold)
    box.tell(1)
    await wait_all_tasks_blocked()
    mock_clock.jump(4)
    assert box.statistics().oldest_age == 4.0


async def test_after_a_blocked_turn_took_the_last_message_the_age_counts_anew(
    stage: Any, mock_clock: MockClock
) -> None:
    box, gates = stage.box(), [trio.Event(), trio.Event()]

    def hold(gate: trio.Event) -> Any:
        async def wait(_: Any) -> None:
            await gate.wait()

        return wait

    box.tell(hold(gates[0]))
    await wait_all_tasks_blocked()
    box.tell(lambda _: gates[1].wait())
    mock_clock.jump(3)
    gates[0].set()
    await wait_all_tasks_blocked()
    mock_clock.jump(3)
    box.tell(1)
    mock_clock.jump(1)
    assert box.statistics().oldest_age == 1.0


async def test_under_a_steady_backlog_the_age_stays_near_the_truth(
    stage: Any, autojump_clock: MockClock
) -> None:
    box = stage.box()

    async def second(_: Any) -> None:
        await trio.sleep(1)

    for _ in range(10):
        box.tell(second)
    for _ in range(300):
        await trio.sleep(1)
        box.tell(second)
    numbers = box.statistics()
    assert 8 <= numbers.depth <= 10  # so the oldest has waited for about ten seconds
    assert 8 <= numbers.oldest_age <= 64 + 10


async def test_the_high_water_mark_sees_what_comes_while_a_turn_blocks(stage: Any) -> None:
    box, gate = stage.box(capacity=20), trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()
    for n in range(15):
        box.tell(n)
    gate.set()
    await wait_all_tasks_blocked()
    numbers = box.statistics()
    assert (numbers.depth, numbers.high_water, numbers.processed) == (0, 15, 16)

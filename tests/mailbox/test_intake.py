"""What becomes of a message that finds no room, and the order in which mail is served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.errors import MailboxFull
from trouper.mailbox import Ask, Intake, make_intake


async def blocked_box(stage: Any, capacity: int, intake: Intake) -> tuple[Any, trio.Event]:
    """Return a mailbox whose handler is blocked, and the gate it waits for; its queue is empty."""
    box, gate = stage.box(capacity=capacity, intake=intake), trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    box.tell(hold)
    await wait_all_tasks_blocked()
    return box, gate


@pytest.mark.proves("Mailboxes: drop_oldest")
async def test_drop_oldest_makes_room_by_dropping_what_waited_longest(stage: Any) -> None:
    box, gate = await blocked_box(stage, 3, Intake("drop_oldest"))
    for n in range(5):
        box.tell(n)
    assert box.not_had == [(0, "mailbox full: drop_oldest"), (1, "mailbox full: drop_oldest")]
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [2, 3, 4]
    assert box.statistics().dropped == 2


@pytest.mark.proves("Mailboxes: drop_newest")
async def test_drop_newest_keeps_what_is_there_and_drops_what_comes(stage: Any) -> None:
    box, gate = await blocked_box(stage, 3, Intake("drop_newest"))
    for n in range(5):
        await box.send(n)  # there is always room: it does not wait
    assert box.not_had == [(3, "mailbox full: drop_newest"), (4, "mailbox full: drop_newest")]
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [0, 1, 2]


@pytest.mark.parametrize(("rule", "loser"), [("drop_oldest", 0), ("drop_newest", 1)])
async def test_the_asker_of_a_dropped_request_is_told_at_once(
    stage: Any, rule: Any, loser: int
) -> None:
    box, gate = await blocked_box(stage, 1, Intake(rule))
    asks = [Ask(1), Ask(2)]
    for ask in asks:
        box.put_ask(ask)
    with pytest.raises(MailboxFull, match=f"dropped this request.*{rule}"):
        await asks[loser].wait()
    gate.set()
    assert await asks[1 - loser].wait() == 2 - loser
    assert box.not_had == []


@pytest.mark.proves("Mailboxes: reject")
async def test_reject_refuses_tells_and_asks_while_a_send_waits(stage: Any) -> None:
    box, gate = await blocked_box(stage, 1, Intake())
    box.tell(0)
    with pytest.raises(MailboxFull):
        box.tell(1)
    with pytest.raises(MailboxFull):
        box.put_ask(Ask(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.send, 2)
        await wait_all_tasks_blocked()
        assert box.statistics().waiting_senders == 1
        gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [0, 2]


@pytest.mark.proves("Mailboxes: wait")
async def test_wait_lets_sends_and_asks_wait_in_one_line_and_refuses_only_a_tell(
    stage: Any,
) -> None:
    box, gate = await blocked_box(stage, 1, Intake("wait"))
    box.tell(0)
    with pytest.raises(MailboxFull):
        box.tell(99)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.send, 1)
        await wait_all_tasks_blocked()
        nursery.start_soon(box.ask, 2)
        await wait_all_tasks_blocked()
        nursery.start_soon(box.send, 3)
        await wait_all_tasks_blocked()
        assert box.statistics().waiting_senders == 3
        gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [0, 1, 2, 3]


async def test_the_marker_of_the_control_lane_takes_no_room(stage: Any) -> None:
    box, gate = await blocked_box(stage, 1, Intake("drop_oldest"))
    box.post(100)
    box.tell(0)
    assert box.not_had == []
    box.tell(1)
    assert box.not_had == [(0, "mailbox full: drop_oldest")]
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [100, 1]


@pytest.mark.proves("Mailboxes: optional stable priority")
async def test_lower_priority_values_go_first_and_equal_ones_keep_their_order(stage: Any) -> None:
    box, gate = await blocked_box(stage, 10, Intake(priority=lambda n: n // 10))
    for n in (21, 1, 20, 2, 11, 3):
        box.tell(n)
    box.post(99)
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == [99, 1, 2, 3, 11, 21, 20]


@pytest.mark.parametrize(
    ("rule", "kept"), [("drop_oldest", [1, 2, 21]), ("drop_newest", [1, 2, 20])]
)
async def test_what_is_dropped_is_among_the_least_urgent(
    stage: Any, rule: Any, kept: list[int]
) -> None:
    box, gate = await blocked_box(stage, 3, Intake(rule, lambda n: n // 10))
    for n in (20, 21, 1, 2):
        box.tell(n)
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == kept


async def test_a_priority_that_fails_fails_at_the_send_line(stage: Any) -> None:
    box, _ = await blocked_box(stage, 3, Intake(priority=lambda n: 1 // n))
    box.tell(1)
    with pytest.raises(ZeroDivisionError):
        box.tell(0)
    assert box.statistics().depth == 1


@pytest.mark.parametrize("how", ["send", "ask"])
async def test_a_priority_that_fails_for_one_in_the_line_fails_that_one_alone(
    stage: Any, how: str
) -> None:
    box, gate = await blocked_box(stage, 1, Intake("wait", priority=lambda n: 1 // n))
    box.tell(1)

    async def put() -> None:
        with pytest.raises(ZeroDivisionError):
            if how == "send":
                await box.send(0)
            else:
                ask = Ask(0)
                box.put_ask(ask)
                await ask.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put)
        await wait_all_tasks_blocked()
        nursery.start_soon(box.send, 2)
        await wait_all_tasks_blocked()
        gate.set()
    await wait_all_tasks_blocked()
    assert (box.seen[-2:], box.failures) == ([1, 2], [])


def test_rules_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="one of reject, drop_oldest, drop_newest, wait"):
        make_intake("drop", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="priority takes a function"):
        make_intake("wait", 3)  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(
    capacity=st.integers(1, 6),
    rule=st.sampled_from(["reject", "drop_oldest", "drop_newest", "wait"]),
    by_priority=st.booleans(),
    steps=st.lists(st.one_of(st.integers(0, 39), st.just("turn")), max_size=30),
)
def test_a_mailbox_serves_what_the_model_serves(
    open_stage: Callable[..., Any],
    capacity: int,
    rule: Any,
    by_priority: bool,
    steps: list[Any],
) -> None:
    """Against a plain list: one turn per gate, everything else arrives while a turn blocks."""

    def urgency(n: int) -> int:
        return n // 10 if by_priority else 0

    async def main() -> None:
        async with open_stage() as stage:
            gates: list[trio.Event] = []

            async def held(box: Any, message: float) -> None:
                gates.append(trio.Event())
                await gates[-1].wait()
                box.seen.append(int(message))

            box = stage.box(
                capacity=capacity, intake=make_intake(rule, urgency if by_priority else None)
            )
            box.table = box.accepts = {**box.table, int: (True, False, held)}
            box.tell(0)
            await wait_all_tasks_blocked()
            model: list[int] = []
            dead: list[int] = []
            seen: list[int] = []
            inside = 0
            for step in steps:
                if step == "turn":
                    if model:
                        seen.append(inside)
                        inside = model.pop(0)
                        gates[-1].set()
                        await wait_all_tasks_blocked()
                    continue
                full = len(model) == capacity
                if full and rule in ("reject", "wait"):
                    with pytest.raises(MailboxFull):
                        box.tell(step)
                    continue
                box.tell(step)
                model.append(step)
                model.sort(key=urgency)
                if full and rule == "drop_newest":
                    dead.append(model.pop())
                elif full:
                    least = urgency(model[-1])
                    dead.append(
                        model.pop(next(i for i, n in enumerate(model) if urgency(n) == least))
                    )
                assert box.statistics().depth == len(model)
            assert box.seen == seen
            assert [message for message, _ in box.not_had] == dead
            while model:
                seen.append(inside)
                inside = model.pop(0)
                gates[-1].set()
                await wait_all_tasks_blocked()
            gates[-1].set()
            await wait_all_tasks_blocked()
            assert box.seen == [*seen, inside]

    trio.run(main)

"""Turns on workers: blocking, cutting, leaking, and what a task dump shows."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.errors import ScopeLeak
from trouper.mailbox import Ask


async def forever(_: Any) -> None:
    await trio.sleep_forever()


@pytest.mark.proves("Dispatch: a handler that never blocks")
async def test_a_handler_that_never_blocks_needs_one_worker(stage: Any) -> None:
    boxes = [stage.box(str(n)) for n in range(50)]
    for box in boxes:
        box.tell(1)
    await wait_all_tasks_blocked()
    assert stage.dispatcher.statistics().started == 1


@pytest.mark.proves("Dispatch: a blocked handler keeps its worker")
async def test_a_blocked_handler_keeps_its_worker_and_the_others_go_on(stage: Any) -> None:
    one, two = stage.box("one"), stage.box("two")
    one.tell(forever)
    two.tell(1)
    await wait_all_tasks_blocked()
    assert two.seen == [1]
    assert one.is_busy
    assert one.scope is not None
    one.doom("cut")
    await wait_all_tasks_blocked()
    assert not one.is_busy


@pytest.mark.proves("Turns: one turn at a time")
async def test_a_message_waits_for_the_turn_before_it_also_across_awaits(stage: Any) -> None:
    box, gate = stage.box(), trio.Event()

    async def hold(box: Any) -> None:
        await gate.wait()
        box.seen.append("held")

    box.tell(hold)
    box.tell(1)
    await wait_all_tasks_blocked()
    assert box.seen == []
    gate.set()
    await wait_all_tasks_blocked()
    assert box.seen == ["held", 1]


@pytest.mark.proves("Dispatch: a burnt scope ends its worker")
async def test_a_cut_turn_burns_its_worker_and_the_rest_runs_on_another(stage: Any) -> None:
    box = stage.box()
    box.tell(forever)
    await wait_all_tasks_blocked()
    workers = set(stage.dispatcher.workers.values())
    carrier = box.worker
    box.tell(1)
    box.doom("cut")
    await wait_all_tasks_blocked()
    assert box.killed == [None]
    assert box.seen == [1]
    assert carrier in workers
    assert carrier not in stage.dispatcher.workers.values()


async def test_a_turn_cut_before_it_blocks_is_cancelled_when_it_does(stage: Any) -> None:
    box, seen = stage.box(), []

    async def cut_itself(box: Any) -> None:
        box.doom("cut")
        seen.append("unblocked")
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            seen.append("cancelled")
            raise

    box.tell(cut_itself)
    await wait_all_tasks_blocked()
    assert seen == ["unblocked", "cancelled"]
    assert box.killed == [None]


async def test_a_cut_turn_that_never_blocks_is_seen_at_its_end(stage: Any) -> None:
    box = stage.box()

    async def cut_itself(box: Any) -> str:
        box.doom("cut")
        return "value"

    ask = Ask(cut_itself)
    box.put_ask(ask)
    await wait_all_tasks_blocked()
    assert box.killed == [None]
    assert not ask.done  # the value is dropped; the subclass tells the asker


@pytest.mark.proves("Turns: a handler that returns after swallowing Cancelled")
async def test_swallowing_the_cancellation_does_not_save_the_turn(stage: Any) -> None:
    box = stage.box()

    async def swallow(_: Any) -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return "survived"

    ask = Ask(swallow)
    box.put_ask(ask)
    await wait_all_tasks_blocked()
    box.doom("cut")
    await wait_all_tasks_blocked()
    assert box.killed == [None]
    assert ask.value is None


@pytest.mark.proves("Dispatch: a cancel scope left open")
async def test_an_open_cancel_scope_is_charged_to_the_mailbox_that_left_it(stage: Any) -> None:
    leaky, other = stage.box("leaky"), stage.box("other")

    async def leak(_: Any) -> None:
        trio.CancelScope().__enter__()

    leaky.tell(leak)
    other.tell(1)
    await wait_all_tasks_blocked()
    [(entry, error)] = leaky.failures
    assert entry is None
    assert isinstance(error, ScopeLeak)
    assert "leaky" in str(error)
    assert other.seen == [1]
    assert other.failures == []


async def test_a_scope_leaked_by_a_broken_off_generator_is_seen_too(stage: Any) -> None:
    box = stage.box()
    generators = []

    async def scoped() -> Any:
        with trio.CancelScope():
            yield 1

    async def leak(_: Any) -> None:
        generator = scoped()
        generators.append(generator)
        async for _ in generator:
            break

    box.tell(leak)
    await wait_all_tasks_blocked()
    assert [type(error) for _, error in box.failures] == [ScopeLeak]
    with contextlib.suppress(RuntimeError):  # trio's complaint about the misnested scope
        await generators[0].aclose()


@pytest.mark.proves("Dispatch: a handler may open a nursery")
async def test_a_handler_may_open_a_nursery_and_is_cut_with_it(stage: Any) -> None:
    box, seen = stage.box(), []

    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append("cleaned")

    async def handler(_: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(child)

    box.tell(handler)
    await wait_all_tasks_blocked()
    box.doom("cut")
    await wait_all_tasks_blocked()
    assert seen == ["cleaned", "cleaned"]


@pytest.mark.proves("Dispatch: task dumps stay whole")
async def test_a_task_dump_shows_the_handler_that_blocks(stage: Any) -> None:
    box = stage.box("the-box")
    box.tell(forever)
    await wait_all_tasks_blocked()
    assert box.worker is not None
    task = box.worker.task
    names = [frame.f_code.co_name for frame, _ in task.iter_await_frames()]
    assert names[:2] == ["live", "drain"]
    assert "wait_task_rescheduled" in names[names.index("forever") :]
    assert task.name == "the-box"


async def test_the_task_of_a_worker_passes_for_a_coroutine(stage: Any) -> None:
    states: list[str] = []

    async def handler(_: Any) -> None:
        coro = trio.lowlevel.current_task().coro
        states.append(inspect.getcoroutinestate(coro))
        async with trio.Lock():  # asks for the state of its owner's coroutine
            await trio.lowlevel.checkpoint()
        assert coro.cr_code.co_name == "live"

    box = stage.box()
    box.tell(handler)
    box.tell(forever)
    await wait_all_tasks_blocked()
    assert box.worker is not None
    coro = box.worker.task.coro
    assert isinstance(coro, Coroutine)
    states.append(inspect.getcoroutinestate(coro))
    box.doom("cut")
    await wait_all_tasks_blocked()
    states.append(inspect.getcoroutinestate(coro))
    assert states == [inspect.CORO_RUNNING, inspect.CORO_SUSPENDED, inspect.CORO_CLOSED]
    with pytest.raises(TypeError, match="is run as a task"):
        await coro
    coro.close()


async def test_a_carrier_that_comes_back_sees_the_next_handler_block(stage: Any) -> None:
    gates = [trio.Event() for _ in range(6)]

    def waiting_for(gate: trio.Event) -> Any:
        async def handler(_: Any) -> None:
            await gate.wait()

        return handler

    for pair in (gates[:2], gates[2:4], gates[4:]):
        boxes = [stage.box(), stage.box()]
        for box, gate in zip(boxes, pair, strict=True):
            box.tell(waiting_for(gate))
        await wait_all_tasks_blocked()
        assert all(box.scope is not None for box in boxes)
        assert boxes[0].worker is not boxes[1].worker
        for gate in pair:
            gate.set()
        await wait_all_tasks_blocked()
        assert not any(box.is_busy for box in boxes)


async def test_a_foreign_awaitable_is_an_error_of_its_handler_only(stage: Any) -> None:
    class Foreign:
        def __await__(self) -> Any:
            yield "not trio's"

    box = stage.box()

    async def handler(_: Any) -> None:
        await Foreign()

    box.tell(handler)
    await wait_all_tasks_blocked()
    assert [type(error) for _, error in box.failures] == [TypeError]
    box.tell(1)
    await wait_all_tasks_blocked()
    assert box.seen == [1]


@pytest.mark.proves("Dispatch: a resumed carrier has a budget")
async def test_a_resumed_carrier_has_a_budget_too(stage: Any) -> None:
    """A mailbox that floods itself after it has blocked once still lets trio tasks run."""
    box, stop = stage.box(), False

    async def first(box: Any) -> None:
        await trio.lowlevel.checkpoint()
        box.tell(again)

    async def again(box: Any) -> None:
        box.seen.append(0)
        if not stop:
            box.tell(again)

    box.tell(first)
    gaps: list[int] = []
    for _ in range(20):
        before = len(box.seen)
        await trio.lowlevel.checkpoint()
        gaps.append(len(box.seen) - before)
    stop = True
    assert 0 < max(gaps) <= 2 * stage.dispatcher.budget


@pytest.mark.proves("Dispatch: a blocked handler keeps its worker")
async def test_many_blocked_handlers_block_side_by_side(stage: Any, autojump_clock: Any) -> None:
    async def nap(_: Any) -> None:
        await trio.sleep(1)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for n in range(200):
            nursery.start_soon(stage.box(str(n)).ask, nap)
    assert trio.current_time() - start == 1

"""The pool: fairness, ticks, hand-over, and that nothing stops silently."""

from __future__ import annotations

import contextvars
import itertools
from collections import deque
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.mailbox import Job, Stepper


class Step(Stepper):
    __slots__ = ("fn", "worth")

    def __init__(self, dispatcher: Any, fn: Any, worth: int | None = None) -> None:
        super().__init__(dispatcher)
        self.fn = fn
        self.worth = worth

    def step(self) -> int | None:
        self.fn()
        return self.worth


async def test_a_stepper_runs_once_however_often_it_is_enlisted(stage: Any) -> None:
    ran: list[int] = []
    step = Step(stage.dispatcher, lambda: ran.append(1))
    stage.dispatcher.enlist(step)
    stage.dispatcher.enlist(step)
    await wait_all_tasks_blocked()
    assert ran == [1]
    stage.dispatcher.enlist(step)
    await wait_all_tasks_blocked()
    assert ran == [1, 1]


async def test_a_stepper_may_enlist_itself_again_while_it_runs(stage: Any) -> None:
    ran: list[int] = []

    def again() -> None:
        ran.append(1)
        if len(ran) < 3:
            stage.dispatcher.enlist(step)

    step = Step(stage.dispatcher, again)
    stage.dispatcher.enlist(step)
    await wait_all_tasks_blocked()
    assert ran == [1, 1, 1]


async def test_a_stepper_that_raises_is_a_bug_and_the_queue_goes_on(open_stage: Any) -> None:
    async with open_stage() as stage:
        box = stage.box()
        stage.dispatcher.enlist(Step(stage.dispatcher, lambda: 1 / 0))
        box.tell(1)
        await wait_all_tasks_blocked()
        assert [type(bug) for bug in stage.bugs] == [ZeroDivisionError]
        assert box.seen == [1]


async def test_a_pass_runs_where_its_cause_is_when_nothing_else_is_ready(stage: Any) -> None:
    ran: list[object] = []
    step = Step(stage.dispatcher, lambda: ran.append(trio.lowlevel.current_task()))
    stage.dispatcher.pass_now(step)
    assert ran == [trio.lowlevel.current_task()]


async def test_a_pass_waits_behind_what_is_ready(stage: Any) -> None:
    ran: list[str] = []
    stage.dispatcher.enlist(Step(stage.dispatcher, lambda: ran.append("first")))
    stage.dispatcher.pass_now(Step(stage.dispatcher, lambda: ran.append("second")))
    assert ran == []
    await wait_all_tasks_blocked()
    assert ran == ["first", "second"]


async def test_what_a_pass_in_place_asks_for_is_left_to_the_workers(stage: Any) -> None:
    ran: list[str] = []
    inner = Step(stage.dispatcher, lambda: ran.append("inner"))

    def outer() -> None:
        stage.dispatcher.pass_now(inner)
        ran.append("outer")

    stage.dispatcher.pass_now(Step(stage.dispatcher, outer))
    assert ran == ["outer"]
    await wait_all_tasks_blocked()
    assert ran == ["outer", "inner"]


async def test_a_pass_in_place_that_raises_is_a_bug_and_later_ones_run(open_stage: Any) -> None:
    async with open_stage() as stage:
        ran: list[int] = []
        stage.dispatcher.pass_now(Step(stage.dispatcher, lambda: 1 / 0))
        stage.dispatcher.pass_now(Step(stage.dispatcher, lambda: ran.append(1)))
        assert [type(bug) for bug in stage.bugs] == [ZeroDivisionError]
        assert ran == [1]


async def test_nothing_runs_in_place_where_a_schedule_chooses(stage: Any) -> None:
    stage.dispatcher.direct = False
    ran: list[int] = []
    stage.dispatcher.pass_now(Step(stage.dispatcher, lambda: ran.append(1)))
    assert ran == []
    await wait_all_tasks_blocked()
    assert ran == [1]


async def test_next_tick_runs_after_every_task_of_this_tick(stage: Any) -> None:
    """Twenty tasks of one tick arrive in any order; the stepper sees all of them, every time."""
    dispatcher = stage.dispatcher
    for _ in range(20):
        arrived: list[int] = []
        seen: list[int] = []
        step = Step(dispatcher, lambda seen=seen, arrived=arrived: seen.append(len(arrived)))

        async def arrive(n: int, arrived: list[int] = arrived, step: Step = step) -> None:
            arrived.append(n)
            dispatcher.enlist_next_tick(step)

        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(arrive, n)
        await wait_all_tasks_blocked()
        assert seen == [20]


async def test_next_tick_from_inside_a_handler_is_the_next_tick(stage: Any) -> None:
    dispatcher, ticks = stage.dispatcher, []
    step = Step(dispatcher, lambda: ticks.append(dispatcher.tick))

    async def handler(_: Any) -> None:
        ticks.append(dispatcher.tick)
        dispatcher.enlist_next_tick(step)

    box = stage.box()
    box.tell(handler)
    box.tell(1)
    await wait_all_tasks_blocked()
    assert ticks[1] == ticks[0] + 1


async def test_next_tick_works_from_a_callback_of_the_loop(stage: Any) -> None:
    ran: list[int] = []
    step = Step(stage.dispatcher, lambda: ran.append(1))
    token = trio.lowlevel.current_trio_token()
    await trio.to_thread.run_sync(token.run_sync_soon, stage.dispatcher.enlist_next_tick, step)
    await wait_all_tasks_blocked()
    assert ran == [1]


async def test_the_tick_counter_counts_rounds_of_the_loop(stage: Any) -> None:
    first = stage.dispatcher.tick
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    assert stage.dispatcher.tick == first + 2


@pytest.mark.proves("Fairness: at most T=32 messages")
async def test_a_flooding_mailbox_delays_another_by_one_pass_at_most(stage: Any) -> None:
    flood, other = stage.box("flood"), stage.box("other")
    counts: list[int] = []
    stop = False

    async def again(box: Any) -> None:
        box.seen.append(0)
        if not stop:
            box.tell(again)

    async def look(_: Any) -> None:
        counts.append(len(flood.seen))

    flood.tell(again)
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    before = len(flood.seen)
    assert before > 0
    other.tell(look)
    while not counts:
        await trio.lowlevel.checkpoint()
    stop = True
    # the pass that ran when it was told, and one more
    assert counts[0] - before <= 2 * stage.dispatcher.turns


@pytest.mark.proves("Fairness: a checkpoint at least every 256")
async def test_a_tick_has_room_for_one_budget(stage: Any) -> None:
    flood = stage.box()
    stop = False

    async def again(box: Any) -> None:
        box.seen.append(0)
        if not stop:
            box.tell(again)

    flood.tell(again)
    gaps: list[int] = []
    for _ in range(20):
        before = len(flood.seen)
        await trio.lowlevel.checkpoint()
        gaps.append(len(flood.seen) - before)
    stop = True
    # trio may run the worker late in one tick and early in the next: two budgets between two
    # steps of this task, never more
    assert max(gaps) <= 2 * stage.dispatcher.budget
    assert sum(gaps) <= 21 * stage.dispatcher.budget


@pytest.mark.parametrize(("worth", "most"), [(None, 8), (1, 256), (4, 64), (100, 3)])
async def test_a_step_takes_of_the_budget_what_it_says_it_was_worth(
    open_stage: Any, worth: int | None, most: int
) -> None:
    """256 calls in a budget, 32 in a pass: how many steps fit between two turns of trio."""
    async with open_stage(time_budget=60.0) as stage:
        d = stage.dispatcher
        steps, seen = [0], [0]

        def again() -> None:
            steps[0] += 1
            if steps[0] < 2000:
                d.enlist(step)

        step = Step(d, again, worth)
        d.enlist(step)
        while steps[0] < 2000:
            await trio.lowlevel.checkpoint()
            seen.append(steps[0])
    gaps = [b - a for a, b in itertools.pairwise(seen)]
    assert most / 2 <= max(gaps) <= 2 * most  # twice, as trio may run the worker late and early


@pytest.mark.proves("Fairness: a checkpoint at least every 256")
async def test_slow_handlers_bring_the_checkpoint_early(open_stage: Any) -> None:
    """On a clock of its own: once handlers turn out slow, every pass ends in a checkpoint."""
    now = 0.0
    async with open_stage(clock=lambda: now, turns=1) as stage:
        boxes = [stage.box(str(n)) for n in range(60)]

        async def slow(box: Any) -> None:
            nonlocal now
            now += 0.01
            box.seen.append(1)

        for box in boxes:
            box.tell(slow)
        handled: list[int] = []
        for _ in range(80):
            await trio.lowlevel.checkpoint()
            handled.append(sum(len(box.seen) for box in boxes))
        steps = [b - a for a, b in itertools.pairwise(handled)]
        assert handled[-1] == 60
        # After the first sixteen the clock has spoken: one a tick, so two between two steps here.
        assert handled[0] <= 16
        assert max(steps[1:]) <= 2


@pytest.mark.proves("Dispatch: the ready queue is an object")
async def test_ready_may_be_any_object_that_chooses(open_stage: Any) -> None:
    class LastFirst:
        def __init__(self) -> None:
            self.items: list[Any] = []

        def append(self, item: Any) -> None:
            self.items.append(item)

        def popleft(self) -> Any:
            return self.items.pop()

        def __len__(self) -> int:
            return len(self.items)

    order: list[str] = []

    async def note(box: Any) -> None:
        order.append(box.label)

    for ready, expected in ((LastFirst(), ["c", "b", "a"]), (deque(), ["a", "b", "c"])):
        order.clear()
        async with open_stage(ready=ready) as stage:
            for box in [stage.box(label) for label in "abc"]:
                box.tell(note)
            await wait_all_tasks_blocked()
        assert order == expected


async def test_idle_workers_are_kept_up_to_a_limit(open_stage: Any) -> None:
    async with open_stage(idle_limit=3) as stage:
        gate = trio.Event()

        async def hold(_: Any) -> None:
            await gate.wait()

        for n in range(10):
            stage.box(str(n)).tell(hold)
        await wait_all_tasks_blocked()
        assert stage.dispatcher.statistics().workers == 10
        gate.set()
        await wait_all_tasks_blocked()
        assert stage.dispatcher.statistics().idle == 3
        box = stage.box()
        box.tell(1)
        await wait_all_tasks_blocked()
        assert box.seen == [1]


async def test_a_job_that_raises_is_a_bug(open_stage: Any) -> None:
    async with open_stage() as stage:

        async def job() -> None:
            raise KeyError("bug")

        stage.dispatcher.run_job(Job("job", job))
        await wait_all_tasks_blocked()
        assert [type(bug) for bug in stage.bugs] == [KeyError]


async def test_a_blocked_job_does_not_hold_up_the_queue(stage: Any) -> None:
    gate, box = trio.Event(), stage.box()
    stage.dispatcher.run_job(Job("job", gate.wait))
    box.tell(1)
    await wait_all_tasks_blocked()
    assert box.seen == [1]
    gate.set()


@pytest.mark.proves("Dispatch: a worker never raises into the system")
async def test_a_worker_that_dies_hands_the_queue_over_and_frees_its_mailbox(
    open_stage: Any,
) -> None:
    async with open_stage() as stage:
        good = stage.box("good")
        broken = type("Broken", (type(good),), {"turn_failed": lambda *_: 1 / 0})
        box = broken(stage.dispatcher, "broken")

        async def boom(_: Any) -> None:
            raise ValueError

        box.tell(boom)
        good.tell(1)
        await wait_all_tasks_blocked()
        assert good.seen == [1]
        assert box.worker is None
        assert [type(bug) for bug in stage.bugs] == [ZeroDivisionError]


@pytest.mark.proves("Interop: contextvars are shared")
async def test_workers_start_in_the_context_of_the_dispatcher(stage: Any) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("by the waker")
    seen: list[str] = []

    async def look(_: Any) -> None:
        seen.append(variable.get())

    stage.box().tell(look)
    await wait_all_tasks_blocked()
    assert seen == ["unset"]


@pytest.mark.proves("Shutdown: nothing outlives the block")
async def test_close_leaves_no_task_behind(open_stage: Any) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    async with open_stage() as stage:
        box = stage.box()
        box.tell(1.0)
        await wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.parametrize("through", ["task", "nursery", "thread"])
@pytest.mark.proves("Dispatch: the asker is found")
async def test_the_waiting_mailbox_is_found_from_wherever_its_handler_waits(
    stage: Any, through: str
) -> None:
    dispatcher, found = stage.dispatcher, []

    async def look() -> None:
        found.append(dispatcher.running_mailbox())

    async def handler(_: Any) -> None:
        if through == "task":
            await look()
        elif through == "nursery":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(look)
        else:
            await trio.to_thread.run_sync(trio.from_thread.run, look)

    box = stage.box()
    await box.ask(handler)
    assert found == [box]
    assert dispatcher.running_mailbox() is None


async def test_handlers_that_all_block_begin_within_a_few_ticks(stage: Any) -> None:
    """Ever more workers are called while handler after handler blocks: 1, 1, 2, 4, 8, ..."""
    gate, begun = trio.Event(), []

    async def hold(box: Any) -> None:
        begun.append(box.label)
        await gate.wait()

    boxes = [stage.box(str(n)) for n in range(100)]
    for box in boxes:
        box.tell(hold)
        box.tell(1)
    before = stage.dispatcher.tick
    while len(begun) < 100:
        await trio.lowlevel.checkpoint()
    assert stage.dispatcher.tick - before <= 12
    assert begun == [str(n) for n in range(100)]  # and in the order in which they were told
    gate.set()
    await wait_all_tasks_blocked()
    assert all(box.seen == [1] for box in boxes)
    assert stage.dispatcher.parked
    assert (stage.dispatcher.owned, stage.dispatcher.coming) == (False, 0)


async def test_workers_that_were_called_in_vain_step_back(stage: Any) -> None:
    """After two that block the rest do not: one worker drains, the other one goes to sleep."""
    gate = trio.Event()

    async def hold(_: Any) -> None:
        await gate.wait()

    blocked = [stage.box(f"blocked {n}") for n in range(2)]
    others = [stage.box(str(n)) for n in range(50)]
    for box in blocked:
        box.tell(hold)
    for box in others:
        box.tell(1)
    await wait_all_tasks_blocked()
    assert all(box.seen == [1] for box in others)
    assert stage.dispatcher.statistics().started <= 4
    assert stage.dispatcher.fan == 1
    gate.set()
    await wait_all_tasks_blocked()
    assert stage.dispatcher.statistics().idle == stage.dispatcher.statistics().workers


async def test_a_schedule_has_one_worker_at_a_time_to_choose_for(open_stage: Any) -> None:
    async with open_stage(ready=deque()) as stage:
        gate, begun = trio.Event(), []

        async def hold(box: Any) -> None:
            begun.append((box.label, stage.dispatcher.tick))
            await gate.wait()

        for n in range(10):
            stage.box(str(n)).tell(hold)
        await wait_all_tasks_blocked()
        ticks = [tick for _, tick in begun]
        assert [label for label, _ in begun] == [str(n) for n in range(10)]
        assert len(set(ticks[1:])) == 9  # the first may come before the count begins
        gate.set()
        await wait_all_tasks_blocked()


async def test_what_is_known_of_askers_is_kept_while_they_live_and_no_longer(stage: Any) -> None:
    """A thousand tasks that ask all the time cost one look each; ended ones are let go."""
    d = stage.dispatcher
    async with trio.open_nursery() as nursery:
        tasks: list[Any] = []

        async def live() -> None:
            tasks.append(trio.lowlevel.current_task())
            await trio.sleep_forever()

        for _ in range(1000):
            nursery.start_soon(live)
        await wait_all_tasks_blocked()
        known = {task: d.know(task) for task in tasks}
        assert all(d.askers[task] is asker for task, asker in known.items())
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        for _ in range(2500):
            nursery.start_soon(_become_known, d)
            await trio.lowlevel.checkpoint()
    assert len(d.askers) < 2500
    assert not any(task in d.askers for task in tasks)


async def _become_known(dispatcher: Any) -> None:
    dispatcher.know(trio.lowlevel.current_task())

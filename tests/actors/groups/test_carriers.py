"""Tasks that carry one attempt after the other: nothing of one is to be found in the next."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
import trio
import trio.testing
from trio.lowlevel import Task, current_task

from trouper.actors.groups._carriers import SPARE, Carriers

WHERE: ContextVar[str] = ContextVar("where", default="nowhere")
KEPT: ContextVar[Any] = ContextVar("kept", default=None)


async def carried(carriers: Carriers, fn: Callable[..., Awaitable[Any]], name: str) -> Any:
    """Run a job to its end, and the task that carried it to where it waits or is over."""
    found: list[Any] = []

    async def job() -> None:
        found.append(await fn())

    carriers.start(job, name=name)
    await trio.testing.wait_all_tasks_blocked()
    return found[0]


async def its_task() -> Task:
    return current_task()


async def test_a_task_that_has_carried_a_job_carries_the_next_under_its_name() -> None:
    async def task_and_name() -> tuple[Task, str]:
        return current_task(), current_task().name

    async with trio.open_nursery() as nursery:
        carriers = Carriers(nursery, copy_context())
        found = [await carried(carriers, task_and_name, f"job {n}") for n in range(3)]
        assert [name for _, name in found] == ["job 0", "job 1", "job 2"]
        assert len({task for task, _ in found}) == 1
        assert found[0][0].name == "trouper attempts"
        carriers.close()


async def test_every_job_begins_in_a_fresh_copy_of_the_context() -> None:
    async def change() -> str:
        seen = WHERE.get()
        WHERE.set("changed")
        await trio.lowlevel.checkpoint()
        assert WHERE.get() == "changed"
        return seen

    WHERE.set("here")
    async with trio.open_nursery() as nursery:
        carriers = Carriers(nursery, copy_context())
        WHERE.set("later")
        assert [await carried(carriers, change, "job") for _ in range(3)] == ["here"] * 3
        carriers.close()


async def test_a_task_in_which_a_job_left_something_open_carries_no_other() -> None:
    managers: list[Any] = []

    async def leave_a_nursery_open() -> Task:
        managers.append(trio.open_nursery())
        await managers[-1].__aenter__()
        return current_task()

    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            carriers = Carriers(nursery, copy_context())
            leaky = await carried(carriers, leave_a_nursery_open, "leaky")
            assert leaky is not await carried(carriers, its_task, "next")
            carriers.close()
    assert "RuntimeError" in repr(caught.value)


async def test_no_more_tasks_wait_than_there_are_spare_ones() -> None:
    async with trio.open_nursery() as nursery:
        carriers, gate = Carriers(nursery, copy_context()), trio.Event()
        for number in range(2 * SPARE):
            carriers.start(gate.wait, name=f"job {number}")
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2 * SPARE
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == SPARE
        carriers.close()


async def test_closing_ends_those_that_wait_and_none_waits_after() -> None:
    async with trio.open_nursery() as nursery:
        carriers, gate = Carriers(nursery, copy_context()), trio.Event()
        await carried(carriers, its_task, "before")
        carriers.start(gate.wait, name="during")
        carriers.close()
        await carried(carriers, its_task, "after")
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks


async def test_a_task_that_a_cancel_reached_is_not_woken_a_second_time() -> None:
    async with trio.open_nursery() as nursery:
        carriers = Carriers(nursery, copy_context())
        await carried(carriers, its_task, "before")
        nursery.cancel_scope.cancel()  # it is told, and has not run yet
        carriers.start(its_task, name="late")
        carriers.close()


async def test_a_task_that_waits_holds_nothing_of_its_last_job() -> None:
    class Thing:
        pass

    async def use(thing: Thing) -> None:
        assert thing is not None

    async with trio.open_nursery() as nursery:
        carriers, thing = Carriers(nursery, copy_context()), Thing()
        known = weakref.ref(thing)
        carriers.start(use, thing, name="job")
        del thing
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert known() is None
        carriers.close()


async def test_a_task_that_waits_holds_no_variable_that_its_last_job_set() -> None:
    class Thing:
        pass

    known: list[weakref.ref[Thing]] = []

    async def keep() -> None:
        thing = Thing()
        known.append(weakref.ref(thing))
        KEPT.set(thing)

    async with trio.open_nursery() as nursery:
        carriers = Carriers(nursery, copy_context())
        for _ in range(2):  # in the task's first context, and in one that it was given
            await carried(carriers, keep, "job")
            gc.collect()
            assert known[-1]() is None
        carriers.close()


async def test_a_task_that_holds_a_lock_carries_no_other_and_breaks_it() -> None:
    lock = trio.Lock()

    async def leak() -> Task:
        await lock.acquire()
        return current_task()

    async def release() -> Task:
        with pytest.raises(RuntimeError):
            lock.release()
        return current_task()

    async with trio.open_nursery() as nursery:
        carriers = Carriers(nursery, copy_context())
        assert await carried(carriers, leak, "leaky") is not await carried(
            carriers, release, "next"
        )
        with pytest.raises(trio.BrokenResourceError):  # and does not wait for ever
            await lock.acquire()
        carriers.close()


async def test_a_task_that_released_its_lock_carries_the_next() -> None:
    lock = trio.Lock()

    async def locked() -> Task:
        async with lock:
            return current_task()

    async with trio.open_nursery() as nursery:
        carriers = Carriers(nursery, copy_context())
        assert len({await carried(carriers, locked, "job") for _ in range(3)}) == 1
        carriers.close()


async def test_what_decides_when_tasks_begin_sees_each_of_them() -> None:
    class Deciding:
        def __init__(self, nursery: trio.Nursery) -> None:
            self.nursery = nursery
            self.names: list[object] = []

        def start_soon(
            self, fn: Callable[..., Awaitable[Any]], /, *args: Any, name: object = None
        ) -> None:
            self.names.append(name)
            self.nursery.start_soon(fn, *args, name=name)

    async with trio.open_nursery() as nursery:
        tasks = Deciding(nursery)
        carriers = Carriers(tasks, copy_context())
        for number in range(3):
            await carried(carriers, its_task, f"job {number}")
        assert tasks.names == ["job 0", "job 1", "job 2"]
        assert not nursery.child_tasks

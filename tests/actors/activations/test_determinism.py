"""What a durable function may not do, and the line that the error names."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.lowlevel

from trouper import Activation, durable, effect, open_system
from trouper.actors import inspect as journal
from trouper.actors.activations import Durable
from trouper.errors import ActivationError, EmptyGroup, HistoryLimit, NondeterministicAwait
from trouper.store import MemoryStore


@effect
async def one() -> int:
    return 1


async def sleeps(act: Activation) -> None:
    await act.call(one)
    await trio.lowlevel.checkpoint()  # here


async def checkpoints(act: Activation) -> None:
    await trio.lowlevel.checkpoint()  # here


async def opens_nursery(act: Activation) -> None:
    async with trio.open_nursery() as nursery:  # here
        nursery.start_soon(trio.sleep, 0)


async def opens_scope(act: Activation) -> None:
    with trio.move_on_after(1):  # here
        await act.call(one)


async def locks(act: Activation) -> None:
    async with trio.Lock():  # here
        await act.call(one)


async def sets_event(act: Activation) -> None:
    await trio.Event().wait()  # here


async def reads_time(act: Activation) -> None:
    trio.current_time()  # here


async def uses_thread(act: Activation) -> None:
    await trio.to_thread.run_sync(print)  # here


async def uses_asyncio(act: Activation) -> None:
    await asyncio.sleep(0)  # here


async def awaits_future(act: Activation) -> None:
    class Foreign:
        def __await__(self) -> Any:
            yield "something"  # here

    await Foreign()


async def uses_channel(act: Activation) -> None:
    _, receive = trio.open_memory_channel[int](0)
    await receive.receive()  # here


async def helper() -> None:
    await trio.lowlevel.checkpoint()  # here


async def by_a_helper(act: Activation) -> None:
    await helper()


async def swallows(act: Activation) -> int:
    with contextlib.suppress(BaseException):
        await trio.lowlevel.checkpoint()  # here
    return 5


MISUSES = [
    sleeps,
    checkpoints,
    opens_nursery,
    opens_scope,
    locks,
    sets_event,
    reads_time,
    uses_thread,
    uses_asyncio,
    awaits_future,
    uses_channel,
    by_a_helper,
]


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda fn: fn.__name__)
async def test_a_foreign_await_is_refused_at_the_users_line(misuse: Any) -> None:
    activity: Durable[[], Any] = durable(name=misuse.__name__)(misuse)
    async with open_system("t", activities=[activity]) as system:
        with pytest.raises(NondeterministicAwait, match="await only act") as raised:
            await system.run(activity, key="k")
        with trio.move_on_after(1):  # the system still works
            assert await system.run(fine, key="other") == 1
    source = helper if misuse is by_a_helper else misuse
    lines, first = inspect.getsourcelines(source)
    marked = first + next(n for n, line in enumerate(lines) if "# here" in line)
    assert raised.value.line == marked


@durable
async def fine(act: Activation) -> int:
    return await act.call(one)


async def test_swallowing_the_refusal_changes_nothing() -> None:
    activity = durable(name="swallows")(swallows)
    async with open_system("t", activities=[activity]) as system:
        with pytest.raises(NondeterministicAwait):
            await system.run(activity, key="k")


async def test_own_helpers_context_managers_and_generators_are_fine() -> None:
    closed: list[str] = []

    @contextlib.asynccontextmanager
    async def around(act: Activation) -> AsyncIterator[int]:
        try:
            yield await act.call(one)
        finally:
            closed.append("context")

    async def generate(act: Activation) -> AsyncIterator[int]:
        try:
            while True:
                yield await act.call(one)
        finally:
            closed.append("generator")

    @durable(name="helpers")
    async def helpers(act: Activation) -> int:
        async with around(act) as first:
            async for second in generate(act):
                return first + second
        raise AssertionError("unreachable")

    async with open_system("t", activities=[helpers]) as system:
        assert await system.run(helpers, key="k") == 2
    assert sorted(closed) == ["context", "generator"]


async def test_a_step_is_used_once() -> None:
    @durable(name="twice")
    async def twice(act: Activation) -> None:
        call = act.call(one)
        await call
        await call

    async with open_system("t", activities=[twice]) as system:
        with pytest.raises(ActivationError, match="used before"):
            await system.run(twice, key="k")


async def test_a_step_that_is_never_awaited_is_an_error() -> None:
    @durable(name="forgets")
    async def forgets(act: Activation) -> None:
        act.call(one)

    async with open_system("t", activities=[forgets]) as system:
        with pytest.raises(ActivationError, match="never awaited"):
            await system.run(forgets, key="k")


@pytest.mark.parametrize("combinator", ["race", "any_of"])
async def test_a_race_of_nothing_is_refused(combinator: str) -> None:
    @durable(name="empty")
    async def empty(act: Activation) -> None:
        await getattr(act, combinator)()

    async with open_system("t", activities=[empty]) as system:
        with pytest.raises(EmptyGroup):
            await system.run(empty, key="k")


async def test_a_history_that_grows_too_long_is_named() -> None:
    @durable(name="endless")
    async def endless(act: Activation) -> None:
        while True:
            await act.call(one)

    async with open_system("t", activities=[endless], history_limit=20) as system:
        with pytest.raises(HistoryLimit, match="20 steps"):
            await system.run(endless, key="k")


@pytest.mark.parametrize(("limit", "fits"), [(8, True), (7, False)])
async def test_a_group_of_n_costs_n_steps_of_a_history(limit: int, fits: bool) -> None:
    @durable(name="wide")
    async def wide(act: Activation) -> int:
        await act.call(one)
        await act.all_of(*[act.call(one) for _ in range(5)])
        await act.race(act.call(one), act.call(one))
        return 7

    async with open_system("t", activities=[wide], history_limit=limit) as system:
        if fits:
            assert await system.run(wide, key="k") == 7
            return
        with pytest.raises(HistoryLimit, match="a group of n counted as n"):
            await system.run(wide, key="k")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
async def test_only_an_exception_is_an_outcome(error: type[BaseException]) -> None:
    @durable(name="ends_the_process")
    async def ends_the_process(act: Activation) -> None:
        raise error

    store = MemoryStore()
    with pytest.raises(error):
        async with open_system("t", store=store, activities=[ends_the_process]) as system:
            await system.run(ends_the_process, key="k")
    async with store:
        assert all(a.state == "running" for a in journal.activations(store))

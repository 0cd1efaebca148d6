"""Threads and sockets: what a schedule controls, what it waits for, and what it refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
import trio
import trio.testing
from tests.testing.schedules.scenarios import Get, Go, Scene

from trouper import Actor, Context, handles
from trouper.errors import OptionRefused, UncontrolledWait
from trouper.testing.schedules import Options, Rules, Simulation, scenario_play, search

Uncontrolled = Literal["error", "serialize", "allow"]


class Caller(Actor[Go | Get]):
    """Awaits something in its handler; another message asks how often that was over."""

    def __init__(self, fn: Callable[[Context[Any]], Awaitable[object]]) -> None:
        self.fn, self.done = fn, 0

    @handles(Go)
    async def go(self, message: Go, ctx: Context[Any]) -> None:
        await self.fn(ctx)
        self.done += 1

    @handles(Get)
    def get(self, message: Get) -> int:
        return self.done


def calls(*fns: Callable[[Context[Any]], Awaitable[object]], done: int | None = 1) -> Any:
    async def scenario(sim: Simulation) -> Scene:
        refs = [await sim.system.spawn(Caller, fn, name=f"caller{n}") for n, fn in enumerate(fns)]
        for ref in refs:
            ref.tell(Go())
        yield
        if done is not None:
            assert [await ref.ask(Get()) for ref in refs] == [done] * len(refs)

    return scenario


async def raw_thread(ctx: Context[Any]) -> None:
    await trio.to_thread.run_sync(threading.get_ident)


async def raw_socket(ctx: Context[Any]) -> None:
    here, there = socket.socketpair()
    with here, there:
        await trio.lowlevel.wait_readable(here)


@pytest.mark.parametrize(("fn", "what"), [(raw_thread, "a thread"), (raw_socket, "a socket")])
def test_what_no_schedule_controls_is_refused_and_the_task_is_named(fn: Any, what: str) -> None:
    scenario = calls(fn)
    report = search(scenario_play(scenario), strategy="fifo")
    assert report.first_failure is not None
    error = report.first_failure.error
    assert isinstance(error, UncontrolledWait)
    assert error.task == "/sim/caller0"
    assert what in str(error)
    assert __file__ in str(error)
    assert [str(step.event) for step in report.first_failure.steps] == [
        "`caller0` gets scenario's Go"
    ]


async def thread_that_is_back(ctx: Context[Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raw_thread, ctx)
        await trio.testing.wait_all_tasks_blocked()


async def thread_that_is_awaited(ctx: Context[Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raw_thread, ctx)
        await trio.lowlevel.checkpoint()
        while trio.testing.active_thread_count():  # all is never at rest meanwhile
            await trio.lowlevel.checkpoint()


async def thread_of_another_limiter(ctx: Context[Any]) -> None:
    await trio.to_thread.run_sync(threading.get_ident, limiter=trio.CapacityLimiter(1))


async def thread_beside_a_controlled_one(ctx: Context[Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ctx.to_thread, threading.get_ident)
        nursery.start_soon(raw_thread, ctx)


@pytest.mark.parametrize(
    "fn",
    [
        thread_that_is_awaited,
        thread_that_is_back,
        thread_of_another_limiter,
        thread_beside_a_controlled_one,
    ],
)
def test_a_call_of_a_thread_is_refused_however_fast_it_is(fn: Any) -> None:
    for _ in range(10):
        report = search(scenario_play(calls(fn)), strategy="fifo")
        assert report.first_failure is not None
        assert isinstance(report.first_failure.error, UncontrolledWait)
        assert f"{__file__}:" in str(report.first_failure.error)


def test_a_thread_in_the_set_up_is_refused_as_the_scenarios() -> None:
    async def scenario(sim: Simulation) -> Scene:
        await trio.to_thread.run_sync(threading.get_ident)
        yield

    report = search(scenario_play(scenario), strategy="fifo")
    assert report.first_failure is not None
    assert str(report.first_failure.error).startswith("scenario waits for a thread")


def test_another_word_for_what_is_uncontrolled_is_refused() -> None:
    with pytest.raises(OptionRefused, match="uncontrolled is error, serialize or allow, not 'no'"):
        Options(uncontrolled="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("uncontrolled", ["serialize", "allow"])
def test_on_request_it_is_waited_for_or_let_be(uncontrolled: Uncontrolled) -> None:
    options = Options(uncontrolled=uncontrolled)
    done = 1 if uncontrolled == "serialize" else None
    report = search(scenario_play(calls(raw_thread, done=done), options), strategy="dfs")
    assert report.first_failure is None
    assert report.exhausted


def test_a_call_of_a_thread_through_the_context_is_an_event_like_another() -> None:
    order: list[str] = []

    def call(name: str) -> Callable[[Context[Any]], Awaitable[object]]:
        async def fn(ctx: Context[Any]) -> None:
            await ctx.to_thread(threading.get_ident)
            order.append(name)

        return fn

    orders: set[str] = set()

    async def scenario(sim: Simulation) -> Scene:
        order.clear()
        for name in "ab":
            (await sim.system.spawn(Caller, call(name), name=name)).tell(Go())
        yield
        assert len(order) == 2
        orders.add("".join(order))

    play = scenario_play(scenario)
    report = search(play, strategy="naive", rules=Rules())
    assert report.exhausted
    assert report.first_failure is None
    assert orders == {"ab", "ba"}
    assert report.schedules == 6  # two beginnings and two results, in every order
    assert search(play, strategy="dfs").schedules == 1  # none of which matters to the other


async def failing_thread(ctx: Context[Any]) -> None:
    def fail() -> None:
        raise LookupError("in a thread")

    await ctx.to_thread(fail)


def test_what_a_thread_raises_comes_out_where_it_was_called() -> None:
    report = search(scenario_play(calls(failing_thread)), strategy="fifo")
    assert report.first_failure is not None
    assert isinstance(report.first_failure.error, LookupError)

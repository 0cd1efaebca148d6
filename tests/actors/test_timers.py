"""Timers: when they come, what they go before, and what ends them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Actor, Context, handles, open_system
from trouper.errors import NotHandled, TimersFull


class Clockwork(Actor):
    """Notes what comes and when; a function is run, a string noted."""

    seen: list[tuple[str, float]]

    def __init__(self, seen: list[tuple[str, float]]) -> None:
        self.seen = seen

    @handles(str)
    def note(self, message: str) -> None:
        self.seen.append((message, trio.current_time()))

    @handles(type(lambda: None))
    async def run(self, message: Any, ctx: Context[Any]) -> Any:
        result = message(ctx)
        return await result if hasattr(result, "__await__") else result


def words(seen: list[tuple[str, float]]) -> list[str]:
    return [word for word, _ in seen]


@pytest.mark.proves("Watch: timers")
async def test_a_timer_comes_as_a_message_once_or_on_a_grid(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)
        start = trio.current_time()
        await ref.ask(lambda ctx: ctx.after(3.0, "once"))
        await ref.ask(lambda ctx: ctx.every(2.0, "again"))
        await trio.sleep(7.0)
    assert [(word, round(at - start, 6)) for word, at in seen] == [
        ("again", 2.0),
        ("once", 3.0),
        ("again", 4.0),
        ("again", 6.0),
    ]


async def test_timers_of_one_due_time_come_in_the_order_they_were_set(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)

        def set_both(ctx: Any) -> None:
            due = [(1.0, "b"), (0.5, "a"), (1.0, "c")]
            for seconds, word in due:
                ctx.after(seconds, word)

        await ref.ask(set_both)
        await trio.sleep(2)
    assert words(seen) == ["a", "b", "c"]


@pytest.mark.proves("Watch: timers are keyed")
async def test_a_timer_replaces_the_one_of_its_key(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)
        await ref.ask(lambda ctx: ctx.every(1.0, "old", key="k"))
        assert await ref.ask(lambda ctx: ctx.after(5.0, "new", key="k")) == "k"
        await trio.sleep(10)
        assert words(seen) == ["new"]


async def test_a_cancelled_timer_does_not_come_even_if_its_message_waits(
    autojump_clock: Any,
) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)

        async def let_it_queue(ctx: Any) -> tuple[bool, bool]:
            ctx.after(1.0, "queued", key=1)
            await trio.sleep(2)
            assert ref.statistics().depth == 1
            return ctx.cancel_timer(1), ctx.cancel_timer(1)

        assert await ref.ask(let_it_queue) == (True, False)
        await trio.sleep(5)
        assert seen == []
        assert await ref.ask(lambda ctx: ctx.cancel_timer("never set")) is False


async def test_a_timer_goes_before_user_messages(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)

        async def busy(ctx: Any) -> None:
            ctx.after(1.0, "timer")
            await trio.sleep(2)

        ref.tell(busy)
        ref.tell("user")
        await trio.sleep(5)
    assert words(seen) == ["timer", "user"]


async def test_a_slow_actor_finds_one_tick_and_the_grid_stays(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)
        start = trio.current_time()

        async def busy(ctx: Any) -> None:
            ctx.every(1.0, "tick")
            await trio.sleep(3.5)

        await ref.ask(busy)
        await trio.sleep(2.0)
    assert [round(at - start, 6) for _, at in seen] == [3.5, 4.0, 5.0]


@pytest.mark.proves("Restart: cancels timers and pipes")
async def test_a_restart_cancels_timers_also_those_that_wait(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen, restart="transient")

        async def crash(ctx: Any) -> None:
            ctx.after(1.0, "queued")
            ctx.every(3.0, "later")
            await trio.sleep(2)
            raise ValueError("boom")

        ref.tell(crash)
        await trio.sleep(20)
        assert ref.incarnation == 2
        assert seen == []


async def test_a_stop_cancels_timers(autojump_clock: Any) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)
        await ref.ask(lambda ctx: ctx.every(1.0, "tick"))
        ref.stop()
        await trio.sleep(5)
        assert seen == []
        assert [letter.reason for letter in system.dead_letters] == []


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
async def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, [])

        def check(ctx: Any) -> None:
            for setter in (ctx.after, ctx.every):
                with pytest.raises(ValueError, match="finite number of seconds"):
                    setter(seconds, "x")
            with pytest.raises(ValueError, match="finite number of seconds"):
                ctx.every(0, "x")

        await ref.ask(check)


async def test_a_timer_whose_message_has_no_handler_is_refused_where_it_is_set() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, [])

        def check(ctx: Any) -> None:
            with pytest.raises(NotHandled):
                ctx.after(1.0, 3.5)

        await ref.ask(check)


async def test_timers_are_bounded_by_the_mailbox() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, [], mailbox=2)

        def check(ctx: Any) -> None:
            ctx.after(60, "a", key="a")
            ctx.after(60, "b", key="b")
            ctx.after(60, "b", key="b")
            with pytest.raises(TimersFull) as raised:
                ctx.after(60, "c")
            assert raised.value.facts["capacity"] == 2

        await ref.ask(check)


async def test_a_thousand_cancelled_timers_leave_the_heap_small() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, [])

        def churn(ctx: Any) -> None:
            for n in range(1000):
                ctx.after(60 + n, "x", key="same")

        await ref.ask(churn)
        heap = system._runtime.timers  # the one place to see that nothing piles up
        assert len(heap) == 1
        assert len(heap._heap) < 200
        ref.stop()
        await wait_all_tasks_blocked()
        assert len(heap) == 0


async def test_a_period_below_the_resolution_of_the_clock_does_not_hang(
    autojump_clock: Any,
) -> None:
    seen: list[tuple[str, float]] = []
    async with open_system("s") as system:
        ref: Any = await system.spawn(Clockwork, seen)
        await trio.sleep_until(trio.current_time() + 1e6)

        await ref.ask(lambda ctx: ctx.every(1e-15, "tick"))
        await trio.sleep(1e-8)
        ref.stop()
        await ref.stopped()
    times = [when for _, when in seen]
    assert words(seen) == ["tick"] * len(seen)
    assert len(seen) > 10
    assert times == sorted(set(times)), "each at an instant of its own"

"""Pipes: work beside the turns of an actor."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Actor, Context, Request, handles, open_system
from trouper.errors import PipesFull
from trouper.testing import TestKit


class Do(Request[Any]):
    """Carries what to do."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn


@dataclass(frozen=True, slots=True)
class Done:
    value: Any


class Piper(Actor):
    """Notes what came back."""

    def __init__(self, seen: list[Any] | None = None) -> None:
        self.seen = seen if seen is not None else []

    @handles(Done)
    def done(self, message: Done) -> None:
        self.seen.append(message.value)

    @handles(Do)
    async def do(self, message: Do, ctx: Context[Any]) -> Any:
        result = message.fn(ctx)
        return await result if hasattr(result, "__await__") else result


async def double(n: int) -> int:
    await trio.sleep(1)
    return 2 * n


async def boom() -> None:
    raise ValueError("boom")


@pytest.mark.proves("Turns: ctx.pipe")
async def test_a_pipe_runs_beside_the_turns_and_comes_back_as_a_message(
    autojump_clock: Any,
) -> None:
    seen: list[Any] = []
    async with open_system("s") as system:
        ref = await system.spawn(Piper, seen)
        await ref.ask(Do(lambda ctx: ctx.pipe(double, 4, to=Done)))
        assert await ref.ask(Do(lambda ctx: "turns go on")) == "turns go on"
        assert seen == []
        await trio.sleep(2)
        assert seen == [8]


async def test_a_pipe_may_ask_its_own_actor() -> None:
    seen: list[Any] = []
    async with open_system("s") as system:
        ref = await system.spawn(Piper, seen)
        question = Do(lambda ctx: "answer")
        await ref.ask(Do(lambda ctx: ctx.pipe(ref.ask, question, to=Done)))
        await wait_all_tasks_blocked()
        assert seen == ["answer"]


async def test_a_failure_comes_back_as_declared() -> None:
    seen: list[Any] = []
    async with open_system("s") as system:
        ref = await system.spawn(Piper, seen)
        await ref.ask(Do(lambda ctx: ctx.pipe(boom, to=Done, failed=Done)))
        await wait_all_tasks_blocked()
        assert repr(seen) == "[ValueError('boom')]"
        assert ref.incarnation == 1


async def test_an_undeclared_failure_crashes_the_actor() -> None:
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            ref = await system.spawn(Piper)
            await ref.ask(Do(lambda ctx: ctx.pipe(boom, to=Done)))
            await trio.sleep_forever()


@pytest.mark.parametrize("to", [lambda _: 1 / 0, lambda _: "nobody handles a str"])
async def test_a_result_that_makes_no_message_crashes_the_actor(to: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Piper, restart="transient")
        await ref.ask(Do(lambda ctx: ctx.pipe(trio.sleep, 0, to=to)))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2


async def test_a_failure_in_mid_turn_fails_that_turn() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Piper, restart="transient")

        async def start_and_block(ctx: Any) -> None:
            ctx.pipe(boom, to=Done)
            await trio.sleep_forever()

        ref.tell(Do(start_and_block))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2


@pytest.mark.proves("Restart: cancels timers and pipes")
@pytest.mark.parametrize("end", ["crash", "stop", "drain", "kill"])
async def test_the_end_of_the_instance_cancels_its_pipes_and_waits_for_them(end: str) -> None:
    seen: list[Any] = []
    trace: list[str] = []

    async def work() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            trace.append("pipe ended")
        return "never"

    def crash(ctx: Any) -> None:
        raise ValueError("boom")

    async with open_system("s") as system:
        ref = await system.spawn(Piper, seen, restart="transient")
        await ref.ask(Do(lambda ctx: ctx.pipe(work, to=Done)))
        await wait_all_tasks_blocked()
        if end == "crash":
            ref.tell(Do(crash))
            assert await ref.ask(Do(lambda ctx: trace.copy())) == ["pipe ended"]
        else:
            getattr(ref, end)()
            await ref.stopped()
            assert trace == ["pipe ended"]
        assert seen == []


async def test_a_pipe_that_swallows_its_cancellation_delivers_nothing() -> None:
    seen: list[Any] = []

    async def stubborn() -> str:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep_forever()
        return "too late"

    async with open_system("s") as system:
        ref = await system.spawn(Piper, seen)
        await ref.ask(Do(lambda ctx: ctx.pipe(stubborn, to=Done)))
        await wait_all_tasks_blocked()
        ref.stop()
        await ref.stopped()
    assert seen == []


async def test_a_pipe_that_fails_while_it_is_cut_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("clean-up")

    async with open_system("s") as system:
        ref = await system.spawn(Piper)
        await ref.ask(Do(lambda ctx: ctx.pipe(work, to=Done)))
        await wait_all_tasks_blocked()
        ref.stop()
        assert (await ref.stopped()).kind == "stopped"
    assert "a pipe failed while it was cut" in caplog.text


async def test_a_start_that_fails_leaves_no_pipe() -> None:
    class Starter(Piper):
        async def started(self, ctx: Context[Any]) -> None:
            ctx.pipe(trio.sleep_forever, to=Done)
            ctx.after(1, Done(1))
            await trio.lowlevel.checkpoint()
            raise ValueError("boom")

    async with open_system("s") as system:
        with pytest.raises(Exception, match="did not start"):
            await system.spawn(Starter)


async def test_a_pipe_begun_in_the_last_turn_never_runs() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Piper)

        def last(ctx: Any) -> None:
            ctx.self_ref.stop()
            ctx.pipe(boom, to=Done)

        ref.tell(Do(last))
        assert (await ref.stopped()).kind == "stopped"


async def test_pipes_are_bounded_by_the_mailbox() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Piper, mailbox=1)

        def check(ctx: Any) -> None:
            ctx.pipe(trio.sleep_forever, to=Done)
            with pytest.raises(PipesFull):
                ctx.pipe(trio.sleep_forever, to=Done)

        await ref.ask(Do(check))


async def test_ctrl_c_in_a_pipe_ends_the_system() -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with open_system("s") as system:
            ref = await system.spawn(Piper)
            await ref.ask(Do(lambda ctx: ctx.pipe(interrupt, to=Done)))
            await trio.sleep_forever()


async def test_a_message_for_a_failure_that_cannot_be_made_crashes_with_both() -> None:
    def bad(error: Exception) -> Done:
        raise KeyError("bad")

    with pytest.raises(KeyError, match="bad") as raised:
        async with open_system("s") as system:
            ref = await system.spawn(Piper)
            await ref.ask(Do(lambda ctx: ctx.pipe(boom, to=Done, failed=bad)))
            await trio.sleep_forever()
    assert repr(raised.value.__cause__) == "ValueError('boom')"


async def test_a_cancellation_that_nobody_asked_for_is_a_crash() -> None:
    async def leak() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as exc:
                kept.append(exc)
        raise kept[0]

    kept: list[BaseException] = []
    async with open_system("s") as system:
        ref = await system.spawn(Piper, restart="transient")
        await ref.ask(Do(lambda ctx: ctx.pipe(leak, to=Done)))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2


async def test_a_pipe_that_cannot_be_cut_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture, autojump_clock: Any
) -> None:
    async def shielded() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)

    async with open_system("s") as system:
        ref = await system.spawn(Piper, shutdown=1.0)
        await ref.ask(Do(lambda ctx: ctx.pipe(shielded, to=Done)))
        await wait_all_tasks_blocked()
        ref.stop()
        await ref.stopped()
    assert "a pipe was cut but still runs" in caplog.text
    assert "in shielded" in caplog.text


async def test_a_pipe_of_a_plain_function_says_what_to_give_instead() -> None:
    class Plain(Actor):
        @handles(str)
        def begin(self, message: str, ctx: Context) -> None:
            plain: Any = len
            ctx.pipe(plain, message, to=str)

    async with TestKit(Plain) as kit:
        kit.tell("x")
        assert "take an async def" in str(await kit.crashed(TypeError))

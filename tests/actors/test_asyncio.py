"""asyncio libraries inside actors, and refs inside asyncio code."""

from __future__ import annotations

import asyncio
import importlib
import logging
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import trio
import trio.testing

from trouper.actors import Actor, Context, Request, handles, open_system
from trouper.errors import ActorCrashed, AskCycle
from trouper.supervision import Exit

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # as `_asyncio` does, and says why
    bridge: Any = pytest.importorskip("trio_asyncio")


@dataclass(frozen=True, slots=True)
class Aio(Request[Any]):
    """Answered with what this asyncio function returns."""

    fn: Any
    args: tuple[Any, ...] = ()


class Bridge(Actor[Aio]):
    @handles(Aio)
    async def run(self, message: Aio, ctx: Context) -> Any:
        return await ctx.aio(message.fn, *message.args)


@pytest.mark.proves("Interop: trio-asyncio")
async def test_an_actor_runs_asyncio_code() -> None:
    async def work(n: int) -> tuple[int, bool]:
        await asyncio.sleep(0)
        first, second = await asyncio.gather(asyncio.sleep(0, n), asyncio.sleep(0, 1))
        return first + second, asyncio.get_running_loop().is_running()

    async with open_system("s") as system:
        ref = await system.spawn(Bridge)
        assert await ref.ask(Aio(work, (6,))) == (7, True)


@pytest.mark.proves("Interop: trio-asyncio")
async def test_a_failure_of_asyncio_code_crosses_as_itself(cast: Any) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("not in asyncio either")

    async def catch(self: Any, ctx: Any) -> Any:
        try:
            await ctx.aio(fail)
        except LookupError as error:
            return error

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        assert str(await ref.ask(cast.Ask(catch))) == "not in asyncio either"


@pytest.mark.proves("Interop: trio-asyncio")
async def test_it_crashes_the_actor_that_lets_it_out() -> None:
    async def fail() -> None:
        raise LookupError("mine")

    async with open_system("s") as system:
        ref = await system.spawn(Bridge, restart="permanent")
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Aio(fail))
        assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.proves("Interop: trio-asyncio")
async def test_asyncio_code_tells_and_asks(cast: Any) -> None:
    async with open_system("s") as system:
        other = await system.spawn(cast.Player, "other")
        ref = await system.spawn(Bridge)
        told = trio.Event()

        async def note(self: Any, ctx: Any) -> None:
            told.set()

        async def work() -> Any:
            other.tell(cast.Go(note))
            return await bridge.trio_as_aio(other.ask)(cast.Ask())

        assert await ref.ask(Aio(work)) == "other"
        await told.wait()


@pytest.mark.proves("Interop: trio-asyncio")
async def test_a_failure_of_an_actor_crosses_into_asyncio_as_itself(cast: Any) -> None:
    async with open_system("s") as system:
        other = await system.spawn(cast.Player, restart="permanent")
        ref = await system.spawn(Bridge)

        async def work() -> Any:
            try:
                await bridge.trio_as_aio(other.ask)(cast.Ask(cast.boom))
            except ActorCrashed as error:
                return error.__cause__

        assert isinstance(await ref.ask(Aio(work)), ValueError)


async def test_a_cycle_through_asyncio_is_found(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Bridge, name="a", restart="permanent")

        async def work() -> Any:
            inner = asyncio.create_task(ask())
            return await inner

        async def ask() -> None:
            await bridge.trio_as_aio(ref.ask)(Aio(work))

        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Aio(work))
        assert isinstance(caught.value.__cause__, AskCycle)
        assert caught.value.__cause__.path == ["/s/a", "/s/a"]


async def test_an_asyncio_task_that_outlives_its_call_waits_for_itself_only() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Bridge)
        tasks: list[Any] = []

        async def later() -> Any:
            await asyncio.sleep(0)
            return await bridge.trio_as_aio(ref.ask)(Aio(asyncio.sleep, (0, "late")))

        async def work() -> None:
            tasks.append(asyncio.create_task(later()))

        async def result() -> Any:
            return tasks[0].result()

        await ref.ask(Aio(work))
        await trio.testing.wait_all_tasks_blocked()
        assert await ref.ask(Aio(result)) == "late"


@pytest.mark.proves("Interop: trio-asyncio")
async def test_cutting_the_turn_cancels_the_asyncio_task() -> None:
    entered, cut = trio.Event(), trio.Event()

    async def work() -> None:
        entered.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cut.set()
            raise

    async with open_system("s") as system:
        ref = await system.spawn(Bridge)
        ref.tell(Aio(work))
        await entered.wait()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
        assert cut.is_set()


async def test_a_cancel_from_inside_asyncio_is_an_ordinary_failure(cast: Any) -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def catch(self: Any, ctx: Any) -> Any:
        try:
            await ctx.aio(work)
        except RuntimeError as error:
            return str(error)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        assert "cancelled from inside" in await ref.ask(cast.Ask(catch))


class Client(Actor[Aio]):
    """Opens something of asyncio's when it starts and closes it when it stops."""

    log: list[str]

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def started(self, ctx: Context) -> None:
        self.server = await ctx.aio(asyncio.start_server, self.serve, "127.0.0.1", 0)
        self.log.append("open")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    @handles(Aio)
    async def echo(self, message: Aio, ctx: Context) -> bytes:
        return await ctx.aio(self._echo, message.args[0])

    async def _echo(self, line: bytes) -> bytes:
        host, port = self.server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(line)
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer

    async def stopping(self, ctx: Context, why: Exit) -> None:
        self.server.close()
        await ctx.aio(self.server.wait_closed)
        self.log.append("closed")


@pytest.mark.proves("Interop: trio-asyncio")
async def test_what_is_opened_in_started_lives_across_turns_until_stopping() -> None:
    log: list[str] = []
    async with open_system("s") as system:
        ref = await system.spawn(Client, log)
        assert await ref.ask(Aio(None, (b"one\n",))) == b"one\n"
        assert await ref.ask(Aio(None, (b"two\n",))) == b"two\n"
    assert log == ["open", "closed"]


async def test_what_nobody_awaited_is_logged_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(0)

    async with open_system("s") as system:
        ref = await system.spawn(Bridge)
        with caplog.at_level(logging.ERROR, logger="trouper.actors"):
            await ref.ask(Aio(work))
            assert await ref.ask(Aio(asyncio.sleep, (0, "alive"))) == "alive"
    assert any("asyncio: " in record.getMessage() for record in caplog.records)


async def test_an_outer_cancel_ends_the_loop_after_the_actors() -> None:
    log: list[str] = []
    with trio.CancelScope() as scope:
        async with open_system("s") as system:
            await system.spawn(Client, log)
            scope.cancel()
            await trio.sleep_forever()
    assert log == ["open", "closed"]


async def test_without_the_extra_the_error_says_what_to_install(
    cast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    async def catch(self: Any, ctx: Any) -> Any:
        try:
            await ctx.aio(asyncio.sleep, 0)
        except ModuleNotFoundError as error:
            return str(error)

    monkeypatch.setattr(importlib, "import_module", missing)
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        assert "pip install 'trouper[asyncio]'" in await ref.ask(cast.Ask(catch))

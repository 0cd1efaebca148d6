"""What an actor can do as itself."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import trio

from trouper.actors import open_system


async def test_a_context_knows_its_actor_and_its_parent(cast: Any) -> None:
    async def look(self: Any, ctx: Any) -> Any:
        return ctx.self_ref, ctx.parent

    async with open_system("s") as system:
        top = await system.spawn(cast.Player)
        child = await top.ask(cast.Ask(cast.spawns(cast.Player)))
        assert await top.ask(cast.Ask(look)) == (top, None)
        assert await child.ask(cast.Ask(look)) == (child, top)


@pytest.mark.proves("Interop: ctx.to_thread")
async def test_blocking_work_runs_in_a_thread_while_others_go_on(cast: Any) -> None:
    go = threading.Event()

    async def work(self: Any, ctx: Any) -> Any:
        return await ctx.to_thread(go.wait, 10)

    async with open_system("s") as system:
        worker, other = [await system.spawn(cast.Player, n) for n in "ab"]
        worker.tell(cast.Go(work))
        assert await other.ask(cast.Ask()) == "b"
        go.set()


@pytest.mark.proves("Interop: threads may ask")
async def test_a_thread_may_ask_an_actor_through_trio(cast: Any) -> None:
    async with open_system("s") as system:
        a, b = [await system.spawn(cast.Player, n) for n in "ab"]

        async def through_thread(self: Any, ctx: Any) -> Any:
            return await ctx.to_thread(trio.from_thread.run, b.ask, cast.Ask())

        assert await a.ask(cast.Ask(through_thread)) == "b"


@pytest.mark.proves("Interop: logging")
async def test_log_records_name_the_actor(cast: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def log(self: Any, ctx: Any) -> None:
        ctx.log.info("hello %s", "you", extra={"order": 7})

    with caplog.at_level(logging.INFO, logger="trouper.actors"):
        async with open_system("s") as system:
            ref = await system.spawn(cast.Player, name="a")
            await ref.ask(cast.Ask(log))
    record = next(r for r in caplog.records if "hello" in r.getMessage())
    assert record.getMessage() == "/s/a: hello you"
    assert (record.__dict__["actor"], record.__dict__["order"]) == ("/s/a", 7)
    names = [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "trouper"]
    assert [n for n in names if logging.getLogger(n).handlers] == []

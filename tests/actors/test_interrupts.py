"""A Ctrl-C at lines all over the library: actors end in order with their hooks, nothing hangs."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.lowlevel
from tests.supervision.conftest import interrupt_at

from trouper.actors import Actor, Context, Ref, Request, handles, open_system
from trouper.errors import StartFailed
from trouper.supervision import Exit

STRIDE = 37


class Kid(Request[int]):
    """Wants a child; or, of one that has none, a number."""


class Member(Actor):
    def __init__(self, log: list[str], label: str) -> None:
        self.log = log
        self.label = label

    async def started(self, ctx: Context[Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.log.append(f"+{self.label}")

    @handles(Kid)
    async def kid(self, message: Kid, ctx: Context[Any]) -> int:
        if self.label == "b":
            await ctx.spawn(Member, self.log, f"kid {len(self.log)}")
        await trio.lowlevel.checkpoint()
        return 1

    async def stopping(self, ctx: Context[Any], why: Exit) -> None:
        await trio.sleep(0.1)
        self.log.append(f"-{self.label}")


class Bad(Member):
    async def started(self, ctx: Context[Any]) -> None:
        await ctx.spawn(Member, self.log, "kid of bad")
        raise ValueError("bad")


class Scene:
    def __init__(self) -> None:
        self.log: list[str] = []

    async def main(self) -> None:
        async with open_system("s", shutdown=1.0) as system:
            a: Ref[Any] = await system.spawn(Member, self.log, "a")
            b: Ref[Any] = await system.spawn(Member, self.log, "b", restart="permanent")
            await b.ask(Kid())
            await a.ask(Kid())
            with pytest.raises(StartFailed):
                await system.spawn(Bad, self.log, "bad")
            a.stop()
            await a.stopped()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.ask, Kid())
                await a.stopped()


@pytest.mark.proves("Shutdown: KeyboardInterrupt")
def test_a_ctrl_c_at_any_line_ends_every_actor_that_has_started() -> None:
    whole = interrupt_at(0, Scene().main)[0].seen
    assert whole > 1000
    for line in range(1, whole, STRIDE):
        scene = Scene()
        lines, is_interrupted = interrupt_at(line, scene.main)
        assert is_interrupted or not lines.where, lines.where
        ups = sorted(entry[1:] for entry in scene.log if entry[0] == "+")
        downs = sorted(entry[1:] for entry in scene.log if entry[0] == "-")
        assert downs == ups, lines.where

"""What the checkers must infer for the tools of tests. Checked, not run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_type

from trouper.actors import Actor, ActorSystem, Context, Ref, Request, handles
from trouper.supervision import Exit
from trouper.testing import Probe, TestKit


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Total(Request[int]): ...


class Counter(Actor[Add | Total]):
    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.total = start * step

    @handles(Add)
    async def add(self, message: Add, ctx: Context[Any]) -> None:
        assert_type(await ctx.aio(asyncio.sleep, 0, "x"), str)
        assert_type(await ctx.to_thread(len, "abc"), int)

    @handles(Total)
    def read(self, message: Total) -> int:
        return self.total


async def probes(system: ActorSystem) -> None:
    probe = await Probe[Add | Total].open(system)
    assert_type(probe, Probe[Add | Total])
    wide: Ref[Add | Total] = probe
    narrow: Ref[Add] = probe
    assert_type(probe.ref, Ref[Add | Total])
    assert_type(await probe.expect(Add), Add)
    assert_type(await probe.expect(Add(1), within=1), Add)
    assert_type(await probe.fish(lambda message: True), Add | Total)
    assert_type(await probe.ask(Total()), int)
    assert_type(probe.received(), tuple[Add | Total, ...])
    probe.answers(Total, lambda message: 7)
    assert_type(await probe.expect_stopped(wide), Exit)
    narrow.tell(Add(1))


async def kits() -> None:
    async with TestKit(Counter, 10) as kit:
        assert_type(kit, TestKit[Add | Total])
        assert_type(kit.ref, Ref[Add | Total])
        assert_type(await kit.ask(Total()), int)
        assert_type(await kit.crashed(ValueError), ValueError)
        assert_type(kit.exit, Exit | None)
    async with TestKit(partial(Counter, step=2), 1, restart="permanent", mailbox=3) as other:
        assert_type(await other.ask(Total()), int)

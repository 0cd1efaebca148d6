"""What both checkers must refuse about the tools of tests: each marked line, and no other.

Checked, not run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from trouper.actors import Actor, ActorSystem, Context, Ref, Request, handles
from trouper.testing import Probe, TestKit


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Total(Request[int]): ...


@dataclass(frozen=True, slots=True)
class Name:
    pass


class Counter(Actor[Add | Total]):
    def __init__(self, start: int = 0) -> None:
        self.total = start

    @handles(Add)
    async def add(self, message: Add, ctx: Context[Any]) -> None:
        await ctx.aio(asyncio.sleep, "soon")  # E1

    @handles(Total)
    def read(self, message: Total) -> int:
        return self.total


async def probes(system: ActorSystem) -> None:
    probe = await Probe[Add | Total].open(system)
    probe.tell(Name())  # E2
    other: Ref[Name] = probe  # E3
    text: str = await probe.ask(Total())  # E4
    print(other, text)
    await probe.expect(Add, within="long")  # E5


async def kits() -> None:
    TestKit(Counter, "ten")  # E6
    TestKit(Counter, 1, 2)  # E7
    async with TestKit(Counter) as kit:
        kit.tell(Name())  # E8
        text: str = await kit.ask(Total())  # E9
        print(text)
        await kit.crashed(Name)  # E10

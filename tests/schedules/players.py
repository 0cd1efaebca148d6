"""Actors that do what their messages say, and write down what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import trio

from trouper import Actor, Context, Ref, Request, handles
from trouper.actors import Terminated
from trouper.errors import TrouperError
from trouper.supervision import Exit
from trouper.testing import Options, Report, Rules, Scenario, explore

Scene: TypeAlias = AsyncGenerator[None, None]
Deed: TypeAlias = Callable[[Context[Any]], Awaitable[object]]
ANYTIME = Rules(time="anytime")


class Boom(Exception):
    """What an actor of a scenario fails with."""


@dataclass(frozen=True, eq=False)
class Run:
    """Do this."""

    deed: Deed


@dataclass(frozen=True, eq=False)
class Item:
    n: int


@dataclass(frozen=True, eq=False)
class Get(Request[int]):
    n: int = 1


@dataclass(frozen=True, eq=False)
class Fail:
    pass


@dataclass
class Log:
    """What a troupe of players did, in order."""

    items: list[int] = field(default_factory=list[int])
    said: list[str] = field(default_factory=list[str])
    live: Counter[str] = field(default_factory=Counter[str])
    lives: Counter[str] = field(default_factory=Counter[str])

    def born(self, name: str) -> None:
        self.live[name] += 1
        self.lives[name] += 1
        assert self.live[name] == 1, f"{name} lives twice"


@dataclass
class Player(Actor[Run | Item | Get | Fail | Terminated]):
    """Does what it is told. ``hello`` is done at each start, ``bye`` at each end."""

    name: str
    log: Log
    hello: Deed | None = None
    bye: Deed | None = None

    def __post_init__(self) -> None:
        self.log.born(self.name)

    async def started(self, ctx: Context[Any]) -> None:
        if self.hello is None:
            return
        try:
            await self.hello(ctx)
        except BaseException:
            self.log.live[self.name] -= ctx.self_ref.incarnation == 1  # it has no `stopping`
            raise

    async def stopping(self, ctx: Context[Any], why: Exit) -> None:
        self.log.live[self.name] -= 1
        if self.bye is not None:
            await self.bye(ctx)

    @handles(Run)
    async def run(self, message: Run, ctx: Context[Any]) -> None:
        await message.deed(ctx)

    @handles(Item)
    def item(self, message: Item) -> None:
        self.log.items.append(message.n)

    @handles(Get)
    async def get(self, message: Get) -> int:
        return message.n

    @handles(Fail)
    def fail(self, message: Fail) -> None:
        raise Boom(self.name)

    @handles(Terminated)
    def terminated(self, message: Terminated) -> None:
        self.log.said.append(f"{message.ref.name} {message.why.kind}")


def play(
    scenario: Scenario,
    *,
    strategy: str = "portfolio",
    budget: int = 60,
    rules: Rules | None = None,
    options: Options | None = None,
) -> Report:
    """Explore a scenario, none of whose schedules may fail."""
    report = explore(scenario, strategy=strategy, budget=budget, rules=rules, options=options)
    report.check()
    return report


def exhaust(
    scenario: Scenario,
    *,
    budget: int = 1000,
    rules: Rules | None = None,
    options: Options | None = None,
) -> Report:
    """Play every kind of schedule of a scenario, none of which may fail."""
    report = play(scenario, strategy="dfs", budget=budget, rules=rules, options=options)
    assert report.exhausted, str(report)
    return report


def sleep(seconds: float) -> Deed:
    async def deed(ctx: Context[Any]) -> None:
        await trio.sleep(seconds)

    return deed


async def outcome_of(ref: Ref[Any], message: Any) -> Any:
    """Ask, and return the answer or the class of the error."""
    try:
        return await ref.ask(message)
    except TrouperError as exc:
        return type(exc)

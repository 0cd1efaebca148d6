"""A cast for the tests of the actor core: actors that run whatever function a message carries."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from trouper.actors import Actor, Context, Request, handles
from trouper.supervision import Exit


@dataclass(frozen=True, slots=True)
class Go:
    """A message; its function gets the actor and its context, and is awaited."""

    fn: Any


@dataclass(frozen=True, slots=True)
class Ask(Request[Any]):
    """A request; answered with what its function returns, or with the actor's label."""

    fn: Any = None


@dataclass(frozen=True, slots=True)
class Plain(Request[Any]):
    """A request to a plain handler; its function gets the actor."""

    fn: Any = None


# What ended, in order: (label, exit). Cleared before each test that uses the cast.
ended: list[tuple[str, Exit]] = []


class Player(Actor):
    """Runs what it is told; its hook takes ``hook`` seconds and notes the end."""

    def __init__(self, label: str = "player", hook: float = 0.0) -> None:
        self.label = label
        self.hook = hook

    @handles(Go)
    async def go(self, message: Go, ctx: Context[Any]) -> None:
        await message.fn(self, ctx)

    @handles(Ask)
    async def answer(self, message: Ask, ctx: Context[Any]) -> Any:
        return self.label if message.fn is None else await message.fn(self, ctx)

    @handles(Plain)
    def plain(self, message: Plain) -> Any:
        return self.label if message.fn is None else message.fn(self)

    async def stopping(self, ctx: Context[Any], why: Exit) -> None:
        await trio.sleep(self.hook)
        ended.append((self.label, why))


class Extra(Actor):
    """Without hooks: it stops at once when it is idle."""

    @handles(Go)
    async def go(self, message: Go, ctx: Context[Any]) -> None:
        await message.fn(self, ctx)

    @handles(Plain)
    def plain(self, message: Plain) -> Any:
        return None if message.fn is None else message.fn(self)


async def forever(self: Any, ctx: Any) -> None:
    """Block until cut."""
    await trio.sleep_forever()


async def boom(self: Any, ctx: Any) -> None:
    """Fail."""
    raise ValueError("boom")


def spawns(cls: Any, *args: Any, **options: Any) -> Any:
    """Return what a handler runs to spawn a child and answer with its ref."""

    async def spawn(self: Any, ctx: Context[Any]) -> Any:
        return await ctx.spawn(cls, *args, **options)

    return spawn


@pytest.fixture
async def cast() -> AsyncGenerator[Any]:
    """The names above; afterwards no task that the test made is left."""
    ended.clear()
    yield SimpleNamespace(
        Ask=Ask,
        Extra=Extra,
        Go=Go,
        Plain=Plain,
        Player=Player,
        boom=boom,
        ended=ended,
        labels=lambda: [label for label, _ in ended],
        forever=forever,
        spawns=spawns,
    )
    await trio.testing.wait_all_tasks_blocked()
    assert [task.name for task in living_tasks() if is_ours(task)] == []


def is_ours(task: trio.lowlevel.Task) -> bool:
    frame = getattr(task.coro, "cr_frame", None)
    return frame is not None and "/trouper/" in frame.f_code.co_filename


def living_tasks() -> Iterator[trio.lowlevel.Task]:
    """Yield every task of this run."""
    pending = [trio.lowlevel.current_root_task()]
    while pending:
        task = pending.pop()
        if task is not None:
            yield task
            pending += [child for nursery in task.child_nurseries for child in nursery.child_tasks]

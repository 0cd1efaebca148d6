"""What the checkers must infer for what an actor does through its context. Checked, not run."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, assert_type

import trio

from trouper.actors import (
    Actor,
    ActorSystem,
    Asking,
    Context,
    DeadLetter,
    Inbox,
    LetterStream,
    Ref,
    Request,
    Terminated,
    handles,
)


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Total(Request[int]): ...


@dataclass(frozen=True, slots=True)
class Done:
    value: str


@dataclass(frozen=True, slots=True)
class Failed:
    error: Exception


async def fetch(url: str, tries: int = 1) -> str:
    return url * tries


class Worker(Actor[Add | Total | Done | Failed | Terminated]):
    @handles(Add)
    def add(self, message: Add, ctx: Context[Add | Done | Failed]) -> None:
        assert_type(ctx.after(1, Add(1)), Hashable)
        assert_type(ctx.every(1.5, Done("x"), key="tick"), Hashable)
        assert_type(ctx.cancel_timer("tick"), bool)
        ctx.pipe(fetch, "url", to=Done)
        ctx.pipe(fetch, "url", 3, to=Done, failed=Failed)
        ctx.pipe(trio.sleep, 1, to=lambda _: Add(1))
        assert_type(ctx.unstash_all(), int)

    @handles(Total)
    def total(self, message: Total, ctx: Context) -> int:
        ctx.stash()  # does not return, so nothing is missing here

    @handles(Done)
    def done(self, message: Done) -> None: ...

    @handles(Failed)
    def failed(self, message: Failed) -> None: ...

    @handles(Terminated)
    def gone(self, message: Terminated, ctx: Context) -> None:
        assert_type(message.ref, Ref[Any])
        ctx.watch(message.ref)
        ctx.unwatch(message.ref)
        ctx.link(message.ref)
        ctx.unlink(message.ref)


async def protocol(ctx: Context[Add | Total]) -> None:
    assert_type(ctx.inbox, Inbox[Add | Total])
    assert_type(await ctx.inbox.receive(Add), Add)
    asking = await ctx.inbox.receive(Total)
    assert_type(asking, Asking[Total, int])
    assert_type(asking.message, Total)
    asking.reply(3)
    asking.fail(ValueError())
    anything = await ctx.inbox.receive()
    assert_type(anything, Add | Total | Asking[Add | Total, Any])
    small = await ctx.inbox.receive(lambda message: isinstance(message, Add))
    assert_type(small, Add | Total | Asking[Add | Total, Any])
    async for message in ctx.inbox:
        match message:
            case Asking(message=Total()):
                message.reply(1)
            case Add(n):
                assert_type(n, int)
            case _:
                pass


async def counting(ctx: Context[Add], start: int, *, step: int = 1) -> None:
    await ctx.inbox.receive(Add)


async def spawning(system: ActorSystem, ctx: Context[Add]) -> None:
    ref = await system.spawn(protocol, name="p", mailbox=3)
    assert_type(ref, Ref[Add | Total])
    assert_type(await ref.ask(Total()), int)
    assert_type(await ctx.spawn(protocol), Ref[Add | Total])
    assert_type(await system.spawn(counting, 1), Ref[Add])
    narrow: Ref[Total] = ref
    narrow.tell(Total())
    assert_type(await system.spawn(Worker), Ref[Add | Total | Done | Failed | Terminated])


async def names(system: ActorSystem, ctx: Context[Add], ref: Ref[Add]) -> None:
    system.registry.register("x", ref)
    assert_type(ctx.registry.whereis("x"), Ref[Any] | None)
    assert_type(system.registry.unregister("x"), bool)
    ctx.topics.subscribe("news", ref)
    assert_type(system.topics.publish("news", Add(1)), int)
    assert_type(system.topics.subscribers("news"), tuple[Ref[Any], ...])
    stream = system.dead_letters.stream(limit=3)
    assert_type(stream, LetterStream)
    async for letter in system.dead_letters:
        assert_type(letter, DeadLetter)

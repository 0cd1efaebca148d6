"""What the checkers must refuse. A line marked E<n> is an error in both, every other in neither."""

from __future__ import annotations

from dataclasses import dataclass

from trouper.actors import Actor, ActorSystem, Context, Ref, Request, handles


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


@dataclass(frozen=True, slots=True)
class Other: ...


async def fetch(url: str) -> str:
    return url


def plain(url: str) -> str:
    return url


class Worker(Actor[Add | Done | Failed]):
    @handles(Add)
    def add(self, message: Add, ctx: Context[Add | Done | Failed]) -> None:
        ctx.after(1, Other())  # E1
        ctx.after("1", Add(1))  # E2
        ctx.every(1, Add)  # E3
        ctx.after(1, Add(1), key=[])  # E4
        ctx.pipe(fetch, 3, to=Done)  # E5
        ctx.pipe(fetch, "url", to=Add)  # E6
        ctx.pipe(fetch, "url", to=Other)  # E7
        ctx.pipe(plain, "url", to=Done)  # E8
        ctx.pipe(fetch, "url", to=Done, failed=Done)  # E9
        ctx.pipe(fetch, "url")  # E10
        ctx.watch("worker")  # E11
        ctx.link(message)  # E12

    @handles(Done)
    def done(self, message: Done) -> None: ...

    @handles(Failed)
    def failed(self, message: Failed) -> None: ...


async def protocol(ctx: Context[Add | Total]) -> None:
    text: str = await ctx.inbox.receive(Add)  # E13
    asking = await ctx.inbox.receive(Total)
    asking.reply("text")  # E14
    asking.reply()  # E15
    asking.fail("text")  # E16
    number: int = asking.message  # E17
    await ctx.inbox.receive(3)  # E18
    await ctx.inbox.receive(lambda message, more: True)  # E19
    (await ctx.inbox.receive(Add)).reply(3)  # E20
    print(text, number)


async def counting(ctx: Context[Add], start: int) -> None: ...


async def without_context(start: int) -> None: ...


async def spawning(system: ActorSystem, ctx: Context[Add]) -> None:
    await system.spawn(counting)  # E21
    await system.spawn(counting, "1")  # E22
    await ctx.spawn(counting, 1, 2)  # E23
    await system.spawn(without_context, 1)  # E24
    ref = await system.spawn(protocol)
    ref.tell(Other())  # E25
    text: str = await ref.ask(Total())  # E26
    wide: Ref[Add | Total | Other] = ref  # E27
    print(text, wide)


async def names(system: ActorSystem, ref: Ref[Add]) -> None:
    system.registry.register(ref, "x")  # E28
    found: Ref[Add] = system.registry.whereis("x")  # E29
    system.topics.subscribe(3, ref)  # E30
    system.topics.publish("news")  # E31
    system.dead_letters.stream(3)  # E32
    print(found)

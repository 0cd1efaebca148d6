"""What the checkers must refuse. A line marked E<n> is an error in both, every other in neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from trouper.actors import Actor, ActorSystem, Context, Ref, Request, handles

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Total(Request[int]): ...


@dataclass(frozen=True, slots=True)
class Name(Request[str]): ...


@dataclass(frozen=True, slots=True)
class Other: ...


@dataclass(frozen=True, slots=True)
class Get(Request[V], Generic[V]):
    default: V


@dataclass(frozen=True, slots=True)
class Hello:
    reply_to: Ref[Add]


class Counter(Actor[Add | Total]):
    def __init__(self, start: int = 0) -> None:
        self.total = start

    @handles(Add)
    def add(self, message: Add) -> None: ...

    @handles(Total)
    async def read(self, message: Total, ctx: Context) -> int:
        return self.total


class Loose(Actor):
    @handles(Total)
    def read(self, message: Total) -> int:
        return 1


class KeywordOnly(Actor[Add]):
    def __init__(self, *, start: int) -> None: ...

    @handles(Add)
    def add(self, message: Add) -> None: ...


class Greeter(Actor[Hello]):
    def __init__(self, *names: str) -> None: ...

    @handles(Hello)
    def hello(self, message: Hello) -> None: ...


class Box(Actor[Get[V]], Generic[V]):
    def __init__(self, first: V) -> None:
        self.value = first

    @handles(Get)
    def get(self, message: Get[V]) -> V:
        return self.value


async def sending(counter: Ref[Add | Total]) -> None:
    counter.tell(Other())  # E1
    counter.tell(Name())  # E2
    await counter.send(Other())  # E3
    await counter.send(Name())  # E4
    await counter.ask(Add(1))  # E5
    await counter.ask(Name())  # E6
    await counter.ask(Other())  # E7
    text: str = await counter.ask(Total())  # E8
    counter.tell(Total)  # E9
    print(text)


async def refs(counter: Ref[Add | Total], total: Ref[Total]) -> None:
    wide: Ref[Add | Total | Name] = counter  # E10
    wider: Ref[Request[int]] = total  # E11
    both: Ref[Add | Total] = total  # E12
    print(wide, wider, both)


async def spawning(system: ActorSystem, ctx: Context[Add]) -> None:
    await system.spawn(Counter, "x")  # E13
    await system.spawn(Counter, 1, 2)  # E14
    await system.spawn(KeywordOnly)  # E15
    await system.spawn(KeywordOnly, 1)  # E16
    await system.spawn(Greeter, 1)  # E17
    await system.spawn(Box[int], "s")  # E18
    await system.spawn(int, 3)  # E19
    await system.spawn(Counter(1))  # E20
    await system.spawn(Counter, restart="always")  # E21
    await system.spawn(Counter, name=3)  # E22
    await ctx.spawn(Counter, "x")  # E23
    counter: Ref[Name] = await system.spawn(Counter)  # E24
    print(counter)


async def results(system: ActorSystem, ctx: Context[Add]) -> None:
    loose = await system.spawn(Loose)
    await loose.ask(Add(1))  # E25
    text: str = await loose.ask(Total())  # E26
    greeter = await system.spawn(Greeter)
    greeter.tell(Hello(greeter))  # E27
    box = await system.spawn(Box[int], 3)
    box.tell(Get("x"))  # E28
    ctx.self_ref.tell(Total())  # E29
    await ctx.to_thread(len, 3)  # E30
    print(text)


class Wrong(Actor[Add | Total]):
    @handles(Add)  # E31
    def other_message(self, message: Total) -> None: ...

    @handles(Total)  # E32
    def other_reply(self, message: Total) -> str:
        return ""

    @handles(Total)  # E33
    async def other_reply_async(self, message: Total, ctx: Context) -> str:
        return ""

    @handles(Add)  # E34
    def no_context(self, message: Add, ctx: int) -> None: ...

    @handles(Add)  # E35
    def no_message(self) -> None: ...

    @handles(Add)  # E36
    def too_many(self, message: Add, ctx: Context, more: int) -> None: ...

    @handles(Total)  # E37
    def no_reply(self, message: Total) -> None: ...

    @handles(Add(1))  # E38
    def an_instance(self, message: Add) -> None: ...


def properties(ref: Ref[Add]) -> None:
    ref.name = "other"  # E39
    ref.incarnation = 2  # E40
    number: str = ref.statistics().depth  # E41
    ref.inbox()  # E42
    print(number)

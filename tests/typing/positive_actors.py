"""What the checkers must infer for actors, with no plugin. Checked, not run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, assert_type

from trouper.actors import Actor, ActorSystem, Context, Ref, Request, handles

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class AddMore(Add): ...


@dataclass(frozen=True, slots=True)
class Total(Request[int]): ...


@dataclass(frozen=True, slots=True)
class Maybe(Request[int | None]): ...


@dataclass(frozen=True, slots=True)
class Other: ...


@dataclass(frozen=True, slots=True)
class Get(Request[V], Generic[V]):
    default: V


@dataclass(frozen=True, slots=True)
class Hello:
    reply_to: Ref[Add]


class Counter(Actor[Add | Total | Maybe]):
    def __init__(self, start: int = 0) -> None:
        self.total = start

    async def started(self, ctx: Context[Add | Total | Maybe]) -> None: ...

    @handles(Add)
    def add(self, message: Add) -> None:
        self.total += message.n

    @handles(Total)
    async def read(self, message: Total, ctx: Context) -> int:
        return self.total

    @handles(Maybe)
    def maybe(self, message: Maybe) -> int | None:
        return None


class Loose(Actor):
    def __init__(self, a: str, b: int) -> None: ...

    @handles(Total)
    def read(self, message: Total, ctx: Context) -> int:
        return 1


class KeywordOnly(Actor[Add]):
    def __init__(self, *, start: int) -> None: ...

    @handles(Add)
    def add(self, message: Add) -> None: ...


class Greeter(Actor[Hello]):
    def __init__(self, *names: str) -> None: ...

    @handles(Hello)
    def hello(self, message: Hello) -> None: ...


@dataclass
class Data(Actor[Add | Total]):
    start: int
    label: str = "x"

    @handles(Add)
    def add(self, message: Add, ctx: Context[Add | Total]) -> None:
        assert_type(ctx.self_ref, Ref[Add | Total])

    @handles(Total)
    def total(self, message: Total) -> int:
        return self.start


class Box(Actor[Get[V]], Generic[V]):
    def __init__(self, first: V) -> None:
        self.value = first

    @handles(Get)
    def get(self, message: Get[V]) -> V:
        return self.value


class Base(Actor[V]):
    @handles(Add)
    def add(self, message: Add) -> None: ...


class Wide(Base[Add | Total]):
    @handles(Total)
    async def total(self, message: Total) -> int:
        return 1


async def refs_know_what_they_take(system: ActorSystem) -> None:
    counter = await system.spawn(Counter, 10, name="counter", restart="transient")
    assert_type(counter, Ref[Add | Total | Maybe])
    assert_type(await system.spawn(Counter), Ref[Add | Total | Maybe])
    counter.tell(Add(1))
    counter.tell(AddMore(1))
    counter.tell(Total())
    await counter.send(Add(2))
    assert_type(await counter.ask(Total()), int)
    assert_type(await counter.ask(Maybe()), int | None)
    narrow: Ref[Total] = counter
    assert_type(await narrow.ask(Total()), int)
    anybody: Ref[Any] = counter
    anybody.stop()


async def spawn_knows_the_constructor(system: ActorSystem) -> None:
    loose = await system.spawn(Loose, "a", 1)
    assert_type(await loose.ask(Total()), int)
    loose.tell(Other())  # no union declared: anything goes here, and is refused when it is sent
    assert_type(await system.spawn(partial(KeywordOnly, start=1)), Ref[Add])
    assert_type(await system.spawn(lambda: Data(2)), Ref[Add | Total])
    data = await system.spawn(Data, 1, "y")
    assert_type(data, Ref[Add | Total])
    greeter = await system.spawn(Greeter, "a", "b")
    greeter.tell(Hello(data))
    box = await system.spawn(Box[int], 3)
    assert_type(await box.ask(Get(4)), int)
    assert_type(await system.spawn(Wide), Ref[Add | Total])


async def contexts_spawn_alike(ctx: Context[Add]) -> None:
    assert_type(await ctx.spawn(Counter, 1), Ref[Add | Total | Maybe])
    assert_type(ctx.self_ref, Ref[Add])
    assert_type(await ctx.to_thread(len, "abc"), int)


def handlers_stay_callable() -> None:
    counter = Counter(1)
    counter.add(Add(1))
    assert_type(counter.maybe(Maybe()), int | None)


async def requests_are_enough(anyone: Ref[Request[int]], request: Request[int]) -> None:
    assert_type(await anyone.ask(request), int)
    only_total: Ref[Total] = anyone
    assert_type(await only_total.ask(Total()), int)

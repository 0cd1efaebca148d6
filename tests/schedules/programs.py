"""Random programs for three actors under one supervisor, and what must hold whatever they do.

A program is a few messages, each with a list of deeds: tell, send, ask, pipe, watch, link, stash,
stop, fail, spawn, and so on, some of which carry messages on. Numbers from a seed make it, so it is
the same in every schedule.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import trio

from trouper import Actor, Context, Ref, Request, handles
from trouper.actors import Terminated
from trouper.errors import NotHandled, TrouperError
from trouper.mailbox import Overflow
from trouper.supervision import (
    Backoff,
    Exit,
    Intensity,
    Strategy,
    one_for_all,
    one_for_one,
    rest_for_one,
)
from trouper.testing import Simulation

Deed: TypeAlias = tuple[Any, ...]

NAMES: Final = ("a", "b", "c")
ENDS: Final = ("stop", "drain", "kill")
PLAIN: Final = ("fail", "stopped", "nap", "watch", "unwatch", "link", "stash", "spawn", *ENDS)
CARRYING: Final = ("tell", "send", "ask", "ask", "hasty", "pipe", "after")


class Boom(Exception):
    """What an actor of a program fails with."""


@dataclass(frozen=True, eq=False)
class Do:
    id: str
    deeds: tuple[Deed, ...] = ()


@dataclass(frozen=True, eq=False)
class Query(Request[str]):
    id: str
    deeds: tuple[Deed, ...] = ()


@dataclass
class Books:
    """What became of whom."""

    refs: dict[str, Ref[Any]] = field(default_factory=dict[str, Ref[Any]])
    faults: list[str] = field(default_factory=list[str])
    live: Counter[str] = field(default_factory=Counter[str])
    turns: dict[str, str] = field(default_factory=dict[str, str])
    numbers: Counter[str] = field(default_factory=Counter[str])
    taken_in: set[str] = field(default_factory=set[str])  # tells and sends that returned
    refused: set[str] = field(default_factory=set[str])
    waiting: set[str] = field(default_factory=set[str])  # asks
    begun: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])
    aside: Counter[str] = field(default_factory=Counter[str])
    dead: Counter[str] = field(default_factory=Counter[str])
    ordered: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    heard: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def settle(self) -> None:
        assert not self.faults, "; ".join(self.faults)

    def at_rest(self) -> None:
        """Check what holds when nothing can happen any more."""
        for each in self.waiting:
            self.fault(f"the ask {each} is still open")
        for name, turn in self.turns.items():
            self.fault(f"{name} is still in the turn of {turn}")
        for name, ref in self.refs.items():
            counts = ref.statistics()
            if counts.state not in ("running", "stopped"):
                self.fault(f"{name} rests while it is {counts.state}")
            if counts.depth or counts.waiting_senders:
                self.fault(f"{name} rests with mail")
        for pair, times in self.heard.items():
            if times > self.ordered[pair]:
                self.fault(f"{pair[0]} heard {times} times of the end of {pair[1]}")
        self.settle()

    def at_end(self) -> None:
        """Check what holds when all have ended."""
        for each in self.taken_in:
            ends = self.done[each], self.dead[each]
            if ends not in ((1, 0), (0, 1)):
                self.fault(f"{each}: handled {ends[0]} times, a dead letter {ends[1]} times")
        for each in self.refused:
            if self.begun[each]:
                self.fault(f"{each} was refused and handled")
        for name, count in self.live.items():
            if count:
                self.fault(f"{count} instances of {name} outlive its end")
        self.settle()


async def talk(books: Books, how: str, target: str, message: Any, seconds: float = 9) -> None:
    """Send or ask, and write down what came of it."""
    ref = books.refs[target]
    books.numbers[message.id] += 1
    message = replace(message, id=f"{message.id}.{books.numbers[message.id]}")
    try:
        if how == "tell":
            ref.tell(message)
        elif how == "send":
            await ref.send(message)
        else:
            books.waiting.add(message.id)
            try:
                with trio.move_on_after(seconds):
                    answer = await ref.ask(message)
                    if answer != message.id or books.done[answer] != 1:
                        books.fault(f"{message.id} was answered by {answer}")
            finally:
                books.waiting.discard(message.id)
            return
    except (TrouperError, trio.Cancelled):
        if how in ("tell", "send"):
            books.refused.add(message.id)
        raise
    books.taken_in.add(message.id)


@dataclass
class Player(Actor[Do | Query | Terminated]):
    """Does what its messages say, one at a time."""

    books: Books
    name: str
    hello: tuple[Deed, ...] = ()
    bye: tuple[Deed, ...] = ()

    def __post_init__(self) -> None:
        self.books.live[self.name] += 1
        if self.books.live[self.name] > 1:
            self.books.fault(f"{self.name} lives twice")

    async def started(self, ctx: Context[Any]) -> None:
        try:
            for deed in self.hello:
                await self.act(deed, "hello", ctx)
        except BaseException:
            self.books.live[self.name] -= ctx.self_ref.incarnation == 1  # it has no `stopping`
            raise

    async def stopping(self, ctx: Context[Any], why: Exit) -> None:
        if self.name in self.books.turns:
            self.books.fault(f"{self.name} ends within a turn")
        try:
            for deed in self.bye:
                await self.act(deed, "bye", ctx)
        finally:
            self.books.live[self.name] -= 1

    @handles(Do)
    async def do(self, message: Do, ctx: Context[Any]) -> None:
        await self.perform(message, ctx)

    @handles(Query)
    async def query(self, message: Query, ctx: Context[Any]) -> str:
        await self.perform(message, ctx)
        return message.id

    @handles(Terminated)
    def terminated(self, message: Terminated) -> None:
        self.books.heard[self.name, message.ref.name] += 1

    async def perform(self, message: Do | Query, ctx: Context[Any]) -> None:
        books = self.books
        if self.name in books.turns:
            books.fault(f"{self.name} has two turns at once")
        books.turns[self.name] = message.id
        books.begun[message.id] += 1
        try:
            for deed in message.deeds:
                await self.act(deed, message.id, ctx)
            books.done[message.id] += 1
        finally:
            del books.turns[self.name]

    async def act(self, deed: Deed, turn: str, ctx: Context[Any]) -> None:
        """Do one thing; what the runtime refuses is no fault of the program."""
        books = self.books
        what, *rest = deed
        try:
            match what:
                case "tell" | "send" | "ask":
                    await talk(books, what, rest[0], rest[1])
                case "hasty":
                    await talk(books, what, rest[0], rest[1], 1)
                case "pipe":
                    ctx.pipe(self.piped, *rest, to=Do)
                case "after":
                    ctx.after(rest[0], rest[1])
                case "fail":
                    raise Boom(turn)
                case "nap":
                    await trio.sleep(0.05)
                case "stash":
                    if books.aside[turn] < 2:
                        books.aside[turn] += 1
                        ctx.after(1, Do("timer", (("unstash",),)), key="unstash")
                        ctx.stash()
                case "unstash":
                    ctx.unstash_all()
                case "spawn":
                    name = self.name + "'"
                    books.refs[name] = await ctx.spawn(Player, books, name, name=name)
                case _:
                    await self.act_on(what, books.refs[rest[0]], ctx)
        except (TrouperError, KeyError, ValueError) as exc:
            if isinstance(exc, NotHandled):
                raise

    async def act_on(self, what: str, ref: Ref[Any], ctx: Context[Any]) -> None:
        match what:
            case "watch":
                ctx.watch(ref)
                self.books.ordered[self.name, ref.name] += 1
            case "stopped":
                with trio.move_on_after(3):
                    await ref.stopped()
            case "link" | "unwatch":
                getattr(ctx, what)(ref)
            case _:
                getattr(ref, what)()

    async def piped(self, target: str, message: Query) -> str:
        await self.act(("ask", target, message), "pipe", None)  # type: ignore[arg-type]
        return "piped"


@dataclass
class Boss(Actor):
    """The parent of the players; one above it restarts it with all of them."""

    books: Books
    cast: list[tuple[str, dict[str, Any], tuple[Deed, ...], tuple[Deed, ...]]]

    async def started(self, ctx: Context[Any]) -> None:
        for name, options, hello, bye in self.cast:
            self.books.refs[name] = await ctx.spawn(
                Player, self.books, name, hello, bye, name=name, **options
            )


class Author:
    """Makes a program out of random numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.names = NAMES[: self.random.choice([2, 3, 3])]

    def message(self, kind: type[Any], me: str, depth: int) -> Any:
        self.count += 1
        length = self.random.choice([0, 1, 1, 2, 3] if depth else [0, 0, 1])
        number = self.count
        return kind(f"m{number}", tuple(self.deed(me, depth) for _ in range(length)))

    def deed(self, me: str, depth: int) -> Deed:
        draw = self.random
        target = draw.choice([*self.names * 2, *(f"{name}'" for name in self.names)])
        what = draw.choice([*PLAIN, *(CARRYING * 3 if depth else ())])
        if what in ("tell", "send"):
            return what, target, self.message(Do, target, depth - 1)
        if what in ("ask", "hasty", "pipe"):
            return what, target, self.message(Query, target, depth - 1)
        if what == "after":
            return what, draw.choice([0, 1]), self.message(Do, me, depth - 1)
        return what, target

    def hook(self, me: str) -> tuple[Deed, ...]:
        if self.random.random() < 0.7:
            return ()
        deed = self.deed(me, 1)
        return () if deed[0] in ("stash", "spawn", "fail", "stopped", "after") else (deed,)

    def options(self) -> dict[str, Any]:
        draw = self.random
        restart = draw.choice(["permanent", "permanent", "transient", "never"])
        options: dict[str, Any] = {"restart": restart}
        if draw.random() < 0.5:
            options["mailbox"] = draw.choice([1, 2])
        if draw.random() < 0.4:
            rules: list[Overflow] = ["wait", "wait", "drop_oldest", "drop_newest"]
            options["overflow"] = draw.choice(rules)
        if draw.random() < 0.2:
            options["dedicated"] = True
        return options

    def strategy(self) -> Strategy:
        draw = self.random
        backoff = Backoff(first=0.1) if draw.random() < 0.3 else None
        intensity = Intensity(draw.choice([1, 3, 20]))
        make = draw.choice([one_for_one, one_for_all, rest_for_one])
        return make(intensity=intensity, backoff=backoff)


async def program(sim: Simulation, seed: int) -> AsyncGenerator[None, None]:
    """Let a random program run, and check the books."""
    author, books = Author(seed), Books()

    def dead(letter: Any) -> None:
        books.dead[getattr(letter.message, "id", "")] += 1

    sim.system.dead_letters.subscribe(dead)
    cast = [(n, author.options(), author.hook(n), author.hook(n)) for n in author.names]
    strategy = author.strategy()

    async def hello(ctx: Context[Any]) -> None:
        await ctx.spawn(Boss, books, cast, name="boss", restart="permanent", strategy=strategy)

    top = await sim.system.spawn(
        Top, hello, name="top", strategy=one_for_one(intensity=Intensity(1000))
    )

    async def client(how: str, target: str, message: Any) -> None:
        with contextlib.suppress(TrouperError):
            await talk(books, how, target, message)

    for n in range(author.random.choice([2, 3, 4])):
        how, target = author.random.choice(["tell", "send", "ask"]), author.random.choice(NAMES[:2])
        message = author.message(Query if how == "ask" else Do, target, 2)
        sim.start(client, how, target, message, name=f"client{n}")
    yield
    books.at_rest()
    getattr(top, ENDS[seed % 3])()
    await top.stopped()
    assert sim.next_timer is None
    books.at_end()


@dataclass
class Top(Actor):
    """The root of a program's tree."""

    hello: Any

    async def started(self, ctx: Context[Any]) -> None:
        await self.hello(ctx)

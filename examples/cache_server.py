"""A cache that speaks lines over TCP: one actor per shard, supervised, and stopped in order.

    python examples/cache_server.py --port 7777

    SET key value     OK
    GET key           VALUE value, or MISS
    ADD key number    VALUE sum
    CRASH key         does to the key's shard what a bug would do
    STATS             one line per shard, then END
    QUIT

docs/tutorial.md builds it step by step.
"""

from __future__ import annotations

import argparse
import signal
import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import trio

from trouper import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Context,
    MailboxFull,
    Ref,
    Reject,
    Request,
    handles,
    open_system,
)
from trouper.supervision import Exit

HOST = "127.0.0.1"
MOST_BYTES = 4096  # of one line
MOST_CLIENTS = 100


@dataclass(frozen=True, slots=True)
class Get(Request[str | None]):
    key: str


@dataclass(frozen=True, slots=True)
class Set:
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    key: str
    n: int


@dataclass(frozen=True, slots=True)
class Size(Request[int]):
    pass


@dataclass(frozen=True, slots=True)
class Crash(Request[None]):
    pass


ShardMessage: TypeAlias = Get | Set | Add | Size | Crash


class Shard(Actor[ShardMessage]):
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    @handles(Get)
    def get(self, message: Get) -> str | None:
        return self.values.get(message.key)

    @handles(Set)
    def set(self, message: Set) -> None:
        self.values[message.key] = message.value

    @handles(Add)
    def add(self, message: Add) -> int:
        old = self.values.get(message.key, "0")
        if not old.lstrip("-").isdecimal():
            raise Reject(f"{message.key} holds no number")  # an answer, not a crash
        self.values[message.key] = str(int(old) + message.n)
        return int(old) + message.n

    @handles(Size)
    def size(self, message: Size) -> int:
        return len(self.values)

    @handles(Crash)
    def crash(self, message: Crash) -> None:
        raise RuntimeError("a bug")


@dataclass(frozen=True, slots=True)
class Where(Request[Ref[ShardMessage]]):
    key: str


@dataclass(frozen=True, slots=True)
class Shards(Request[list[Ref[ShardMessage]]]):
    pass


class Cache(Actor[Where | Shards]):
    def __init__(self, count: int, log: Ref[str]) -> None:
        self.count = count
        self.log = log
        self.shards: list[Ref[ShardMessage]] = []

    async def started(self, ctx: Context) -> None:
        for n in range(self.count):
            shard = await ctx.spawn(Shard, name=f"shard-{n}", restart="transient")
            self.shards.append(shard)

    @handles(Where)
    def where(self, message: Where) -> Ref[ShardMessage]:
        return self.shards[zlib.crc32(message.key.encode()) % self.count]

    @handles(Shards)
    def all(self, message: Shards) -> list[Ref[ShardMessage]]:
        return self.shards

    async def stopping(self, ctx: Context, why: Exit) -> None:
        await self.log.send(f"cache ends: {why.kind}")


class Log(Actor[str]):
    def __init__(self) -> None:
        self.lines = 0

    @handles(str)
    def line(self, message: str) -> None:
        self.lines += 1
        print(f"log: {message}", flush=True)

    async def stopping(self, ctx: Context, why: Exit) -> None:
        print(f"log ends after {self.lines} lines: {why.kind}", flush=True)


async def answer(cache: Ref[Where | Shards], line: str) -> str:
    """Do what one line asks for, and return the answer to it."""
    match line.split(" ", 2):
        case ["STATS"]:
            rows: list[str] = []
            for shard in await cache.ask(Shards()):
                size = await shard.ask(Size())
                rows.append(f"{shard.name} keys={size} lives={shard.incarnation}")
            return "\n".join([*rows, "END"])
        case ["GET", key]:
            value = await (await cache.ask(Where(key))).ask(Get(key))
            return "MISS" if value is None else f"VALUE {value}"
        case ["SET", key, value]:
            await (await cache.ask(Where(key))).send(Set(key, value))
            return "OK"
        case ["ADD", key, number] if number.lstrip("-").isdecimal():
            return f"VALUE {await (await cache.ask(Where(key))).ask(Add(key, int(number)))}"
        case ["CRASH", key]:
            await (await cache.ask(Where(key))).ask(Crash())
            return "OK"
        case _:
            return "ERROR no such command"


async def answer_safely(cache: Ref[Where | Shards], line: str) -> str:
    """Turn what may happen to an ask into an answer that a client understands."""
    try:
        return await answer(cache, line)
    except Reject as refusal:
        return f"REFUSED {refusal}"
    except ActorCrashed as crash:
        return f"ERROR the shard crashed: {crash.__cause__!r}"
    except ActorStopped:
        return "ERROR the shard is gone; try again"
    except MailboxFull:
        return "ERROR too busy; try again"


async def lines_of(stream: trio.SocketStream) -> AsyncGenerator[str]:
    """Yield the lines that a client sends; end at its end, or when a line is too long."""
    rest = b""
    async for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        if max(map(len, (*lines, rest))) > MOST_BYTES:
            return
        for line in lines:
            yield line.decode("utf-8", "replace").strip()


async def talk(
    cache: Ref[Where | Shards],
    log: Ref[str],
    seats: trio.CapacityLimiter,
    stream: trio.SocketStream,
) -> None:
    """Serve one client: a plain trio task, which asks actors."""
    try:
        async with stream, seats, aclosing(lines_of(stream)) as lines:
            async for line in lines:
                if line == "QUIT":
                    return
                await stream.send_all(f"{await answer_safely(cache, line)}\n".encode())
                with suppress(MailboxFull):  # better a gap in the log than a slow cache
                    log.tell(line)
    except trio.BrokenResourceError:
        pass  # the client went away


@asynccontextmanager
async def open_server(port: int = 0, *, shards: int = 4) -> AsyncGenerator[int]:
    """Serve while the block lasts; gives the port, which is a free one for 0."""
    async with open_system("server") as system:
        log = await system.spawn(Log, name="log", mailbox=64)
        cache = await system.spawn(Cache, shards, log, name="cache", restart="transient")
        client = partial(talk, cache, log, trio.CapacityLimiter(MOST_CLIENTS))
        async with trio.open_nursery() as clients:
            [listener] = await clients.start(partial(trio.serve_tcp, client, port, host=HOST))
            yield listener.socket.getsockname()[1]
            clients.cancel_scope.cancel()  # no client any more; then the block ends in order


async def main(port: int, shards: int) -> None:
    """Serve until somebody asks for the end."""
    async with open_server(port, shards=shards) as bound:
        print(f"listening on {HOST}:{bound}", flush=True)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A cache that speaks lines over TCP.")
    parser.add_argument("--port", type=int, default=7777, help="0 takes a free one")
    parser.add_argument("--shards", type=int, default=4)
    options = parser.parse_args()
    if options.shards < 1:
        parser.error("--shards must be 1 or more")
    trio.run(main, options.port, options.shards)

"""The server of the tutorial over a real port: answers, crashes, restarts, and an end in order."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "examples" / "cache_server.py"
Ask = Callable[..., Any]


@pytest.fixture
def cache_server(example: Callable[[str], ModuleType]) -> ModuleType:
    return example("cache_server")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(SERVER), "--port", "0", "--shards", "2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        yield running
        running.kill()


@asynccontextmanager
async def client(port: int) -> AsyncGenerator[Ask]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        pieces = b""

        async def ask(line: str, until: bytes = b"\n") -> str:
            nonlocal pieces
            await stream.send_all(line.encode() + b"\n")
            while until not in pieces:
                piece = await stream.receive_some()
                if not piece:
                    return "gone"
                pieces += piece
            reply, _, pieces = pieces.partition(until)
            return reply.decode()

        yield ask


def test_the_program_restarts_a_crashed_shard_and_ends_in_order(
    process: subprocess.Popen[str],
) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline().rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        replies = connection.makefile("r")
        for line, reply in [
            ("SET tea 3", "OK"),
            ("GET tea", "VALUE 3"),
            ("CRASH tea", "ERROR the shard crashed: RuntimeError('a bug')"),
            ("GET tea", "MISS"),
        ]:
            connection.sendall(line.encode() + b"\n")
            assert replies.readline() == f"{reply}\n"
        process.send_signal(signal.SIGINT)
        assert replies.readline() == ""  # hung up
    out, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert out.splitlines()[-2:] == [
        "log: cache ends: shutdown",
        "log ends after 5 lines: shutdown",
    ]
    assert re.search(r"/server/cache/shard-\d failed and restarts: RuntimeError", log)


async def test_values_live_in_shards_and_a_refusal_is_no_crash(cache_server: ModuleType) -> None:
    async with cache_server.open_server(shards=2) as port, client(port) as ask:
        assert await ask("ADD n 40") == "VALUE 40"
        assert await ask("ADD n 2") == "VALUE 42"
        assert await ask("SET n forty two") == "OK"
        assert await ask("ADD n 1") == "REFUSED n holds no number"
        assert await ask("GET n") == "VALUE forty two"
        assert await ask("ADD n one") == "ERROR no such command"
        rows = (await ask("STATS", b"END\n")).splitlines()
        assert sorted(row.split(" ", 1)[1] for row in rows) == ["keys=0 lives=1", "keys=1 lives=1"]


async def test_a_crash_costs_one_shard_what_it_held(cache_server: ModuleType) -> None:
    async with cache_server.open_server(shards=4) as port, client(port) as ask:
        for name in "abcdefgh":
            await ask(f"SET {name} 1")
        before = (await ask("STATS", b"END\n")).splitlines()
        assert "RuntimeError('a bug')" in await ask("CRASH a")
        after = (await ask("STATS", b"END\n")).splitlines()
        [(old, new)] = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
        assert old.endswith("lives=1")
        assert new.endswith("keys=0 lives=2")


async def test_too_many_crashes_restart_the_whole_cache(cache_server: ModuleType) -> None:
    async with cache_server.open_server(shards=2) as port, client(port) as ask:
        for _ in range(4):  # three restarts are allowed within five seconds
            assert "RuntimeError('a bug')" in await ask("CRASH a")
        while (reply := await ask("SET b 1")) != "OK":
            assert reply == "ERROR the shard is gone; try again"
        rows = (await ask("STATS", b"END\n")).splitlines()
        assert [row.split()[2] for row in rows] == ["lives=1", "lives=1"]


async def test_a_client_that_sends_an_endless_line_is_hung_up_on(cache_server: ModuleType) -> None:
    async with cache_server.open_server() as port:
        async with client(port) as ask:
            assert await ask("x" * (cache_server.MOST_BYTES + 1)) == "gone"
        async with client(port) as ask:
            assert await ask("GET x") == "MISS"
            assert await ask("QUIT") == "gone"

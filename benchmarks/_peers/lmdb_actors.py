"""Actors that commit each message on its own: what one flush per message costs whoever writes them.

Written by hand, as lean as trio and LMDB allow: a task and a deque for each actor, a thread that
writes, one transaction per message, and an answer after it. Nothing is checked, supervised or
restarted. It is the structure that the research called "one fsync per message".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

import lmdb
import trio
from outcome import Value
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from .disk import WARM, Marked, Sample, place, row_key
from .gate import closed_loop, on_trio

MAP = 8 * 1024**3


def _wait(_: object) -> Abort:
    return Abort.FAILED


class Writer:
    """A thread that commits what it is given, one event and one head at a time."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._db = env.open_db(b"record")
        self._queue: SimpleQueue[tuple[Task, str, int] | None] = SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def commit(self, ident: str, number: int) -> None:
        self._queue.put((current_task(), ident, number))
        await wait_task_rescheduled(_wait)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            task, ident, number = item
            with self._env.begin(write=True) as txn:
                head = row_key(ident, 0)
                known = txn.get(head, db=self._db)
                if known is not None and int.from_bytes(known, "big") != number - 1:
                    raise RuntimeError("another owner")
                txn.put(row_key(ident, number), b"added 1", db=self._db)
                txn.put(head, number.to_bytes(8, "big"), db=self._db)
            self._token.run_sync_soon(reschedule, task, Value(None))

    async def close(self) -> None:
        self._queue.put(None)
        await trio.to_thread.run_sync(self._thread.join)


class Actor:
    """One counter: a task takes its mail, commits each message, and answers."""

    def __init__(self, writer: Writer, ident: str) -> None:
        self.total = self.number = 0
        self._writer = writer
        self._ident = ident
        self._mail: deque[tuple[int, Task | None]] = deque()
        self._idle: Task | None = None

    def tell(self, n: int, asker: Task | None = None) -> None:
        self._mail.append((n, asker))
        if self._idle is not None:
            reschedule(self._idle, Value(None))
            self._idle = None

    async def ask(self, n: int) -> int:
        self.tell(n, current_task())
        answer: int = await wait_task_rescheduled(_wait)
        return answer

    async def run(self) -> None:
        mail = self._mail
        while True:
            while mail:
                n, asker = mail.popleft()
                self.number += 1
                await self._writer.commit(self._ident, self.number)
                self.total += n
                if asker is not None:
                    reschedule(asker, Value(self.total))
            self._idle = current_task()
            await wait_task_rescheduled(lambda _: Abort.SUCCEEDED)


@asynccontextmanager
async def _actors(count: int) -> AsyncGenerator[list[Actor]]:
    """Give so many actors, some of whom have committed."""
    with place() as where, lmdb.open(str(where), map_size=MAP, max_dbs=4, lib_version=0) as env:
        writer = Writer(env)
        found = [Actor(writer, f"actor {number}") for number in range(count)]
        async with trio.open_nursery() as nursery:
            for actor in found:
                nursery.start_soon(actor.run)
            for actor in found[:WARM]:
                await actor.ask(1)
            yield found
            nursery.cancel_scope.cancel()
        await writer.close()


async def tell(ops: int, actors: int) -> Sample:
    """Tell each as often; the end is an ask of each."""
    few = min(actors, ops)  # a message costs its commit, however many actors there are
    times = max(ops // few, 2)
    async with _actors(few) as found:
        with Marked() as watch:
            for _ in range(times - 1):
                for actor in found:
                    actor.tell(1)
            async with trio.open_nursery() as nursery:
                for actor in found:
                    nursery.start_soon(actor.ask, 1)
    return watch.sample(times * few)


async def ask(ops: int, actors: int) -> Sample:
    few = min(actors, ops)
    async with _actors(few) as found:
        asks = [partial(actor.ask, 1) for actor in found]
        return await closed_loop(asks, max(ops // few, 1), Marked())


async def askers(ops: int, tasks: int) -> Sample:
    few = min(tasks, ops)
    async with _actors(1) as (actor,):
        return await closed_loop([partial(actor.ask, 1)] * few, max(ops // few, 1), Marked())


BENCHES = {"tell": on_trio(tell), "ask": on_trio(ask), "askers": on_trio(askers)}

"""Memory channels, with a request that carries an event for its answer.

Cheaper than what one writes first, which is a reply channel per request (`_peers.channel`).
"""

from __future__ import annotations

from typing import Any

import trio

from _kit.sample import Sample, Stopwatch

from .channel import Counter, Loop
from .gate import Tally, on_trio


class Question:
    """A request with the place for its answer."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer = 0


class Oracle(Counter):
    async def poke(self, message: Any) -> None:
        message.answer = await self.question(message)
        message.answered.set()

    def plain(self, message: Any) -> None:
        message.answer = self.question_plain(message)
        message.answered.set()

    async def question(self, message: Question) -> int:
        return 7

    def question_plain(self, message: Question) -> int:
        return 7


async def ask(ops: int, actors: int, loop: Loop) -> Sample:
    async with trio.open_nursery() as nursery:
        oracle = Oracle(Tally())
        nursery.start_soon(loop, oracle)
        with Stopwatch() as watch:
            for _ in range(ops):
                question = Question()
                oracle.send.send_nowait(question)
                await question.answered.wait()
                assert question.answer == 7
        nursery.cancel_scope.cancel()
    return watch.sample(ops)


BENCHES = {
    "ask": on_trio(ask, Oracle.run),
    "ask-plain": on_trio(ask, Oracle.run_plain),
}

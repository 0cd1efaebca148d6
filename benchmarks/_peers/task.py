"""The leanest task per actor on trio: a deque, and a task that is rescheduled when mail comes."""

from __future__ import annotations

from collections import deque

import trio
import trio.testing
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from _kit.sample import Sample, Scales

from .gate import POKE, Poke, Tally, bursts, on_trio


class Blocking:
    __slots__ = ("mail", "parked", "tally")

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.mail: deque[Poke] = deque()
        self.parked: Task | None = None

    def tell(self, message: Poke) -> None:
        self.mail.append(message)
        if self.parked is not None:
            reschedule(self.parked)
            self.parked = None

    async def run(self) -> None:
        mail = self.mail
        while True:
            while mail:
                await self.poke(mail.popleft())
            self.parked = current_task()
            await wait_task_rescheduled(self._abort)

    def _abort(self, _: object) -> Abort:
        self.parked = None
        return Abort.SUCCEEDED

    async def poke(self, message: Poke) -> None:
        await trio.lowlevel.checkpoint()
        tally = self.tally
        tally.left -= 1
        if not tally.left:
            tally.done.set()


async def blocking(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        made = [Blocking(tally) for _ in range(actors)]
        for actor in made:
            nursery.start_soon(actor.run)
        sample = await bursts(ops, [actor.tell for actor in made], tally)
        nursery.cancel_scope.cancel()
    return sample


async def idle(ops: int, actors: int) -> Sample:
    tally = Tally()
    async with trio.open_nursery() as nursery:
        scales = Scales()
        made = [Blocking(tally) for _ in range(actors)]
        for actor in made:
            nursery.start_soon(actor.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(ops):
            for actor in made:
                actor.tell(POKE)
            await trio.testing.wait_all_tasks_blocked()
        sample = scales.sample(actors)
        nursery.cancel_scope.cancel()
    return sample


BENCHES = {"blocking": on_trio(blocking), "idle": on_trio(idle)}

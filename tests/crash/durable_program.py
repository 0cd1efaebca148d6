"""Run by test_durable_kill.py: a durable actor and clients that put ones into it.

    durable_program.py STORE BEGIN

Each client sends its messages from BEGIN on, under ids; it prints ``ID TOTAL`` when it is answered.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import trio

from trouper import Decision, DurableActor, Request, applies, decides, open_system
from trouper.store import record

CLIENTS = 20


@record("kill.till")
@dataclass(frozen=True, slots=True)
class Till:
    """How many ones."""

    total: int


@record("kill.put")
@dataclass(frozen=True, slots=True)
class Put:
    """A one, and by which message."""

    ident: str


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    """Answered with the total."""

    idempotency_id: str


class Counter(DurableActor[Till, Add], name="kill.counter", snapshot_every=50, keep_replies=4000):
    """Counts ones."""

    initial = Till(0)

    @decides(Add)
    def add(self, state: Till, message: Add) -> Decision[Put, int]:
        """Add one."""
        return Decision([Put(message.idempotency_id)], reply=state.total + 1)

    @applies(Put)
    def put(self, state: Till, record: Put) -> Till:
        """Count it."""
        return Till(state.total + 1)


async def main(path: str, begin: int) -> None:
    """Send until killed."""
    async with open_system("kill", store=path) as system, trio.open_nursery() as nursery:
        counter = await system.actor(Counter, "till")

        async def client(number: int) -> None:
            n = begin
            while True:
                ident = f"{number}-{n}"
                total = await counter.ask(Add(ident))
                os.write(1, f"{ident} {total}\n".encode())
                n += 1

        for number in range(CLIENTS):
            nursery.start_soon(client, number)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]))

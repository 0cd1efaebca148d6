"""Run by test_system_lost.py: a durable system as a supervised child, over a disk that fails.

    lost_program.py STORE

It prints ``open EPOCH``, ``ran STEP`` for each run of an effect, and the result at the end.
"""

from __future__ import annotations

import os
import sys

import trio

from trouper import Activation, LmdbStore, durable, effect, open_system
from trouper.supervision import Supervisor, unwrap

STEPS = 8


def say(*words: object) -> None:
    """Print a line, whole, at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@effect
async def double(n: int) -> int:
    """Say that it ran, and answer."""
    say("ran", n)
    return 2 * n


@durable
async def doubles(act: Activation) -> int:
    """Sum up, step by step."""
    return sum([await act.call(double, n) for n in range(STEPS)])


async def serve(path: str, finished: trio.Event) -> None:
    """Open the system, finish the work. A store that is lost ends it, and the next life reopens."""
    store = LmdbStore(path)
    async with open_system("lost", store=store) as system:
        say("open", store.epoch)
        say("result", await system.run(doubles, key="doubles"))
    finished.set()


async def main(path: str) -> None:
    """Keep the system alive until it has finished."""
    finished = trio.Event()

    async def child() -> None:
        try:
            await serve(path, finished)
        except BaseExceptionGroup as group:
            say("failed", type(unwrap(group)).__name__)
            raise
        except Exception as error:
            say("failed", type(error).__name__)
            raise

    async with Supervisor("keeper") as supervisor:
        supervisor.start(child, name="system", restart="transient")
        await finished.wait()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])

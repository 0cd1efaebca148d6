"""Run by test_order_kill.py in a process of its own: three calls at once, killed behind the first.

    order_program.py STORE

The first process lets the third call end and prints ``ranked``; it is killed there. The second lets
the others end, the second call first, and prints what came and in which order. Every later one
prints that again.
"""

from __future__ import annotations

import sys

import trio

from trouper import Activation, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.groups import EffectContext
from trouper.store import Store

RANKED = [trio.Event() for _ in range(4)]  # by the number of ranks that are durable


@effect
async def call(ctx: EffectContext, position: int) -> str:
    """End when so many others have a rank: one after the other, whatever the machine does."""
    if ctx.attempt == 1 and position != 2:
        await trio.sleep_forever()
    await RANKED[2 - position].wait()
    return f"call {position}"


@durable
async def gather(act: Activation) -> list[object]:
    """Wait for all."""
    found = await act.all_of(*[act.call(call, position) for position in range(3)])
    return [found, list(found.order)]


async def watch(store: Store) -> None:
    """Tell the calls of the ranks, and whoever kills of the first."""
    told = -1
    while told < 3:
        ranks = sum(group.settled for group in inspect.groups(store))
        if ranks > told:
            for event in RANKED[: ranks + 1]:
                event.set()
            told = ranks
            if ranks:
                print("ranked", ranks, flush=True)
        await trio.sleep(0.001)


async def main(path: str) -> None:
    """Resume, start or read it."""
    async with (
        open_system("order", store=path, keep_groups=True) as system,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(watch, system.store)
        print(await system.run(gather, key="all"), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])

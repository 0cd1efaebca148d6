"""Run by test_race_kill.py in a process of its own: a durable race, held until it is killed.

    race_program.py STORE {effect | timer | child}

The first process prints ``in the race`` and is killed there. The second lets the named arm win, and
prints the winner.
"""

from __future__ import annotations

import sys

import trio

from trouper import Activation, durable, effect, open_system
from trouper.actors.groups import EffectContext

DEADLINE = {"effect": 3600.0, "child": 3600.0, "timer": 1.5}


@effect
async def work(ctx: EffectContext, winner: str) -> str:
    """Answer in the second process only, and never where the timer shall win."""
    print("in the race", ctx.attempt, flush=True)
    if ctx.attempt == 1 or winner == "timer":
        await trio.sleep_forever()
    return "worked"


@durable
async def below(act: Activation, winner: str) -> str:
    """Do the work one activation further down."""
    return await act.call(work, winner)


@durable
async def contest(act: Activation, winner: str) -> list[object]:
    """Race the work with a deadline, and cancel the loser."""
    what = act.call(below, winner) if winner == "child" else act.call(work, winner)
    won = await act.race(what, act.sleep(DEADLINE[winner]), losers="cancel")
    return [won.position, won.value, won.rank]


async def main(store: str, winner: str) -> None:
    """Resume or start the contest."""
    async with open_system("contest", store=store, keep_groups=True) as system:
        print(await system.run(contest, winner, key="contest"), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])

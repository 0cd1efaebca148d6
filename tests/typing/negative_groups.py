"""What the checkers must refuse. A line marked E<n> is an error in both, every other in neither."""

from __future__ import annotations

from trouper import ActorSystem, effect
from trouper.actors.groups import EffectCall, Won, all_of, open_group, race, timer


@effect
async def name(n: int) -> str:
    return str(n)


def plain(n: int) -> str:
    return str(n)


async def misuse(system: ActorSystem) -> None:
    host = system.host
    name.call("one")  # E1
    name.call()  # E2
    wrong: EffectCall[int] = name.call(1)  # E3
    await race(host, "k", [plain(1)])  # E4
    await race(host, "k", [name.call(1)], losers="drop")  # E5
    won: Won[int] = await race(host, "k", [name.call(1)])  # E6
    values: list[int] = await all_of(host, "k", [name.call(1)])  # E7
    open_group(host, "k", [timer(1)], wake="soon")  # E8
    effect(attempts=2, definite=(ValueError("no"),))  # E9
    effect(backoff=2.0)  # E10
    print(wrong, won, values)

"""What the checkers must infer for combinators on a host, with no plugin. Checked, not run."""

from __future__ import annotations

from typing import assert_type

from trouper import ActorSystem, Backoff, EffectContext, effect
from trouper.actors.groups import (
    EffectCall,
    Gathered,
    GatheredTuple,
    Outcome,
    Settlement,
    Won,
    all_of,
    all_settled,
    any_of,
    move_on_after,
    open_group,
    race,
    timer,
)


@effect
async def name(n: int) -> str:
    return str(n)


@effect
def size(ctx: EffectContext, what: str) -> int:
    return len(what)


@effect(attempts=3, backoff=Backoff(1), definite=(LookupError,), timeout=5)
async def again(ctx: EffectContext, n: int) -> int:
    return n + ctx.attempt


async def use(system: ActorSystem) -> None:
    host = system.host
    assert_type(name.call(1), EffectCall[str])
    assert_type(size.call("a"), EffectCall[int])  # the context is the runtime's to pass
    assert_type(again.call(1), EffectCall[int])
    assert_type(timer(1), EffectCall[None])
    names = [name.call(1), name.call(2)]
    assert_type(await race(host, "k", names), Won[str])
    assert_type(await any_of(host, "k", names, losers="cancel"), Won[str])
    either: Won[str | int] = await race(host, "k", [name.call(1), size.call("a")])
    assert_type(await all_of(host, "k", names), Gathered[str])
    both = await all_of(host, "k", (name.call(1), size.call("a")))
    assert_type(both, GatheredTuple[str, int])
    assert_type(both.order, tuple[int, ...])
    first, second = both
    assert_type(first, str)
    assert_type(second, int)
    pair: tuple[str, int] = both
    listed: list[str] = await all_of(host, "k", names)
    assert_type(await all_settled(host, "k", [name.call(1), timer(1)]), Gathered[Outcome])
    assert_type(await move_on_after(host, "k", 1.0, size.call("a")), Won[int] | None)
    async with open_group(host, "k", names, wake="first") as group:
        async for settlement in group:
            assert_type(settlement, Settlement)
    print(either, pair, listed)

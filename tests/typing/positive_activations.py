"""What the checkers must infer for the steps of durable functions, with no plugin."""

from __future__ import annotations

from typing import Any, assert_type

from trouper import Activation, Won, durable, effect
from trouper.actors.activations import Call
from trouper.actors.groups import Gathered, GatheredTuple, Outcome


@effect
async def text(n: int) -> str:
    return str(n)


@effect
async def number(n: int) -> int:
    return n


@effect
async def flag(n: int) -> bool:
    return n > 0


@durable
async def steps(act: Activation, n: int) -> str:
    t, i, f, w = (act.call(text, n), act.call(number, n), act.call(flag, n), act.sleep(1))
    assert_type(t, Call[str])
    assert_type(w, Call[None])
    assert_type(await act.wait_signal("go"), Any)
    assert_type(await act.move_on_after(5, act.call(text, n)), Won[str] | None)
    assert_type(await act.race(t, i), Won[str | int])
    assert_type(await act.any_of(t, i, f), Won[str | int | bool])
    assert_type(await act.all_of(t, i, f), GatheredTuple[str, int, bool])
    assert_type(
        await act.all_of(t, i, f, w, t, i, f),
        GatheredTuple[str, int, bool, None, str, int, bool],
    )
    assert_type(
        await act.all_of(t, i, f, w, t, i, f, w),
        GatheredTuple[str, int, bool, None, str, int, bool, None],
    )
    assert_type(await act.race(t, i, f, w, t, i, f, w), Won[str | int | bool | None])
    assert_type(await act.all_of(*[act.call(text, k) for k in range(n)]), Gathered[str])
    assert_type(await act.all_settled(t, i), Gathered[Outcome])
    assert_type((await act.all_settled(t, i)).order, tuple[int, ...])
    name, number_of = await act.all_of(t, i)
    assert_type(name, str)
    assert_type(number_of, int)
    return await act.call(text, n)


@durable
async def hands_on(act: Activation) -> tuple[list[str], tuple[str, int], list[Outcome]]:
    texts = await act.all_of(*[act.call(text, k) for k in range(3)])
    both = await act.all_of(act.call(text, 1), act.call(number, 2))
    return texts, both, await act.all_settled(act.call(text, 1))

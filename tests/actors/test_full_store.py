"""No room on the disk under durable work: the system ends with that, and the next one goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from trouper import Activation, ActorSystem, StoreFull, durable, effect, open_system, race
from trouper.testing import FaultyStore

RAN: list[int] = []


@effect
async def double(n: int) -> int:
    RAN.append(n)
    return 2 * n


@durable
async def twice(act: Activation) -> int:
    return await act.call(double, 1) + await act.call(double, 2)


async def run_activation(system: ActorSystem) -> object:
    return await system.run(twice, key="k")


async def run_group(system: ActorSystem) -> object:
    return (await race(system.host, "g", [double.call(3)])).value


async def run_operation(system: ActorSystem) -> object:
    async def answer(key: str) -> int:
        return 6

    return await (await system.operation("o", None)).run(answer)


@pytest.mark.parametrize("work", [run_activation, run_group, run_operation])
async def test_no_room_ends_a_system_with_durable_work_and_the_next_one_goes_on(
    work: Callable[[ActorSystem], Awaitable[object]],
) -> None:
    RAN.clear()
    store = FaultyStore()
    with trio.fail_after(60), pytest.raises(StoreFull):
        async with open_system("t", store=store) as system:
            assert await system.run(twice, key="before") == 6
            store.fill()
            await work(system)
    store.make_room()
    before = list(RAN)
    async with open_system("t", store=store) as system:
        assert await system.run(twice, key="before") == 6
        assert before == RAN, "what had settled did not run again"
        assert await work(system) == 6

"""Code that changed under a journal: it is parked, nothing is journaled, the old code goes on."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio

from trouper import Activation, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations import Durable
from trouper.actors.groups import Activity
from trouper.store import Store

Deployment = tuple[Durable[[int], int], list[Activity[..., Any]]]
RAN: list[str] = []


@effect(name="first")
async def first(n: int) -> int:
    RAN.append(f"first {n}")
    return n


def recorded(*, holds: bool) -> Deployment:
    @effect(name="second")
    async def second(n: int) -> int:
        if holds:
            await trio.sleep_forever()
        RAN.append(f"second {n}")
        return n

    @durable(name="work")
    async def work(act: Activation, n: int) -> int:
        return await act.call(first, n) + await act.call(second, n)

    return work, [first, second]


def ends_early() -> Deployment:
    @durable(name="work")
    async def work(act: Activation, n: int) -> int:
        return 7

    return work, recorded(holds=False)[1]


def raises_early() -> Deployment:
    @durable(name="work")
    async def work(act: Activation, n: int) -> int:
        await act.call(first, n)
        raise LookupError("not as it was")

    return work, recorded(holds=False)[1]


def takes_more() -> Any:
    @durable(name="work")
    async def work(act: Activation, n: int, more: int) -> int:
        return n

    return work, recorded(holds=False)[1]


def effect_takes_less() -> Deployment:
    @effect(name="second")
    async def second() -> int:
        return 0

    return recorded(holds=False)[0], [first, second]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (ends_early, r"the code now ends before it \(it returns\)"),
        (raises_early, r"the code now ends before it \(LookupError: not as it was\)"),
        (takes_more, "missing a required argument: 'more'"),
        (effect_takes_less, "too many positional arguments"),
    ],
)
async def test_changed_code_parks_the_activation_and_the_recorded_code_goes_on(
    store: Store, changed: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    RAN.clear()
    work, effects = recorded(holds=True)
    async with open_system(
        "t", store=store, activities=[work], effects=effects, shutdown=0
    ) as system:
        system.start(work, 3, key="k")
        with trio.fail_after(5):
            while not any(e.name == "second" for e in inspect.effects(system.host.store)):
                await trio.lowlevel.checkpoint()
    work, effects = changed()
    async with open_system("t", store=store, activities=[work], effects=effects) as system:
        with trio.fail_after(5):
            while system.status("k") == "running":
                await trio.lowlevel.checkpoint()
        assert system.status("k") == "stuck"
        assert re.search(says, caplog.text)
    work, effects = recorded(holds=False)
    async with open_system("t", store=store, activities=[work], effects=effects) as system:
        assert await system.run(work, 3, key="k") == 6
    assert RAN == ["first 3", "second 3"]

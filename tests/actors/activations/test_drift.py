"""Code that changed under a journal: refused or parked, nothing journaled, the old code goes on."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import trio

from trouper import Activation, DrainFirst, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations import Durable, StepRow, steps_prefix
from trouper.actors.groups import Activity, open_group
from trouper.store import Store, Tx

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
    async with open_system(
        "t", store=store, activities=[work], effects=effects, drifted="park"
    ) as system:
        with trio.fail_after(5):
            while system.status("k") == "running":
                await trio.lowlevel.checkpoint()
        assert system.status("k") == "stuck"
        assert re.search(says, caplog.text)
    work, effects = recorded(holds=False)
    async with open_system("t", store=store, activities=[work], effects=effects) as system:
        assert await system.run(work, 3, key="k") == 6
    assert RAN == ["first 3", "second 3"]


async def left_behind(store: Store) -> None:
    RAN.clear()
    work, effects = recorded(holds=True)
    async with open_system(
        "t", store=store, activities=[work], effects=effects, shutdown=0
    ) as system:
        system.start(work, 3, key="k")
        with trio.fail_after(5):
            while not any(e.name == "second" for e in inspect.effects(system.host.store)):
                await trio.lowlevel.checkpoint()


def gives_another_result() -> Deployment:
    @effect(name="first")
    async def first(n: int) -> date:
        return date.min

    work, (_, second) = recorded(holds=False)
    return work, [first, second]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (takes_more, "activation 'k' of 'work' .*'more'"),
        (effect_takes_less, "call 'k#0/1' of 'second' .*too many positional"),
        (gives_another_result, "result 'k#0/0' of 'first' .*a text is expected"),
    ],
)
async def test_a_store_with_unfinished_work_of_other_code_is_not_opened(
    store: Store, changed: Any, says: str
) -> None:
    await left_behind(store)
    work, effects = changed()
    for _ in range(2):
        with pytest.raises(DrainFirst, match=says) as refused:
            async with open_system("t", store=store, activities=[work], effects=effects):
                pass
        assert len(refused.value.rows) == 1
    work, effects = recorded(holds=False)
    async with open_system("t", store=store, activities=[work], effects=effects) as system:
        assert await system.run(work, 3, key="k") == 6
    assert RAN == ["first 3", "second 3"]
    work, effects = changed()
    async with open_system("t", store=store, activities=[work], effects=effects):
        pass  # what has ended is history, and hinders nobody


def takes_text() -> Deployment:
    """Other plain annotations: of what is journaled, a parameter and a result."""

    @effect(name="first")
    async def first(n: int) -> str:
        return str(n)

    @effect(name="second")
    async def second(n: str) -> int:
        RAN.append(f"second {n!r}")
        return int(n)

    return recorded(holds=False)[0], [first, second]


async def test_a_plain_annotation_promises_nothing_so_another_one_is_no_drift(store: Store) -> None:
    """The journal holds a value and no annotation: it cannot tell a change from a loose call."""
    await left_behind(store)
    work, effects = takes_text()
    async with open_system("t", store=store, activities=[work], effects=effects) as system:
        assert await system.run(work, 3, key="k") == 6
    assert RAN == ["first 3", "second 3"]


async def test_what_to_do_about_unfinished_work_is_said_once_and_not_for_each_row(
    store: Store,
) -> None:
    await left_behind(store)
    work, effects = gives_another_result()
    with pytest.raises(DrainFirst) as refused:
        async with open_system("t", store=store, activities=[work], effects=effects):
            pass
    text = str(refused.value)
    assert "Open it with the code that began it" in text
    assert "restore the recorded code" not in text
    assert text.count("k#0/0") == 1


async def test_groups_that_nobody_drained_count_too(store: Store) -> None:
    @effect(name="child")
    async def child(n: int) -> int:
        await trio.sleep_forever()
        return n

    async with open_system("t", store=store, effects=[child], shutdown=0) as system:
        group = open_group(system.host, "g", [child.call(1), child.call(2)])
        await system.host.open_group(group.group)

    @effect(name="child")
    async def other() -> int:
        return 0

    with pytest.raises(DrainFirst, match="call 'g/0' of 'child'") as refused:
        async with open_system("t", store=store, effects=[other]):
            pass
    assert [row.partition(" of ")[0] for row in refused.value.rows] == ["call 'g/0'", "call 'g/1'"]
    async with open_system("t", store=store):
        pass  # no code at all is no drift: it stays, unroutable


async def test_a_fingerprint_of_a_version_to_come_is_not_taken_for_a_drift_of_its_step(
    store: Store,
) -> None:
    await left_behind(store)

    def of_the_future(tx: Tx) -> None:
        ((key, row), *_) = tx.scan("record", steps_prefix("k#0"), StepRow)
        tx.put("record", key, replace(row, fingerprint=b"\x02" + row.fingerprint))

    async with store:
        await store.commit(of_the_future)
    work, effects = recorded(holds=False)
    with pytest.raises(DrainFirst, match="fingerprint is of version 2"):
        async with open_system("t", store=store, activities=[work], effects=effects):
            pass


def test_only_two_words_say_what_becomes_of_drifted_work() -> None:
    with pytest.raises(ValueError, match="'refuse' or 'park'"):
        trio.run(opened_with, "ignore")


async def opened_with(word: Any) -> None:
    async with open_system("t", drifted=word):
        pass

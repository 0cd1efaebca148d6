"""The units of turns: one for each step, sealed where nothing is left to decide, and fenced."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import trio

from trouper import Activation, durable, effect, open_system
from trouper.actors.activations import ActivationRow, FenceRow, StepRow
from trouper.actors.activations._rows import (
    MOST_STEPS,
    activation_key,
    fence_key,
    run_prefix,
    step_key,
    steps_prefix,
)
from trouper.actors.activations._turn import head_of_run
from trouper.errors import FenceMoved
from trouper.store import MemoryStore, SealedUnit, Submission, Tx, Unit

WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


class Seen:
    """A store that notes the units it is handed."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.units: list[Unit[Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def __aenter__(self) -> Seen:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._store.__aexit__(*exc)

    def submit(self, unit: Unit[Any], done: Callable[[Any], None]) -> Submission:
        self.units.append(unit)
        return self._store.submit(unit, done)


@effect
async def where(number: int) -> str:
    value = WHERE.get()
    WHERE.set(f"effect {number}")
    return value


@durable
async def in_a_row(act: Activation, steps: int) -> list[str]:
    return [await act.call(where, number) for number in range(steps)]


@durable
async def fan(act: Activation) -> list[str]:
    await act.call(where, 0)
    return await act.all_of(*[act.call(where, number) for number in (1, 2)])


async def test_a_step_is_one_unit_and_each_but_the_first_and_last_is_sealed() -> None:
    store = Seen(MemoryStore())
    async with open_system("turns", store=store, activities=[in_a_row]) as system:
        await system.run(in_a_row, 1, key="warm")
        before = len(store.units)
        await system.run(in_a_row, 10, key="ten")
    units = store.units[before : before + 11]
    assert [isinstance(unit, SealedUnit) for unit in units] == [False] + [True] * 9 + [False]


async def test_a_sealed_turn_writes_steps_and_the_fence_but_no_arguments() -> None:
    store = Seen(MemoryStore())
    async with open_system("turns", store=store, activities=[in_a_row]) as system:
        await system.run(in_a_row, 4, key="four")
    sealed = [unit for unit in store.units if isinstance(unit, SealedUnit)]
    assert [[key for key, _ in unit.rows] for unit in sealed] == [
        [step_key("four#0", n - 1), step_key("four#0", n), fence_key("four#0")] for n in (1, 2, 3)
    ]


async def test_the_fence_lies_behind_the_steps_of_its_run() -> None:
    store = MemoryStore()
    async with open_system("turns", store=store, activities=[in_a_row]) as system:
        await system.run(in_a_row, 3, key="three")
    async with store:
        kinds = [type(row) for _, row in store.scan("record", run_prefix("three#0"), object)]
        steps = store.scan("record", steps_prefix("three#0"), object)
    assert kinds == [StepRow] * 3 + [FenceRow]
    assert [row for _, row in steps if not isinstance(row, StepRow)] == []


async def test_an_activation_that_changes_while_it_is_read_is_somebody_elses() -> None:
    row = ActivationRow("k", 0, "", "steps", b"", 1.0, -1, b"")

    def write(tx: Tx) -> None:
        tx.put("record", activation_key("k"), replace(row, cancel_step=3))
        tx.put("record", fence_key("k#0"), FenceRow("k#0", 5))

    async with MemoryStore() as store:
        await store.commit(write)
        assert head_of_run(store, replace(row, cancel_step=3)) == 5
        with pytest.raises(FenceMoved, match="driven by somebody else"):
            head_of_run(store, row)


async def test_a_run_has_no_more_steps_than_there_are_numbers_for() -> None:
    with pytest.raises(ValueError, match="history_limit is 16777216 at most"):
        async with open_system("turns", history_limit=MOST_STEPS + 1):
            pass


async def test_a_turn_that_opens_or_closes_a_group_is_not_sealed() -> None:
    store = Seen(MemoryStore())
    async with open_system("turns", store=store, activities=[fan]) as system:
        assert await system.run(fan, key="one") == ["nowhere"] * 2
    assert not any(isinstance(unit, SealedUnit) for unit in store.units)


async def test_effects_begin_in_the_context_of_whoever_opened_the_system() -> None:
    """Also those that start behind a flush, in a callback of trio; and none sees another's."""
    WHERE.set("here")
    async with open_system("turns", store=MemoryStore(), activities=[in_a_row]) as system:
        WHERE.set("later")
        assert await system.run(in_a_row, 4, key="four") == ["here"] * 4


async def test_a_sealed_turn_meets_the_fence_of_a_second_driver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The other one went on from the same step: whose unit comes second writes nothing."""
    gates = {"a": trio.Event(), "b": trio.Event()}
    began = {"a": trio.Event(), "b": trio.Event()}
    who = contextvars.ContextVar("who", default="")

    @effect
    async def held(number: int) -> str:
        if number:
            began[who.get()].set()
            await gates[who.get()].wait()
        return who.get()

    @durable
    async def both(act: Activation) -> list[str]:
        return [await act.call(held, number) for number in range(4)]

    store = MemoryStore()
    async with store, trio.open_nursery() as nursery:
        who.set("a")
        async with open_system("a", store=store, activities=[both], effects=[held]) as first:
            one = first.start(both, key="k")
            await began["a"].wait()
            who.set("b")
            async with open_system("b", store=store, activities=[both], effects=[held]) as second:
                other = second.start(both, key="k")
                await began["b"].wait()
                gates["b"].set()
                assert await other.result() == ["a", "b", "b", "b"]
            gates["a"].set()
            with pytest.raises(FenceMoved, match="driven by somebody else"):
                await one.result()
        nursery.cancel_scope.cancel()

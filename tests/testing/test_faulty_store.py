"""The store that fails on command: who hears what, and what is there afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from outcome import Error, Outcome
from trio.testing import wait_all_tasks_blocked

from trouper import Activation, durable, effect, open_system
from trouper.errors import StoreFull, StoreLost
from trouper.store import record, row_key
from trouper.testing import FaultyStore

TABLE = "record"


@record("tests.faulty.row")
@dataclass(frozen=True, slots=True)
class Row:
    n: int


def key(n: int) -> bytes:
    return row_key(b"x", f"row {n}")


def put(n: int) -> Any:
    return lambda tx: tx.put(TABLE, key(n), Row(n))


def kept(store: FaultyStore) -> list[int]:
    return [n for n in range(9) if store.get(TABLE, key(n), Row) is not None]


async def test_a_full_store_refuses_each_unit_whole_stays_readable_and_goes_on_with_room() -> None:
    store = FaultyStore()
    async with store:
        await store.commit(put(0))
        store.fill()
        for _ in range(2):
            with pytest.raises(StoreFull, match="full, as the test asked"):
                await store.commit(put(1))
        assert kept(store) == [0]
        store.make_room()
        await store.commit(put(1))
        assert kept(store) == [0, 1]


async def test_verdicts_come_in_the_order_of_submission_good_or_bad() -> None:
    heard: list[tuple[int, str]] = []

    def hear(n: int) -> Any:
        def done(verdict: Outcome[None]) -> None:
            error = verdict.error if isinstance(verdict, Error) else None
            heard.append((n, "kept" if error is None else type(error).__name__))

        return done

    store = FaultyStore()
    async with store:
        store.submit(put(0), hear(0))
        store.fill()
        store.submit(put(1), hear(1))
        store.make_room()
        store.lose(after=1)
        for n in (2, 3, 4):
            store.submit(put(n), hear(n))
        await wait_all_tasks_blocked()
    assert heard == [(0, "kept"), (1, "StoreFull"), (2, "kept"), (3, "StoreLost"), (4, "StoreLost")]


@pytest.mark.parametrize("written", [False, True])
async def test_a_lost_store_answers_nobody_and_the_reopen_decides(written: bool) -> None:
    store = FaultyStore()
    async with store:
        await store.commit(put(0))
        store.lose(written=written)
        with pytest.raises(StoreLost, match="known after a reopen"):
            await store.commit(put(1))
        with pytest.raises(StoreLost):
            await store.commit(put(2))
        with pytest.raises(StoreLost):
            kept(store)
    epoch = store.epoch
    async with store:
        assert kept(store) == ([0, 1] if written else [0])
        assert store.epoch == epoch + 1
        await store.commit(put(2))


async def test_a_unit_may_be_withdrawn_before_it_meets_its_fault() -> None:
    store = FaultyStore()
    async with store:
        store.fill()
        with trio.move_on_after(0) as scope:
            await store.commit(put(0))
        assert scope.cancelled_caught
        store.make_room()
        assert kept(store) == []


def test_a_number_of_units_is_a_whole_number() -> None:
    wrong: Any = 1.5
    for after in (-1, wrong, True):
        with pytest.raises(ValueError, match="a number of units, 0 or more"):
            FaultyStore().lose(after=after)


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("after", range(3))
async def test_durable_work_on_a_store_that_is_lost_goes_on_after_the_reopen(
    written: bool, after: int
) -> None:
    charges: list[str] = []

    @effect(name="t.charge")
    async def charge() -> str:
        charges.append("charged")
        return "receipt"

    @durable(name="t.order")
    async def order(act: Activation) -> list[str]:
        return [await act.call(charge), await act.call(charge)]

    store = FaultyStore()
    async with store:
        store.lose(after=after, written=written)
        with pytest.raises(StoreLost):
            async with open_system("s", store=store, effects=[charge], activities=[order]) as one:
                await one.run(order, key="k")
    async with open_system("s", store=store, effects=[charge], activities=[order]) as two:
        assert await two.run(order, key="k") == ["receipt", "receipt"]
    assert 2 <= len(charges) <= 3

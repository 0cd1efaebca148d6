"""The way between desks and their store: what goes together, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from trouper import MemoryStore, open_system
from trouper.errors import OutcomeUnknown, StoreClosed
from trouper.store import SealedUnit

Told = Callable[[Sequence[Any], Sequence[BaseException | None]], None]


class Bundles:
    """A store that is asked how many units it was handed at a time, and may keep its verdicts."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sizes: list[int] = []
        self.held: list[tuple[Sequence[SealedUnit], Told]] | None = None
        self.failure: StoreClosed | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def __aenter__(self) -> Bundles:
        await self.store.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.store.__aexit__(*error)

    def submit_all(self, units: Sequence[SealedUnit], done: Told) -> None:
        if self.failure is not None:
            raise self.failure
        self.sizes.append(len(units))
        if self.held is None:
            self.store.submit_all(units, done)
        else:
            self.held.append((units, done))

    def release(self) -> None:
        held, self.held = self.held or [], None
        for units, done in held:
            self.store.submit_all(units, done)


class Asker:
    """Asks in a task of its own, and keeps what came."""

    def __init__(self, nursery: trio.Nursery, ref: Any, message: Any) -> None:
        self.answer: Any = None
        nursery.start_soon(self._ask, ref, message)

    async def _ask(self, ref: Any, message: Any) -> None:
        try:
            self.answer = await ref.ask(message)
        except Exception as error:
            self.answer = error


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def test_what_many_actors_decide_is_handed_over_at_once(till: SimpleNamespace) -> None:
    store: Any = Bundles()
    async with open_system("shop", store=store) as system:
        refs = [await system.actor(till.Counting, f"k{n}") for n in range(500)]
        for ref in refs:
            ref.tell(till.Add(1))
        await settled()
        assert store.sizes == [500]


async def test_those_who_were_answered_go_together_again(till: SimpleNamespace) -> None:
    store: Any = Bundles()
    async with open_system("shop", store=store) as system:
        refs = [await system.actor(till.Counting, f"k{n}") for n in range(300)]

        async def ask(ref: Any) -> None:
            for n in range(1, 6):
                assert await ref.ask(till.Add(1)) == n

        async with trio.open_nursery() as nursery:
            for ref in refs:
                nursery.start_soon(ask, ref)
        assert sum(store.sizes) == 5 * 300
        assert len(store.sizes) <= 25  # five rounds, and trio's order may split them


async def test_what_comes_while_a_batch_is_away_goes_together(till: SimpleNamespace) -> None:
    store: Any = Bundles()
    store.held = []
    async with open_system("shop", store=store) as system:
        refs = [await system.actor(till.Counting, f"k{n}") for n in range(10)]
        for ref in refs:
            ref.tell(till.Add(1))
            await settled()
        assert store.sizes == [1]
        store.release()
        await settled()
        assert store.sizes == [1, 9]


async def test_tasks_that_never_rest_hold_nothing_back(till: SimpleNamespace) -> None:
    store: Any = Bundles()
    async with open_system("shop", store=store) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")

        async def endless() -> None:
            while True:
                await trio.lowlevel.checkpoint()

        nursery.start_soon(endless)
        assert await ref.ask(till.Add(1)) == 1
        nursery.cancel_scope.cancel()


async def test_units_that_are_not_taken_fail_as_units_do_that_are(till: SimpleNamespace) -> None:
    store: Any = Bundles()
    with pytest.raises(StoreClosed):
        async with open_system("shop", store=store) as system, trio.open_nursery() as nursery:
            refs = [await system.actor(till.Counting, f"k{n}") for n in range(3)]
            store.failure = StoreClosed("it is not open", store="memory")
            askers = [Asker(nursery, ref, till.Add(1)) for ref in refs]
            await settled()
    assert any(isinstance(asker.answer, OutcomeUnknown) for asker in askers)

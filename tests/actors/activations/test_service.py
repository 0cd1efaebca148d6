"""Activations in a system: a lost store ends it, logs are not repeated, the tree shows waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import outcome
import pytest
import trio
import trio.testing

from trouper import Activation, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations._rows import steps_prefix
from trouper.errors import CorruptRecord, StoreLost, TooLarge
from trouper.store import MemoryStore, Submission, Unit


class LosesAt:
    """A store that answers its k-th unit, and all later ones, with `StoreLost`."""

    def __init__(self, store: MemoryStore, k: int, *, landed: bool) -> None:
        self._store = store
        self._left = k
        self._landed = landed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def __aenter__(self) -> LosesAt:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._store.__aexit__(*exc)

    def submit(self, unit: Unit[Any], done: Callable[[Any], None]) -> Submission:
        self._left -= 1
        if self._left > 0:
            return self._store.submit(unit, done)
        lost = outcome.Error(StoreLost("EIO on flush: outcome unknown"))

        def nothing(tx: Any) -> None: ...

        return self._store.submit(unit if self._landed else nothing, lambda _: done(lost))


@effect
async def add(a: int, b: int) -> int:
    return a + b


@durable
async def sums(act: Activation) -> int:
    act.log.info("before")
    first = await act.call(add, 1, 1)
    act.log.info("between")
    rest = await act.all_of(*[act.call(add, first, n) for n in range(3)])
    act.log.info("after")
    return sum(rest)


@pytest.mark.parametrize("landed", [False, True])
async def test_a_lost_store_ends_the_system_and_the_next_open_decides(landed: bool) -> None:
    losses = 0
    for k in range(1, 50):
        store = MemoryStore()
        faulty: Any = LosesAt(store, k, landed=landed)
        try:
            async with open_system("t", store=faulty, shutdown=0) as system:
                await system.run(sums, key="k")
        except* StoreLost:
            losses += 1
        else:
            break
        async with open_system("t", store=store) as system:
            assert await system.run(sums, key="k") == 9
    assert losses >= 4


async def test_a_replay_does_not_repeat_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="trouper.activation")
    store, gate, started = MemoryStore(), trio.Event(), trio.Event()

    @effect(name="gated")
    async def gated() -> None:
        started.set()
        await gate.wait()

    @durable(name="logs")
    async def logs(act: Activation) -> None:
        act.log.info("one")
        await act.call(add, 1, 1)
        act.log.info("two")
        await act.call(gated)
        act.log.info("three")

    options: dict[str, Any] = {"effects": [gated], "activities": [logs], "shutdown": 0}
    async with open_system("t", store=store, **options) as system:
        system.start(logs, key="k")
        await started.wait()
    gate.set()
    async with open_system("t", store=store, **options) as system:
        await system.run(logs, key="k")
    assert [record.message for record in caplog.records] == ["one", "two", "three"]


async def test_the_tree_shows_each_activation_below_the_one_that_waits_for_it() -> None:
    gate = trio.Event()

    @effect(name="gated")
    async def gated() -> None:
        await gate.wait()

    @durable(name="below")
    async def below(act: Activation) -> None:
        await act.call(gated)

    @durable(name="above")
    async def above(act: Activation) -> None:
        await act.all_of(act.call(below), act.call(below))

    async with open_system("t", effects=[gated], activities=[below, above]) as system:
        handle = system.start(above, key="k")
        await trio.testing.wait_all_tasks_blocked()
        (parent,) = [node for node in system.tree().walk() if node.name == "above"]
        assert [child.name for child in parent.children] == ["below", "below"]
        assert parent.details["waits for"] == "all_of #0"
        assert parent.children[0].details["waits for"] == "effect gated"
        gate.set()
        await handle.result()


async def test_what_the_journal_holds_can_be_read_as_views() -> None:
    store = MemoryStore()
    async with open_system("t", store=store, keep_groups=True) as system:
        await system.run(sums, key="k")
        operation = await system.operation("op", 1)
        assert await operation.run(lambda key: key) == "op"
        (activation,) = inspect.activations(store)
        assert (activation.key, activation.state) == ("k", "completed")
        assert {e.arguments for e in inspect.effects(store)} == {(1, 1), (2, 0), (2, 1), (2, 2)}
        (group,) = inspect.groups(store)
        assert (group.children, group.settled, group.closed) == (3, 3, True)
        (view,) = inspect.operations(store)
        assert (view.key, view.status, view.attempts) == ("op", "completed", 1)


async def test_what_is_too_large_for_a_row_settles_as_a_failure_or_is_refused_at_the_call() -> None:
    @effect(name="large")
    async def large(size: int) -> bytes:
        return b"x" * size

    @durable(name="asks_for_much")
    async def asks_for_much(act: Activation) -> list[str]:
        said: list[str] = []
        for call in (act.call(large, 9 << 20), act.all_of(act.call(large, 9 << 20))):
            try:
                await call
            except TooLarge as error:
                said.append(str(error))
        try:
            act.call(large, "y" * (5 << 20))  # type: ignore[arg-type]
        except TooLarge as error:
            said.append(str(error))
        return said

    async with open_system("t", effects=[large], activities=[asks_for_much]) as system:
        said = await system.run(asks_for_much, key="k")
    assert [text.split()[1] for text in said] == ["result", "result", "of"]


async def test_a_corrupt_step_parks_its_activation_and_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Damaged(LosesAt):
        """A store in which the steps of one activation do not match their checksums."""

        def scan(self, table: str, prefix: bytes, kind: Any, **options: Any) -> Any:
            if prefix == steps_prefix("damaged#0"):
                raise CorruptRecord("its checksum does not match", table=table, key="")
            return self._store.scan(table, prefix, kind, **options)

    @durable(name="waits")
    async def waits(act: Activation, seconds: float) -> str:
        await act.sleep(seconds)
        return "done"

    store = MemoryStore()
    async with open_system("t", store=store, activities=[waits], shutdown=0) as system:
        for key in ("damaged", "sound"):
            system.start(waits, 5, key=key)
        await trio.sleep(1)
    damaged: Any = Damaged(store, 1_000_000, landed=True)
    async with open_system("t", store=damaged, activities=[waits]) as system:
        with pytest.raises(CorruptRecord, match="checksum"):
            await system.run(waits, 5, key="damaged")
        assert await system.run(waits, 5, key="sound") == "done"
    async with open_system("t", store=store, activities=[waits]) as system:
        assert await system.run(waits, 5, key="damaged") == "done"

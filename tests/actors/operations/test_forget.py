"""`ActorSystem.forget` of operations: explicit, whole, and never under a live attempt."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trouper import Activation, durable, open_system
from trouper.actors.operations import OperationRow
from trouper.errors import OperationForgotten, OperationMismatch, ScopeBusy
from trouper.store import MemoryStore, Store


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(debug=True)


def recorded(store: Store) -> list[str]:
    return [row.key for _, row in store.scan("record", b"O", OperationRow)]


def answer(key: str) -> str:
    return f"answer of {key}"


async def test_a_forgotten_operation_leaves_no_row_and_its_key_is_new(store: MemoryStore) -> None:
    async with open_system("t", store=store) as system:
        held = await system.operation("k", 1)
        assert await held.run(answer) == "answer of k"
        await system.forget("k")
        assert recorded(store) == []
        with pytest.raises(OperationForgotten, match="open it again"):
            await held.run(answer)
        with pytest.raises(OperationForgotten):
            await held.run(answer, timeout=1)
        again = await system.operation("k", "another request")
        assert again.status == "pending"
        assert await again.run(lambda key: 2) == 2
        with pytest.raises(OperationMismatch):
            await system.operation("k", 1)
        await system.forget("k")
        await system.forget("k")
        assert recorded(store) == []


async def test_a_live_attempt_is_not_forgotten(store: MemoryStore) -> None:
    begun, gate = trio.Event(), trio.Event()

    async def slow(key: str) -> str:
        begun.set()
        await gate.wait()
        return key

    async with open_system("t", store=store) as system, trio.open_nursery() as nursery:
        operation = await system.operation("k", 1)
        nursery.start_soon(operation.run, slow)
        await begun.wait()
        with pytest.raises(ScopeBusy, match="attempt is live"):
            await system.forget("k")
        gate.set()
        assert await operation.run(slow) == "k"
        await system.forget("k")
        assert recorded(store) == []


async def test_an_attempt_of_another_system_on_this_store_is_not_forgotten(
    store: MemoryStore,
) -> None:
    begun = trio.Event()

    async def stuck(key: str) -> None:
        begun.set()
        await trio.sleep_forever()

    async with store, open_system("b", store=store) as second:
        async with open_system("a", store=store, shutdown=0) as first:
            operation = await first.operation("k", 1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(operation.run, stuck)
                await begun.wait()
                nursery.cancel_scope.cancel()
            with pytest.raises(ScopeBusy, match="another system"):
                await second.forget("k")
            assert recorded(store) == ["k"]
        await second.forget("k")  # its owner is gone
        assert recorded(store) == []


async def test_a_claim_in_the_turn_of_a_forget_runs_nothing(store: MemoryStore) -> None:
    ran: list[str] = []

    async with open_system("t", store=store) as system:
        operation = await system.operation("k", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(system.forget, "k")
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(OperationForgotten):
                await operation.run(ran.append)
        assert (ran, recorded(store)) == ([], [])


async def test_a_record_that_another_system_forgot_is_not_written_again(
    store: MemoryStore,
) -> None:
    async with (
        store,
        open_system("a", store=store) as first,
        open_system("b", store=store) as second,
    ):
        operation = await first.operation("k", 1)
        await second.forget("k")
        with pytest.raises(OperationForgotten):
            await operation.run(answer)
        assert recorded(store) == []
        assert await (await first.operation("k", 1)).run(answer) == "answer of k"


async def test_one_key_may_name_an_activation_and_an_operation(store: MemoryStore) -> None:
    gate = trio.Event()

    @durable(name="waits")
    async def waits(act: Activation) -> None:
        await act.sleep(0)

    async def slow(key: str) -> None:
        await gate.wait()

    async with open_system("t", store=store, activities=[waits]) as system:
        await system.run(waits, key="k")
        operation = await system.operation("k", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operation.run, slow)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ScopeBusy):
                await system.forget("k")
            assert system.status("k") == "completed", "both or none"
            gate.set()
        await system.forget("k")
        assert (system.status("k"), recorded(store)) == ("unknown", [])

"""A crash at every commit, before and behind it: one record, one effect under one key."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal

import pytest
import trio
import trio.testing

from trouper.actors.groups import Completed, decode_outcome, open_host
from trouper.actors.operations import OperationRow, Operations, OperationStatus
from trouper.errors import Reject, StoreClosed, TrouperError
from trouper.store import MemoryStore

Point = Literal["before_commit", "committed", "acknowledged"]


class World:
    """What the outside world keeps: it recognises a request by its key."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self.calls: list[str] = []

    async def slow(self, key: str) -> int:
        self.calls.append(key)
        number = self.done.setdefault(key, 100 + len(self.done))
        await trio.sleep(2)
        return number

    async def refuse(self, key: str) -> int:
        self.calls.append(key)
        raise Reject("no funds")

    async def lose_once(self, key: str) -> int:
        self.calls.append(key)
        number = self.done.setdefault(key, 200)
        if self.calls.count(key) == 1:
            raise OSError("reset")
        return number


async def told(answers: list[Any], call: Awaitable[Any]) -> None:
    try:
        answers.append(await call)
    except StoreClosed:
        raise
    except TrouperError as error:
        answers.append(type(error).__name__)


async def work(operations: Operations, world: World) -> list[Any]:
    """Timeout then success, success joined by another caller, a failure, an answer lost."""
    answers: list[Any] = []
    slow = await operations.open("slow", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told, answers, slow.run(world.slow, timeout=1))
        nursery.start_soon(told, answers, slow.run(world.slow))
    refuse = await operations.open("refuse", 1)
    await told(answers, refuse.run(world.refuse))
    lose = await operations.open("lose", 1)
    await told(answers, lose.run(world.lose_once))
    await told(answers, lose.run(world.lose_once))
    await told(answers, slow.confirm(100, "a webhook"))
    return answers


def recorded(store: MemoryStore) -> dict[str, OperationRow]:
    return {row.key: row for _, row in store.scan("record", b"O", OperationRow)}


async def crash_at(store: MemoryStore, point: Point, number: int, world: World) -> bool:
    """Work until the process ends at that commit; tell whether it came to that."""
    passed, scope, token = 0, trio.CancelScope(), trio.lowlevel.current_trio_token()

    def probe(at: str) -> None:
        nonlocal passed
        passed += at == point
        if at == point and passed == number:
            store.crash()
            token.run_sync_soon(scope.cancel)  # when the store has let go of its units

    store.probe = probe
    with scope:
        try:
            async with open_host(store, shutdown=0) as host:
                await work(Operations(host), world)
        except* StoreClosed:
            pass
    store.probe = None
    return passed >= number


@pytest.mark.parametrize("point", ["before_commit", "committed", "acknowledged"])
async def test_a_crash_at_any_commit_ends_in_the_same_records(
    point: Point, autojump_clock: trio.testing.MockClock
) -> None:
    crashes = 0
    for number in range(1, 60):
        world, store = World(), MemoryStore(max_batch=1)
        if not await crash_at(store, point, number, world):
            break
        crashes += 1
        async with store:
            before = recorded(store)
        called = len(world.calls)
        async with open_host(store) as host:
            operations = Operations(host)
            await work(operations, world)
            await work(operations, world)
            after = recorded(store)
        for key, row in before.items():
            if OperationStatus(row.status).terminal:
                assert (after[key].status, after[key].result) == (row.status, row.result)
                assert key not in world.calls[called:], "what is settled never runs again"
        assert {key: row.status for key, row in after.items()} == {
            "slow": "completed",
            "refuse": "failed",
            "lose": "completed",
        }
        for key in ("slow", "lose"):
            # One effect, however often it ran: it had one key.
            assert decode_outcome(after[key].result) == Completed(world.done[key])
        assert set(world.done) <= {"slow", "lose"}
    assert crashes > 10

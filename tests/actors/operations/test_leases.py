"""Attempts of several hosts on one store: joined while the lease lives, taken over behind it."""

from __future__ import annotations

from dataclasses import fields, replace

import trio
from trio.testing import MockClock

from trouper import MemoryStore
from trouper._ids import Incarnation
from trouper.actors.groups import open_host
from trouper.actors.operations import OperationRow, Operations, OperationStatus
from trouper.actors.operations._rows import TABLE, operation_key
from trouper.store import Tx, decode_record
from trouper.store._codec import encode_row

SILENT = Incarnation(1, 77)  # nobody knows it to be dead, and it renews nothing


async def claim_for(store: MemoryStore, owner: Incarnation, expires: float) -> None:
    def unit(tx: Tx) -> None:
        row = tx.get(TABLE, operation_key("k"), OperationRow)
        assert row is not None
        row = row.claimed_by(owner, expires)
        state = replace(row.state(), status=OperationStatus.RUNNING)
        tx.put(TABLE, operation_key("k"), row.with_state(state))

    await store.commit(unit)


async def test_who_joined_a_silent_owner_takes_over_when_its_lease_ended(
    autojump_clock: MockClock,
) -> None:
    store, runs = MemoryStore(), list[float]()

    async def fn(key: str) -> int:
        runs.append(trio.current_time())
        return 7

    async with store, open_host(store) as host:
        operation = await Operations(host).open("k", None)
        begun = trio.current_time()
        await claim_for(store, SILENT, begun + 20)
        assert await operation.run(fn) == 7
    assert [round(at - begun) for at in runs] == [20]
    seen = [(o.attempt, o.status) for o in operation.record.observations]
    assert (1, OperationStatus.UNKNOWN) in seen, "its outcome is unknown, and that is on record"


async def test_an_attempt_keeps_its_claim_however_long_it_runs(autojump_clock: MockClock) -> None:
    store, runs = MemoryStore(), list[str]()

    async def slow(key: str) -> int:
        runs.append(key)
        await trio.sleep(1000)
        return 7

    async with store, open_host(store, lease=30) as one, open_host(store, lease=30) as two:
        answers: list[int] = []

        async def call(operations: Operations) -> None:
            answers.append(await (await operations.open("k", None)).run(slow))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, Operations(one))
            await trio.sleep(1)
            nursery.start_soon(call, Operations(two))
    assert (answers, runs) == ([7, 7], ["k"])


async def test_a_caller_who_joined_elsewhere_may_leave(autojump_clock: MockClock) -> None:
    store = MemoryStore()

    async def fn(key: str) -> int:
        return 7

    async with store, open_host(store) as host:
        operation = await Operations(host).open("k", None)
        await claim_for(store, SILENT, trio.current_time() + 20)
        with trio.move_on_after(5) as scope:
            await operation.run(fn)
        assert scope.cancelled_caught
        assert operation.status is OperationStatus.RUNNING


def test_a_row_of_the_first_version_is_read() -> None:
    row = OperationRow.new("k", b"r")
    first = ["operation", 1, *[getattr(row, field.name) for field in fields(row)][:-2]]
    assert decode_record(encode_row(first, (), 1 << 20), OperationRow) == row

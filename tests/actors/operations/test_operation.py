"""Operations over both stores: one attempt at a time, results kept, outcomes never invented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from trouper.actors.groups import open_host
from trouper.actors.operations import Operations, OperationStatus
from trouper.errors import (
    EffectFailed,
    OperationFailed,
    OperationMismatch,
    OutcomeUnknown,
    Reject,
    ShuttingDown,
    ValueRefused,
)
from trouper.store import LmdbStore, MemoryStore, Store


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")


@asynccontextmanager
async def operations(store: Store, shutdown: float = 5.0) -> AsyncIterator[Operations]:
    async with open_host(store, shutdown=shutdown) as host:
        yield Operations(host)


class Attempts:
    """Counts attempts and holds each at a gate."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.gate = trio.Event()
        self.started = trio.Event()

    async def held(self, key: str, value: int) -> int:
        self.keys.append(key)
        self.started.set()
        await self.gate.wait()
        return value


async def test_a_completed_operation_returns_its_result_without_running_again(
    store: Store,
) -> None:
    attempts = Attempts()
    attempts.gate.set()
    for value in (1, 2):
        async with operations(store) as ops:
            operation = await ops.open("k", {"cents": 5})
            assert await operation.run(attempts.held, value) == 1
    assert attempts.keys == ["k"]


async def test_callers_that_meet_join_one_attempt(store: Store) -> None:
    attempts = Attempts()
    answers: list[int] = []
    async with operations(store) as ops, trio.open_nursery() as nursery:
        for value in (1, 2, 3):

            async def call(value: int = value) -> None:
                operation = await ops.open("k", None)
                answers.append(await operation.run(attempts.held, value))

            nursery.start_soon(call)
        await attempts.started.wait()
        attempts.gate.set()
    assert len(attempts.keys) == 1
    assert len(set(answers)) == 1


async def test_a_callers_timeout_ends_its_waiting_and_the_attempt_settles_late(
    store: Store,
) -> None:
    attempts = Attempts()
    async with operations(store) as ops:
        operation = await ops.open("k", None)
        with pytest.raises(OutcomeUnknown, match="never under a new one"):
            await operation.run(attempts.held, 7, timeout=0.01)
        assert operation.status is OperationStatus.UNKNOWN
        attempts.gate.set()
        assert await operation.run(attempts.held, 8) == 7
    assert attempts.keys == ["k"]


async def test_timeout_merges_first_and_then_looks(store: Store) -> None:
    attempts = Attempts()
    attempts.gate.set()
    async with operations(store) as ops:
        operation = await ops.open("k", None)
        await operation.run(attempts.held, 7)
        assert await operation.run(attempts.held, 8, timeout=1e-9) == 7


async def test_a_rejected_operation_is_failed_for_good(store: Store) -> None:
    calls: list[str] = []

    def refuse(key: str) -> None:
        calls.append(key)
        raise Reject("no funds", cents=3)

    for _ in range(2):
        async with operations(store) as ops:
            operation = await ops.open("k", None)
            with pytest.raises(OperationFailed, match="no funds") as raised:
                await operation.run(refuse)
            cause = raised.value.__cause__
            assert isinstance(cause, Reject)
            assert cause.facts == {"cents": 3}
    assert calls == ["k"]


async def test_an_error_that_is_an_answer_fails_the_operation(store: Store) -> None:
    def wrong(key: str) -> None:
        raise ValueError("not a card")

    async with operations(store) as ops:
        operation = await ops.open("k", None)
        with pytest.raises(OperationFailed) as raised:
            await operation.run(wrong)
        assert isinstance(raised.value.__cause__, EffectFailed)


@pytest.mark.parametrize("lost", [OSError("reset"), TimeoutError(), trio.TooSlowError()])
async def test_a_lost_answer_is_unknown_and_the_next_caller_runs_under_the_same_key(
    store: Store, lost: Exception
) -> None:
    calls: list[str] = []

    def flaky(key: str) -> str:
        calls.append(key)
        if len(calls) == 1:
            raise lost
        return "done"

    async with operations(store) as ops:
        operation = await ops.open("k", None)
        with pytest.raises(OutcomeUnknown, match=rf"lost the answer \({type(lost).__name__}: "):
            await operation.run(flaky)
        assert await operation.run(flaky) == "done"
    assert calls == ["k", "k"]


async def test_a_type_in_unknown_says_that_the_answer_was_lost(store: Store) -> None:
    def flaky(key: str) -> None:
        raise LookupError("no reply")

    async with operations(store) as ops:
        operation = await ops.open("k", None)
        with pytest.raises(OutcomeUnknown):
            await operation.run(flaky, unknown=(LookupError,))
        assert operation.status is OperationStatus.UNKNOWN


async def test_the_claim_of_a_dead_owner_is_taken_over(store: Store) -> None:
    attempts = Attempts()
    async with operations(store, shutdown=0.0) as ops:
        operation = await ops.open("k", None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operation.run, attempts.held, 1)
            await attempts.started.wait()
            nursery.cancel_scope.cancel()
    attempts.gate.set()
    async with operations(store) as ops:
        operation = await ops.open("k", None)
        assert operation.status is OperationStatus.RUNNING
        assert await operation.run(attempts.held, 2) == 2
    assert attempts.keys == ["k", "k"]


async def test_a_key_belongs_to_one_request(store: Store) -> None:
    async with operations(store) as ops:
        await ops.open("k", {"cents": 5})
        with pytest.raises(OperationMismatch, match="'k'"):
            await ops.open("k", {"cents": 6})
    async with operations(store) as ops:
        with pytest.raises(OperationMismatch):
            await ops.open("k", {"cents": 6})


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("nursery", [OSError("reset")]),
        ExceptionGroup("nursery", [ValueError("no"), ExceptionGroup("in", [OSError("reset")])]),
    ],
)
async def test_an_answer_lost_inside_a_nursery_is_lost(store: Store, error: Exception) -> None:
    async def loses(key: str) -> int:
        raise error

    async with operations(store) as ops:
        operation = await ops.open("k", 1)
        with pytest.raises(OutcomeUnknown, match="lost the answer"):
            await operation.run(loses)
        assert operation.status is OperationStatus.UNKNOWN


async def test_a_result_that_no_journal_carries_is_a_failure_also_in_the_status(
    store: Store,
) -> None:
    async def gives(key: str) -> object:
        return {1}

    async with operations(store) as ops:
        operation = await ops.open("k", 1)
        with pytest.raises(OperationFailed, match="value refused at result"):
            await operation.run(gives)
        assert operation.status is OperationStatus.FAILED


async def test_an_operation_of_a_closed_system_says_so_instead_of_waiting(store: Store) -> None:
    attempts = Attempts()
    async with operations(store, shutdown=0) as ops:
        fresh = await ops.open("fresh", 1)
        done = await ops.open("done", 1)
        attempts.gate.set()
        assert await done.run(attempts.held, 1) == 1
    with trio.fail_after(5), pytest.raises(ShuttingDown, match="'fresh' has closed"):
        await fresh.run(attempts.held, 1)
    assert await done.run(attempts.held, 2) == 1  # what is known needs no system
    assert attempts.keys == ["done"]


@dataclass(frozen=True)
class Refund:
    cents: Decimal
    of: tuple[str, ...]


async def refund(key: str, cents: str) -> Refund:
    return Refund(Decimal(cents), (key,))


def untyped(key: str) -> Any:
    raise AssertionError("it is settled")


def refund_of_lines(key: str) -> list[Refund]:
    return [("not one",)]  # type: ignore[list-item]


async def test_a_result_is_what_the_annotation_of_its_function_says(store: Store) -> None:
    for _ in range(2):
        async with operations(store) as ops:
            operation = await ops.open("k", Refund(Decimal("1.0"), ("a",)))
            assert await operation.run(refund, "2.50") == Refund(Decimal("2.50"), ("k",))
            assert await operation.run(untyped) == {"cents": "2.50", "of": ["k"]}
            with pytest.raises(OperationMismatch):
                await ops.open("k", Refund(Decimal("1.00"), ("a",)))
            with pytest.raises(ValueRefused, match="result"):
                await operation.run(refund_of_lines)


async def test_a_result_that_would_not_come_back_is_a_committed_failure(store: Store) -> None:
    async with operations(store) as ops:
        operation = await ops.open("k", None)
        with pytest.raises(OperationFailed) as caught:
            await operation.run(refund_of_lines)
        assert isinstance(caught.value.__cause__, ValueRefused)
        assert caught.value.__cause__.path == "result[0]"


async def test_a_call_that_cannot_be_is_no_answer_of_its_key(store: Store) -> None:
    async def takes_none() -> int:
        return 1

    async def takes_two(key: str, one: int, two: int) -> int:
        return one + two

    async with operations(store) as known:
        operation = await known.open("k", None)
        for fn, args in ((takes_none, ()), (takes_two, (1,)), (7, ())):
            mistaken: Any = fn
            with pytest.raises(TypeError, match=r"takes_none|takes_two|runs a function"):
                await operation.run(mistaken, *args)
        assert operation.status is OperationStatus.PENDING
        assert await operation.run(takes_two, 1, 2) == 3


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1"], ids=repr)
async def test_a_timeout_that_is_none_is_refused_before_anything_starts(
    store: Store, timeout: Any
) -> None:
    attempts = Attempts()
    async with operations(store) as known:
        operation = await known.open("k", None)
        with pytest.raises(ValueError, match="timeout must be 0 seconds or more, it is"):
            await operation.run(attempts.held, 1, timeout=timeout)
    assert attempts.keys == []

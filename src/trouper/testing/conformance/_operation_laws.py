"""Laws of the record: its lattice, its results, its log, its key."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio

from ...actors.groups import Completed, decode_outcome
from ...actors.operations import Operation, OperationStatus
from ...errors import (
    EffectFailed,
    OperationFailed,
    OperationMismatch,
    OutcomeUnknown,
    Reject,
)
from ._host_cast import refused
from ._operation_bench import Attempts, OperationBench, OperationOwner, read, tried

PENDING, RUNNING, UNKNOWN, FAILED, COMPLETED = OperationStatus


def value_of(operation: Operation) -> Any:
    """Return the value that the record holds."""
    outcome = decode_outcome(operation.record.result)
    assert isinstance(outcome, Completed)
    return outcome.value


async def settled(owner: OperationOwner, key: str, *results: Any) -> Operation:
    """Run an operation whose attempt ends at once, and return it."""
    attempts = Attempts(*results)
    attempts.release()
    operation = await owner.open(key, None)
    with suppress(OperationFailed):
        await operation.run(attempts.run)
    return operation


class Declined(Reject):
    """A registered error with facts of its own."""

    def __init__(self, amount: float) -> None:
        super().__init__(f"declined: {amount}", amount=amount)


async def a_completed_record_answers_without_running(bench: OperationBench) -> None:
    """Now, and in every later life."""
    key = bench.key("answers")
    again = Attempts("another")
    again.release()
    for ends in ("crash", "shutdown", "shutdown"):
        async with bench.runtime("crash" if ends == "crash" else "shutdown") as life:
            owner = await life.owner()
            if ends == "crash":
                await settled(owner, key, {"charged": [1, True, 0.5]})
            operation = await owner.open(key, None)
            assert operation.status is COMPLETED
            assert await operation.run(again.run) == {"charged": [1, True, 0.5]}
    assert again.keys == []


async def nothing_runs_after_a_failure(bench: OperationBench) -> None:
    """A committed failure is raised from the record, with its cause, for ever."""
    key, other = bench.key("failed"), bench.key("raised")
    again = Attempts()
    again.release()
    for number in range(3):
        async with bench.runtime("crash") as life:
            owner = await life.owner()
            if number == 0:
                await settled(owner, key, Declined(0.5))
                await settled(owner, other, KeyError("seven"))
            operation = await owner.open(key, None)
            assert operation.status is FAILED
            error = await refused(OperationFailed, operation.run(again.run))
            cause = error.__cause__
            assert isinstance(cause, Declined)
            assert (str(cause), cause.facts) == ("declined: 0.5", {"amount": 0.5})
            error = await refused(
                OperationFailed, (await owner.open(other, None)).run(again.run, timeout=1)
            )
            assert isinstance(error.__cause__, EffectFailed)
    assert again.keys == []


async def a_record_is_never_downgraded(bench: OperationBench) -> None:
    """Neither a timeout nor a late failure changes a success; what they saw is counted."""
    key = bench.key("downgrade")
    attempts = Attempts(7, Declined(1.0))
    async with bench.runtime() as life, trio.open_nursery() as nursery:
        first, second = await life.owner(), await life.owner()
        operation = await first.open(key, None)
        nursery.start_soon(tried, operation.run(attempts.run, timeout=10))
        await attempts.begun[0].wait()
        life.presume_dead(first)
        taken = await second.open(key, None)
        nursery.start_soon(tried, taken.run(attempts.run))
        await attempts.begun[1].wait()
        before = await taken.confirm(7, "a webhook")
        assert (before.status, value_of(taken)) == (COMPLETED, 7)
        for gate in attempts.gates[1::-1]:
            gate.set()
            await read(life, key)
        life.advance(11)
        after = await read(life, key)
        assert (after.status, after.result, after.version) == (
            before.status,
            before.result,
            before.version,
        )
        assert after.ignored > before.ignored
        nursery.cancel_scope.cancel()


async def unknown_is_upgraded_by_a_late_success(bench: OperationBench) -> None:
    """The attempt outlives the caller who gave up, and settles with its result."""
    key = bench.key("late")
    attempts = Attempts(7)
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, OutcomeUnknown, operation.run(attempts.run, timeout=10))
            await attempts.begun[0].wait()
            life.advance(11)
        assert operation.status is UNKNOWN
        attempts.release()
        assert await operation.run(attempts.run) == 7
        assert operation.status is COMPLETED
    assert attempts.keys == [key]


async def a_lost_answer_is_unknown_and_runs_again(bench: OperationBench) -> None:
    """Under the same key: an error that only says so settles nothing."""
    for name, lost in (
        ("os", OSError("reset")),
        ("timeout", TimeoutError()),
        ("slow", trio.TooSlowError()),
        ("unknown", OutcomeUnknown("no reply")),
        ("listed", LookupError("no reply")),
        ("nursery", ExceptionGroup("nursery", [ConnectionResetError()])),
    ):
        key = bench.key(f"lost {name}")
        attempts = Attempts(lost, 7)
        attempts.release()
        async with bench.runtime() as life:
            operation = await (await life.owner()).open(key, None)
            await refused(OutcomeUnknown, operation.run(attempts.run, unknown=(LookupError,)))
            assert operation.status is UNKNOWN
            assert operation.record.result == b""
            assert await operation.run(attempts.run) == 7
        assert attempts.keys == [key, key]


async def failed_is_upgraded_by_durable_evidence(bench: OperationBench) -> None:
    """And the success that was found then answers, in later lives too."""
    key = bench.key("evidence")
    again = Attempts()
    async with bench.runtime() as life:
        operation = await settled(await life.owner(), key, Declined(1.0))
        assert operation.status is FAILED
        state = await operation.confirm(7, "the statement of the bank")
        assert state.status is COMPLETED
        assert await operation.run(again.run) == 7
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)
        assert await operation.run(again.run) == 7
    assert again.keys == []


async def a_second_success_with_another_result_is_kept_as_a_conflict(
    bench: OperationBench,
) -> None:
    """It changes nothing, stays readable, and no noise pushes it out of the log."""
    key = bench.key("conflict")
    async with bench.runtime() as life:
        operation = await settled(await life.owner(observations=3), key, 7)
        before = operation.record
        await operation.confirm(7, "the same again")
        assert operation.record.conflicts == 0
        await operation.confirm(8, "another webhook")
        after = operation.record
        assert (after.status, after.result, after.version) == (
            before.status,
            before.result,
            before.version,
        )
        assert after.conflicts == 1
        for _ in range(5):
            await operation.confirm(7, "noise")
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)
        assert value_of(operation) == 7
        kept = [seen for seen in operation.record.observations if seen.conflicting]
        assert [decode_outcome(seen.result) for seen in kept] == [Completed(8)]
        assert "another webhook" in kept[0].note


async def the_log_is_bounded(bench: OperationBench) -> None:
    """By the number that its owner was given; the newest stay, and all are counted."""
    key = bench.key("log")
    attempts = Attempts(*[OSError(f"reset {number}") for number in range(6)])
    attempts.release()
    async with bench.runtime() as life:
        operation = await (await life.owner(observations=4)).open(key, None)
        for _ in range(6):
            await refused(OutcomeUnknown, operation.run(attempts.run))
        seen = operation.record.observations
        assert len(seen) == 4
        assert (seen[-1].attempt, seen[-1].status) == (6, UNKNOWN)
        assert "reset 5" in seen[-1].note


async def a_large_result_leaves_room_for_the_log(bench: OperationBench) -> None:
    """The log never carries the result a second time."""
    key = bench.key("large")
    large = b"x" * (7 << 20)
    async with bench.runtime() as life:
        operation = await settled(await life.owner(), key, large)
        await operation.confirm(b"y" * (7 << 20), "another large one")
        assert await operation.run(Attempts().run) == large
        assert operation.record.conflicts == 1
        assert sum(len(seen.result) for seen in operation.record.observations) < 1 << 16


async def a_key_belongs_to_one_request(bench: OperationBench) -> None:
    """Another request under it is refused, before anything runs, in every life."""
    key = bench.key("request")
    for _ in range(2):
        async with bench.runtime("crash") as life:
            owner = await life.owner()
            await owner.open(key, {"cents": 5, "to": "a"})
            await owner.open(
                key, {"to": "a", "cents": 5}
            )  # the order of a mapping is no difference
            before = life.journal()
            for other in ({"cents": 6, "to": "a"}, {"cents": 5}, {"cents": 5.0, "to": "a"}, None):
                error = await refused(OperationMismatch, owner.open(key, other))
                assert error.facts["key"] == key
                assert error.facts["recorded"] != error.facts["offered"]
            assert life.journal() == before


RECORD_LAWS = (
    a_completed_record_answers_without_running,
    nothing_runs_after_a_failure,
    a_record_is_never_downgraded,
    unknown_is_upgraded_by_a_late_success,
    a_lost_answer_is_unknown_and_runs_again,
    failed_is_upgraded_by_durable_evidence,
    a_second_success_with_another_result_is_kept_as_a_conflict,
    the_log_is_bounded,
    a_large_result_leaves_room_for_the_log,
    a_key_belongs_to_one_request,
)

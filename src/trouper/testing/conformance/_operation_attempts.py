"""Laws of attempts: one at a time, owned by nobody who waits, fenced when their owner is gone."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from ...actors.operations import OperationStatus
from ...errors import OperationForgotten, OutcomeUnknown, ScopeBusy
from ._host_cast import refused
from ._operation_bench import Attempts, OperationBench, read, tried
from ._operation_laws import settled, value_of

COMPLETED, UNKNOWN = OperationStatus.COMPLETED, OperationStatus.UNKNOWN


async def a_stuck_attempt_is_joined(bench: OperationBench) -> None:
    """Whoever calls while it runs gets its result; nothing is run beside it, however long."""
    key = bench.key("join")
    attempts = Attempts(7)
    answers: list[Any] = []
    async with bench.runtime() as life:
        owner = await life.owner()

        async def call() -> None:
            operation = await owner.open(key, None)
            answers.append(await operation.run(attempts.run))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call)
            await attempts.begun[0].wait()
            life.advance(10_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            attempts.release()
        assert answers == [7, 7, 7, 7]
        assert attempts.keys == [key]


async def ending_a_wait_ends_only_the_waiting(bench: OperationBench) -> None:
    """A caller's cancel or timeout reaches no attempt; the next caller joins it."""
    key = bench.key("wait")
    attempts = Attempts(7)
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operation.run, attempts.run)
            await attempts.begun[0].wait()
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, OutcomeUnknown, operation.run(attempts.run, timeout=10))
            await trio.testing.wait_all_tasks_blocked()
            life.advance(11)
        assert not attempts.ended[0].is_set()
        attempts.release()
        assert await operation.run(attempts.run) == 7
    assert attempts.keys == [key]


async def a_timeout_merges_first_and_then_looks(bench: OperationBench) -> None:
    """Success, then timeout: the caller who timed out gets the stored result."""
    key = bench.key("merge")
    attempts = Attempts(7)
    answers: list[Any] = []
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)

        async def call() -> None:
            answers.append(await operation.run(attempts.run, timeout=10))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await attempts.begun[0].wait()
            with life.hold():
                attempts.release()
                await trio.testing.wait_all_tasks_blocked()  # its record waits for the flush
                life.advance(11)
                await trio.testing.wait_all_tasks_blocked()
                assert answers == []
        assert answers == [7]
        assert operation.status is COMPLETED


async def a_timeout_without_an_answer_is_recorded(bench: OperationBench) -> None:
    """As unknown, in the journal: the outcome is never invented and never called a failure."""
    key = bench.key("timeout")
    attempts = Attempts(7)
    async with bench.runtime("crash") as life:
        operation = await (await life.owner()).open(key, None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, OutcomeUnknown, operation.run(attempts.run, timeout=10))
            await attempts.begun[0].wait()
            life.advance(11)
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)
        assert operation.status is UNKNOWN
        assert any(o.attempt == 0 and o.status is UNKNOWN for o in operation.record.observations)


async def what_was_not_durable_was_never_told(bench: OperationBench) -> None:
    """A crash between the effect and its record: no caller had learned of it."""
    key = bench.key("unflushed")
    attempts = Attempts(7)
    answers: list[Any] = []
    async with bench.runtime("crash") as life, trio.open_nursery() as nursery:
        operation = await (await life.owner()).open(key, None)

        async def call() -> None:
            answers.append(await operation.run(attempts.run))

        nursery.start_soon(call)
        await attempts.begun[0].wait()
        before = life.journal()
        hold = life.hold()
        hold.__enter__()  # never left: the process ends before the flush
        attempts.release()
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        assert operation.status is not COMPLETED
        assert life.journal() == before
        nursery.cancel_scope.cancel()


async def a_crash_before_the_record_runs_again_under_the_same_key(bench: OperationBench) -> None:
    """The effect happened, nobody recorded it: the next attempt can recognise it by its key."""
    key = bench.key("again")
    attempts = Attempts(7)
    done: dict[str, int] = {}

    async def idempotent(key: str) -> int:
        await attempts.run(key)
        return done.setdefault(key, len(attempts.keys))

    for number in range(2):
        async with bench.runtime("crash") as life, trio.open_nursery() as nursery:
            operation = await (await life.owner()).open(key, None)
            nursery.start_soon(tried, operation.run(idempotent))
            await attempts.begun[number].wait()
            hold = life.hold()
            hold.__enter__()
            attempts.gates[number].set()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    attempts.release()
    async with bench.runtime() as life:
        operation = await (await life.owner()).open(key, None)
        assert not operation.status.terminal
        assert await operation.run(idempotent) == 1
        numbers = [seen.attempt for seen in operation.record.observations]
        assert sorted(set(numbers)) == [1, 2, 3], "a crash does not reset the number of attempts"
    assert attempts.keys == [key, key, key]
    assert done == {key: 1}


async def a_dead_attempt_is_taken_over(bench: OperationBench) -> None:
    """At once, whatever the clock says, and it is recorded that its outcome is unknown."""
    key = bench.key("dead")
    attempts = Attempts(7)
    async with bench.runtime() as life:
        first, second = await life.owner(), await life.owner()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tried, (await first.open(key, None)).run(attempts.run))
            await attempts.begun[0].wait()
            await life.stop(first)
            assert attempts.ended[0].is_set()
            nursery.cancel_scope.cancel()
        attempts.release()
        operation = await second.open(key, None)
        assert await operation.run(attempts.run) == 7
        seen = [(each.attempt, each.status) for each in operation.record.observations]
        assert (1, UNKNOWN) in seen
    assert attempts.keys == [key, key]


async def an_attempt_of_another_owner_is_joined(bench: OperationBench) -> None:
    """Nothing runs beside it, whatever callers observed; who joined it gets its result."""
    key = bench.key("two owners")
    attempts = Attempts(7)
    answers: list[Any] = []
    async with bench.runtime() as life:
        first, second = await life.owner(), await life.owner()
        one, two = await first.open(key, None), await second.open(key, None)

        async def join() -> None:
            answers.append(await two.run(attempts.run))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tried, one.run(attempts.run))
            await attempts.begun[0].wait()
            nursery.start_soon(join)
            await refused(ScopeBusy, second.forget(key))
            async with trio.open_nursery() as impatient:
                impatient.start_soon(refused, OutcomeUnknown, two.run(attempts.run, timeout=10))
                await trio.testing.wait_all_tasks_blocked()
                life.advance(11)
            await refused(ScopeBusy, second.forget(key))
            nursery.start_soon(join)
            await read(life, key)  # behind its claim, which was refused
            assert answers == []
            attempts.release()
        assert answers == [7, 7]
    assert attempts.keys == [key]


async def a_joined_attempt_that_lost_its_answer_is_nobody_s(bench: OperationBench) -> None:
    """Whoever joined it learns that its outcome is unknown; the next caller may run."""
    key = bench.key("lost elsewhere")
    attempts = Attempts(OSError("reset"), 7)
    async with bench.runtime() as life:
        first, second = await life.owner(), await life.owner()
        one, two = await first.open(key, None), await second.open(key, None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, OutcomeUnknown, one.run(attempts.run))
            await attempts.begun[0].wait()
            nursery.start_soon(refused, OutcomeUnknown, two.run(attempts.run))
            await read(life, key)  # behind its claim, which was refused
            attempts.release()
        assert attempts.keys == [key]
        assert await two.run(attempts.run) == 7
        assert await one.run(attempts.run) == 7
    assert attempts.keys == [key, key]


async def a_joined_attempt_whose_owner_dies_is_taken_over(bench: OperationBench) -> None:
    """By whoever joined it, at once: a dead owner's lease needs no time to run out."""
    key = bench.key("joined and dead")
    attempts = Attempts(7)
    answers: list[Any] = []
    async with bench.runtime() as life:
        first, second = await life.owner(), await life.owner()
        one, two = await first.open(key, None), await second.open(key, None)

        async def join() -> None:
            answers.append(await two.run(attempts.run))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tried, one.run(attempts.run))
            await attempts.begun[0].wait()
            nursery.start_soon(join)
            await read(life, key)  # behind its claim, which was refused
            life.presume_dead(first)
            await attempts.begun[1].wait()
            attempts.release()
        assert answers == [7]
    assert attempts.keys == [key, key]


async def a_late_owner_is_refused_and_logged(bench: OperationBench) -> None:
    """Its claim was taken over: what it brings changes nothing, and is kept as an observation."""
    for name, late_first in (("before", True), ("behind", False)):
        key = bench.key(f"late owner {name}")
        attempts = Attempts(1, 2)
        async with bench.runtime() as life, trio.open_nursery() as nursery:
            first, second = await life.owner(), await life.owner()
            nursery.start_soon(tried, (await first.open(key, None)).run(attempts.run))
            await attempts.begun[0].wait()
            life.presume_dead(first)
            operation = await second.open(key, None)
            nursery.start_soon(tried, operation.run(attempts.run))
            await attempts.begun[1].wait()
            for number in (0, 1) if late_first else (1, 0):
                attempts.gates[number].set()
                await read(life, key)
            record = await read(life, key)
            assert record.status is COMPLETED
            assert value_of(operation) == 2
            late = [seen for seen in record.observations if "late" in seen.note]
            assert [(seen.attempt, seen.status) for seen in late] == [(1, COMPLETED)]
            assert record.conflicts == (not late_first)
            nursery.cancel_scope.cancel()


async def forget_leaves_no_row(bench: OperationBench) -> None:
    """Refused while an attempt is live; then all is gone, and the key is new."""
    key = bench.key("forget")
    attempts = Attempts(7)
    async with bench.runtime() as life:
        owner = await life.owner()
        before = life.journal()
        operation = await owner.open(key, {"cents": 5})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operation.run, attempts.run)
            await attempts.begun[0].wait()
            await refused(ScopeBusy, owner.forget(key))
            attempts.release()
        assert operation.status is COMPLETED
        await owner.forget(key)
        assert life.journal() == before
        await refused(OperationForgotten, operation.run(attempts.run))
        assert (await settled(owner, key, 8)).status is COMPLETED
        await owner.forget(key)
        await owner.forget(key)
        assert life.journal() == before


ATTEMPT_LAWS = (
    a_stuck_attempt_is_joined,
    ending_a_wait_ends_only_the_waiting,
    a_timeout_merges_first_and_then_looks,
    a_timeout_without_an_answer_is_recorded,
    what_was_not_durable_was_never_told,
    a_crash_before_the_record_runs_again_under_the_same_key,
    a_dead_attempt_is_taken_over,
    an_attempt_of_another_owner_is_joined,
    a_joined_attempt_that_lost_its_answer_is_nobody_s,
    a_joined_attempt_whose_owner_dies_is_taken_over,
    a_late_owner_is_refused_and_logged,
    forget_leaves_no_row,
)

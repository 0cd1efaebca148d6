"""Supervising plain async functions: restarts, escalation, ordered and bounded shutdown."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.errors import NameTaken, RestartLimitReached, ShuttingDown
from trouper.supervision import Backoff, Exit, Intensity, Supervisor, one_for_one


class Bench:
    """Children that say when they start and end."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def child(self, name: str, cleanup: float = 0.0) -> None:
        self.log.append(f"{name} up")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(cleanup)
            self.log.append(f"{name} down")


@pytest.mark.proves("Supervision: supervises any trio child")
async def test_children_stop_in_reverse_order_one_after_the_other(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with Supervisor() as supervisor:
        for name in "abc":
            supervisor.start(bench.child, name, 1.0, name=name)
            await wait_all_tasks_blocked()
        start = trio.current_time()
    assert bench.log[3:] == ["c down", "b down", "a down"]
    assert trio.current_time() - start == 3


@pytest.mark.parametrize("how", ["error", "cancel"])
@pytest.mark.proves("Shutdown: reverse start order")
async def test_the_order_holds_however_the_block_is_left(how: str) -> None:
    bench = Bench()
    leaves = pytest.raises(KeyError, match="body") if how == "error" else nullcontext()
    with leaves, trio.CancelScope() as outer:
        async with Supervisor() as supervisor:
            for name in "ab":
                supervisor.start(bench.child, name)
                await wait_all_tasks_blocked()
            if how == "error":
                raise KeyError("body")
            outer.cancel()
            await trio.sleep_forever()
    assert bench.log == ["a up", "b up", "b down", "a down"]
    assert outer.cancelled_caught == (how == "cancel")


async def test_a_late_child_is_reported_and_passed_over_and_still_awaited(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with Supervisor("sup") as supervisor:
        supervisor.start(bench.child, "quick", name="quick")
        await wait_all_tasks_blocked()
        supervisor.start(bench.child, "slow", 60.0, name="slow", shutdown=2.0)
        await wait_all_tasks_blocked()
        start = trio.current_time()
    assert bench.log[2:] == ["quick down", "slow down"]
    assert trio.current_time() - start == 60
    assert "sup/slow did not end within its shutdown budget of 2.0 s" in caplog.text


@pytest.mark.proves("Supervision: policies")
async def test_a_permanent_child_comes_back_and_a_transient_one_only_after_a_failure() -> None:
    runs = {"permanent": 0, "transient": 0}

    async def child(policy: str) -> None:
        runs[policy] += 1
        if runs[policy] == 1:
            raise ValueError(policy)
        if policy == "permanent" and runs[policy] < 4:
            return
        if policy == "permanent":
            await trio.sleep_forever()

    async with Supervisor() as supervisor:
        supervisor.start(child, "permanent", restart="permanent")
        supervisor.start(child, "transient", restart="transient")
        await wait_all_tasks_blocked()
        assert [node.details["restarts"] for node in supervisor.tree().children] == [3]
    assert runs == {"permanent": 4, "transient": 2}


@pytest.mark.proves("Supervision: supervises any trio child")
async def test_a_failure_that_nobody_may_restart_comes_out_unwrapped() -> None:
    bench, error = Bench(), ValueError("child")

    async def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="child") as raised:
        async with Supervisor() as supervisor:
            supervisor.start(bench.child, "a")
            await wait_all_tasks_blocked()
            supervisor.start(fail, restart="never")
            await trio.sleep_forever()
    assert raised.value is error
    assert bench.log == ["a up", "a down"]


@pytest.mark.proves("Supervision: over the budget")
async def test_one_restart_too_many_is_named_with_the_last_failure() -> None:
    runs = 0

    async def fail() -> None:
        nonlocal runs
        runs += 1
        raise ValueError(runs)

    strategy = one_for_one(intensity=Intensity(2, 5.0))
    with pytest.raises(RestartLimitReached, match=r"more than 2 restarts in 5.0 s") as raised:
        async with Supervisor(strategy=strategy) as supervisor:
            supervisor.start(fail, name="fail")
            await trio.sleep_forever()
    assert isinstance(raised.value.__cause__, ValueError)
    assert runs == 3


@pytest.mark.proves("Supervision: exponential back-off")
async def test_back_off_waits_between_lives_and_a_stop_ends_the_wait(
    autojump_clock: MockClock,
) -> None:
    starts: list[float] = []

    async def fail() -> None:
        starts.append(trio.current_time())
        raise ValueError

    strategy = one_for_one(intensity=Intensity(100), backoff=Backoff(1, 2, 1000, jitter=0))
    async with Supervisor(strategy=strategy) as supervisor:
        supervisor.start(fail, name="fail")
        await trio.sleep(8)
        assert [t - starts[0] for t in starts] == [0, 1, 3, 7]
        assert supervisor.tree().children[0].state == "waiting"
        assert await supervisor.stop("fail") == Exit("stopped")
        assert trio.current_time() - starts[0] == 8


@pytest.mark.proves("Supervision: KeyboardInterrupt and SystemExit")
async def test_an_interrupt_in_a_child_is_never_restarted() -> None:
    runs = 0

    async def interrupted() -> None:
        nonlocal runs
        runs += 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with Supervisor() as supervisor:
            supervisor.start(interrupted, restart="permanent")
            await trio.sleep_forever()
    assert runs == 1


async def test_a_body_error_and_a_child_failure_are_one_group() -> None:
    async def fail() -> None:
        raise ValueError("child")

    with pytest.raises(BaseExceptionGroup) as raised:
        async with Supervisor("sup") as supervisor:
            supervisor.start(fail, restart="never")
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("body")
    assert [type(e) for e in raised.value.exceptions] == [KeyError, ValueError]


async def test_a_failure_while_stopping_is_logged_and_the_others_still_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()

    async def bad() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in cleanup")

    async with Supervisor() as supervisor:
        supervisor.start(bench.child, "a")
        supervisor.start(bad)
        await wait_all_tasks_blocked()
    assert bench.log == ["a up", "a down"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_nothing_starts_outside_of_the_block_and_names_are_unique() -> None:
    supervisor = Supervisor("sup")
    with pytest.raises(ShuttingDown, match="sup"):
        supervisor.start(trio.sleep_forever)
    async with supervisor:
        supervisor.start(trio.sleep_forever, name="one")
        with pytest.raises(NameTaken, match="sup/one"):
            supervisor.start(trio.sleep_forever, name="one")
        with pytest.raises(ValueError, match="permanent, transient, never"):
            supervisor.start(trio.sleep_forever, restart="often")  # type: ignore[arg-type]
    with pytest.raises(ShuttingDown):
        supervisor.start(trio.sleep_forever)


@pytest.mark.proves("Shutdown: nothing outlives the block")
async def test_no_task_outlives_the_block() -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    async with Supervisor() as supervisor:
        for _ in range(10):
            supervisor.start(trio.sleep_forever)
    assert trio.lowlevel.current_statistics().tasks_living == before


class Counting(dict[str, Any]):
    """Children that count how often somebody looks through all of them."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()

    def __iter__(self) -> Any:
        self.looks += 1
        return super().__iter__()

    def __reversed__(self) -> Any:
        self.looks += 1
        return super().__reversed__()


@pytest.mark.parametrize("n", [5, 50])
@pytest.mark.proves("Shutdown: reverse start order")
async def test_the_work_of_a_shutdown_grows_with_the_children_only(n: int) -> None:
    bench = Bench()
    children = Counting()
    async with Supervisor() as supervisor:
        supervisor._children = children
        for number in range(n):
            supervisor.start(bench.child, str(number))
        await wait_all_tasks_blocked()
    assert bench.log[n:] == [f"{number} down" for number in reversed(range(n))]
    assert children.looks == 1


async def test_late_children_are_passed_over_once_and_waited_for_at_the_end(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with Supervisor() as supervisor:
        for name, cleanup in (("a", 0.0), ("b", 9.0), ("c", 9.5)):
            supervisor.start(bench.child, name, cleanup, name=name, shutdown=1.0)
            await wait_all_tasks_blocked()
        start = trio.current_time()
    assert bench.log[3:] == ["a down", "c down", "b down"]
    assert trio.current_time() - start == 10
    assert len(caplog.records) == 2  # each is reported as late once


@pytest.mark.parametrize("n", [5, 50])
async def test_significant_children_are_counted_not_looked_for(n: int) -> None:
    children = Counting()
    gates = [trio.Event() for _ in range(n)]
    async with Supervisor(strategy=one_for_one(auto_shutdown="all")) as supervisor:
        supervisor._children = children
        for gate in gates:
            supervisor.start(gate.wait, restart="never", significant=True)
        for gate in gates[:-1]:
            gate.set()
        await wait_all_tasks_blocked()
        assert len(children) == 1
        gates[-1].set()
        await trio.sleep_forever()  # ended by the last of them
    assert children.looks == 1


async def test_names_that_are_made_up_are_free() -> None:
    gate = trio.Event()
    async with Supervisor() as supervisor:
        first = supervisor.start(gate.wait, restart="never")
        supervisor.start(trio.sleep_forever, name="sleep_forever#2")
        gate.set()
        await wait_all_tasks_blocked()
        names = [supervisor.start(trio.sleep_forever) for _ in range(3)]
        assert first == "wait#1"
        assert names == ["sleep_forever#3", "sleep_forever#4", "sleep_forever#5"]


async def test_a_supervisor_is_entered_once() -> None:
    async with Supervisor("x") as supervisor:
        with pytest.raises(RuntimeError, match="'x' was entered before"):
            await supervisor.__aenter__()
    with pytest.raises(RuntimeError, match="'x' was entered before"):
        async with supervisor:
            pass


async def test_a_child_may_stop_itself_and_in_its_end_its_siblings(
    autojump_clock: MockClock,
) -> None:
    log: list[object] = []
    async with Supervisor() as supervisor:

        async def stops_itself() -> None:
            await supervisor.stop("me")

        async def stops_another() -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    log.append(await supervisor.stop("other"))
                    with pytest.raises(ShuttingDown):
                        supervisor.start(trio.sleep_forever)

        supervisor.start(trio.sleep_forever, name="other")
        supervisor.start(stops_another)
        supervisor.start(stops_itself, name="me")
        await trio.sleep(1)
        assert [child.name for child in supervisor.tree().children] == ["other", "stops_another#1"]
    assert log == [Exit("stopped")]
    assert trio.current_time() == 1

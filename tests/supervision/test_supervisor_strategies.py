"""Strategies over plain async functions, and blocks that end with their significant children."""

from __future__ import annotations

import signal
from itertools import pairwise
from typing import Any, get_args

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.errors import RestartLimitReached, ShuttingDown
from trouper.supervision import (
    AutoShutdown,
    Backoff,
    Exit,
    Intensity,
    Restart,
    Strategy,
    Supervisor,
    one_for_all,
    one_for_one,
    plan_restart,
    rest_for_one,
)

MANY = Intensity(10**6)


class Bench:
    """Children that say when a life begins and ends, and fail or return when they are told to."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.log: list[str] = []
        self.orders: dict[str, Any] = {}
        self.gates: dict[str, trio.Event] = {}
        self.first: dict[str, BaseException] = {}  # raised at the next begin of that child

    async def child(self, name: str, cleanup: float) -> None:
        self.log.append(f"+{name}")
        if name in self.first:
            raise self.first.pop(name)
        gate = self.gates[name] = trio.Event()
        try:
            await gate.wait()
            order = self.orders.pop(name, None)
            if order is not None:
                raise order
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(cleanup)
            self.log.append(f"-{name}")

    async def start(self, *names: str, cleanup: float = 0.0, **options: Any) -> None:
        for name in names:
            self.supervisor.start(self.child, name, cleanup, name=name, **options)
            await wait_all_tasks_blocked()

    def fail(self, name: str, error: BaseException | None = None) -> None:
        self.orders[name] = error or ValueError(name)
        self.gates[name].set()

    def finish(self, name: str) -> None:
        self.gates[name].set()

    async def settled(self) -> list[str]:
        """Wait until nothing moves; return what was written down since the last call."""
        await wait_all_tasks_blocked()
        log, self.log[:] = self.log[:], []
        return log


@pytest.mark.proves("Supervision: rest_for_one", "Supervision: supervises any trio child")
async def test_rest_for_one_stops_d_then_c_starts_c_then_d_and_leaves_a_and_b_untouched() -> None:
    async with Supervisor(strategy=rest_for_one()) as supervisor:
        bench = Bench(supervisor)
        await bench.start(*"abcd")
        await bench.settled()
        bench.fail("c")
        assert await bench.settled() == ["-c", "-d", "+c", "+d"]  # c had ended by itself
        nodes = supervisor.tree().children
        assert [(n.name, n.details["restarts"]) for n in nodes] == [
            ("a", 0),
            ("b", 0),
            ("c", 1),
            ("d", 1),
        ]


@pytest.mark.proves("Supervision: one_for_all", "Supervision: supervises any trio child")
async def test_one_for_all_stops_the_others_in_reverse_order_and_starts_all_in_order() -> None:
    async with Supervisor(strategy=one_for_all()) as supervisor:
        bench = Bench(supervisor)
        await bench.start(*"abcd")
        await bench.settled()
        bench.fail("b")
        assert await bench.settled() == ["-b", "-d", "-c", "-a", "+a", "+b", "+c", "+d"]


@given(
    kind=st.sampled_from([one_for_one, one_for_all, rest_for_one]),
    policies=st.lists(st.sampled_from(["permanent", "transient"]), min_size=5, max_size=5),
    failures=st.lists(st.sampled_from("abcde"), max_size=8),
)
@settings(max_examples=40, deadline=None)
@pytest.mark.proves("Supervision: one_for_all", "Supervision: rest_for_one")
def test_a_row_of_failures_is_served_as_the_pure_plans_say(
    kind: Any, policies: list[Restart], failures: list[str]
) -> None:
    strategy: Strategy = kind(intensity=MANY)
    children = dict(zip("abcde", policies, strict=True))

    async def main() -> None:
        async with Supervisor(strategy=strategy) as supervisor:
            bench = Bench(supervisor)
            for name, restart in children.items():
                await bench.start(name, restart=restart)
            await bench.settled()
            for name in failures:
                bench.fail(name)
                plan = plan_restart(strategy, children, name)
                others = [f"-{other}" for other in plan.stop if other != name]
                assert await bench.settled() == [
                    f"-{name}",
                    *others,
                    *(f"+{other}" for other in plan.start),
                ]

    trio.run(main)


@pytest.mark.proves("Supervision: siblings taken along")
async def test_a_child_that_must_not_be_restarted_stops_for_good_with_its_siblings() -> None:
    async with Supervisor(strategy=one_for_all()) as supervisor:
        bench = Bench(supervisor)
        await bench.start("a")
        await bench.start("b", restart="never")
        await bench.start("c", restart="transient")
        await bench.settled()
        bench.fail("a")
        assert await bench.settled() == ["-a", "-c", "-b", "+a", "+c"]
        assert [node.name for node in supervisor.tree().children] == ["a", "c"]


async def test_a_transient_child_that_returns_takes_nobody_along() -> None:
    async with Supervisor(strategy=one_for_all()) as supervisor:
        bench = Bench(supervisor)
        await bench.start("a", "b", restart="transient")
        await bench.settled()
        bench.finish("a")
        assert await bench.settled() == ["-a"]


@pytest.mark.proves("Supervision: failed restart attempts count")
async def test_a_life_that_fails_at_once_is_the_next_failure_and_counts() -> None:
    with pytest.raises(RestartLimitReached, match="more than 1 restarts") as raised:
        async with Supervisor(strategy=rest_for_one(intensity=Intensity(1))) as supervisor:
            bench = Bench(supervisor)
            await bench.start(*"abc")
            await bench.settled()
            bench.first["c"] = KeyError("c")
            bench.fail("b")
            await trio.sleep_forever()
    assert isinstance(raised.value.__cause__, KeyError)
    assert bench.log == ["-b", "-c", "+b", "+c", "-b", "-a"]


@pytest.mark.proves("Supervision: shutdown exits do not")
@pytest.mark.proves("Supervision: one count for all")
async def test_ends_that_a_restart_or_a_stop_brings_about_are_not_counted() -> None:
    async with Supervisor(strategy=one_for_all(intensity=Intensity(1))) as supervisor:
        bench = Bench(supervisor)
        await bench.start(*"abcd")
        await bench.settled()
        for name in "abc":  # at one time: one restart serves all three
            bench.fail(name)
        log = await bench.settled()
        assert log[-4:] == ["+a", "+b", "+c", "+d"]
        assert await supervisor.stop("d") == Exit("stopped")
        assert await bench.settled() == ["-d"]


@pytest.mark.proves("Supervision: exponential back-off")
async def test_back_off_lies_between_the_stops_and_the_starts(autojump_clock: MockClock) -> None:
    strategy = one_for_all(intensity=MANY, backoff=Backoff(1, 2, jitter=0))
    async with Supervisor(strategy=strategy) as supervisor:
        bench = Bench(supervisor)
        await bench.start(*"ab")
        await bench.settled()
        for wait in (1, 2, 4):
            bench.fail("a")
            await trio.sleep(wait - 0.5)
            assert bench.log == ["-a", "-b"]
            assert {node.state for node in supervisor.tree().children} == {"waiting"}
            await trio.sleep(1)
            assert bench.log == ["-a", "-b", "+a", "+b"]
            bench.log.clear()


@pytest.mark.proves("Supervision: seeded jitter and reset")
async def test_the_seed_decides_the_waits(autojump_clock: MockClock) -> None:
    waits: list[list[float]] = []

    async def lives(seed: int) -> list[float]:
        starts: list[float] = []

        async def fail() -> None:
            starts.append(trio.current_time())
            raise ValueError

        strategy = rest_for_one(intensity=MANY, backoff=Backoff(1, jitter=0.5))
        async with Supervisor(strategy=strategy, seed=seed) as supervisor:
            supervisor.start(fail)
            await trio.sleep(60)
        return [round(b - a, 9) for a, b in pairwise(starts)]

    for seed in (1, 1, 2):
        waits.append(await lives(seed))
    assert waits[0] == waits[1] != waits[2]
    assert len(waits[0]) > 3


@pytest.mark.parametrize("who", "abc")
@pytest.mark.proves("Restart: a stop that overtakes it wins")
async def test_a_stop_during_back_off_is_final_and_the_others_come_back(
    autojump_clock: MockClock, who: str
) -> None:
    async with Supervisor(strategy=one_for_all(backoff=Backoff(20, jitter=0))) as supervisor:
        bench = Bench(supervisor)
        await bench.start(*"abc")
        bench.fail("b")
        await trio.sleep(1)
        start = trio.current_time()
        assert await supervisor.stop(who) == Exit("stopped")
        assert trio.current_time() == start
        await trio.sleep(30)
        others = "abc".replace(who, "")
        assert bench.log[6:] == [f"+{name}" for name in others]


async def test_a_child_that_is_slow_to_end_is_reported_and_awaited_before_anything_starts(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Supervisor("sup", strategy=one_for_all()) as supervisor:
        bench = Bench(supervisor)
        await bench.start("a")
        await bench.start("slow", cleanup=60.0, shutdown=2.0)
        bench.fail("a")
        await trio.sleep(61)
        assert bench.log == ["+a", "+slow", "-a", "-slow", "+a", "+slow"]
    assert "sup/slow did not end within its shutdown budget of 2.0 s" in caplog.text


@pytest.mark.parametrize("how", ["return", "error", "cancel", "interrupt"])
@pytest.mark.parametrize("when", ["at rest", "stopping", "waiting"])
@pytest.mark.proves("Shutdown: reverse start order", "Shutdown: nothing outlives the block")
def test_the_order_of_the_shutdown_holds_however_and_whenever_the_block_is_left(
    how: str, when: str
) -> None:
    """Also in the middle of a restart; in a trio of its own, for the signal."""
    log: list[str] = []

    async def body(supervisor: Supervisor, outer: trio.CancelScope) -> None:
        bench = Bench(supervisor)
        bench.log = log
        await bench.start(*"abc", cleanup=1.0)
        if when != "at rest":
            bench.fail("b")
            await trio.sleep(1.5 if when == "stopping" else 10)
        if how == "error":
            raise KeyError
        if how == "interrupt":
            signal.raise_signal(signal.SIGINT)
        if how == "cancel":
            outer.cancel()
            await trio.sleep_forever()

    async def main() -> None:
        strategy = one_for_all(backoff=Backoff(20, jitter=0))
        before = trio.lowlevel.current_statistics().tasks_living
        with trio.CancelScope() as outer:
            try:
                async with Supervisor(strategy=strategy) as supervisor:
                    await body(supervisor, outer)
            except KeyError:
                assert how == "error"
            except KeyboardInterrupt:
                assert how == "interrupt"
        assert trio.lowlevel.current_statistics().tasks_living == before

    trio.run(main, clock=MockClock(autojump_threshold=0))
    order = ["-c", "-b", "-a"] if when == "at rest" else ["-b", "-c", "-a"]
    assert log == ["+a", "+b", "+c", *order]


def test_a_second_interrupt_cuts_what_still_runs() -> None:
    """The siblings are not kept waiting for the slow one; the block still is."""
    log: list[tuple[str, float]] = []

    @trio.lowlevel.enable_ki_protection  # so that it reaches the main task, which waits
    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    async def child(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if name == "slow":
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
                    interrupt()
                    await trio.sleep(20)
            log.append((name, trio.current_time()))

    async def main() -> None:
        async with Supervisor() as supervisor:
            for name in ("a", "b", "slow"):
                supervisor.start(child, name, name=name, shutdown=100.0)
                await wait_all_tasks_blocked()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert sorted(log[:2]) == [("a", 1), ("b", 1)]
    assert log[2:] == [("slow", 21)]


# --- significant children -------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "ends"), [("any", 1), ("all", 3)])
@pytest.mark.parametrize("policy", ["transient", "never"])
@pytest.mark.proves("Supervision: significant children")
async def test_the_block_ends_with_its_significant_children(
    how: AutoShutdown, ends: int, policy: Restart
) -> None:
    done: list[str] = []
    async with Supervisor(strategy=one_for_one(auto_shutdown=how)) as supervisor:
        bench = Bench(supervisor)
        await bench.start("other")
        await bench.start(*"abc", restart=policy, significant=True)
        for name in "abc":
            bench.finish(name)
            done.append(name)
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep_forever()
    assert len(done) == ends
    alive = [name for name in "cba" if name not in done]
    assert bench.log[4 + ends :] == [*(f"-{name}" for name in alive), "-other"]


@pytest.mark.proves("Supervision: significant children")
async def test_only_an_end_of_its_own_makes_a_significant_child_end_the_block() -> None:
    """Not a stop by its supervisor, not a restart, not an end that a sibling brought about."""
    strategy = one_for_all(auto_shutdown="any")
    async with Supervisor(strategy=strategy) as supervisor:
        bench = Bench(supervisor)
        await bench.start("a")
        await bench.start("b", "c", restart="transient", significant=True)
        await bench.start("d", restart="never", significant=True)
        await bench.settled()
        bench.fail("b")
        assert await bench.settled() == ["-b", "-d", "-c", "-a", "+a", "+b", "+c"]
        await supervisor.stop("b")
        await wait_all_tasks_blocked()
        supervisor.start(trio.sleep_forever)  # still open
        bench.finish("c")
        with pytest.raises(trio.Cancelled):
            await trio.sleep_forever()
        with pytest.raises(ShuttingDown):
            supervisor.start(trio.sleep_forever)


@pytest.mark.proves("Supervision: significant children")
async def test_a_supervisor_that_ended_by_itself_has_returned_to_its_own_supervisor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ends: list[str] = []

    async def inner() -> None:
        async with Supervisor("inner", strategy=one_for_one(auto_shutdown="all")) as supervisor:
            supervisor.start(trio.lowlevel.checkpoint, restart="transient", significant=True)
            await trio.sleep_forever()
        ends.append("inner")

    with trio.fail_after(60):  # in virtual time: else it would wait for ever
        async with Supervisor("outer", strategy=one_for_one(auto_shutdown="any")) as supervisor:
            supervisor.start(inner, restart="transient", significant=True)
            await trio.sleep_forever()
    assert ends == ["inner"], "it has returned, and was not started again"


async def test_a_significant_child_that_could_never_end_the_block_is_refused() -> None:
    async with Supervisor() as supervisor:
        with pytest.raises(ValueError, match="auto_shutdown"):
            supervisor.start(trio.sleep_forever, restart="never", significant=True)
    async with Supervisor(strategy=one_for_one(auto_shutdown="any")) as supervisor:
        with pytest.raises(ValueError, match="permanent"):
            supervisor.start(trio.sleep_forever, significant=True)
        assert supervisor.tree().children == ()


def test_there_are_three_ways_for_a_block_to_heed_them() -> None:
    assert get_args(AutoShutdown) == ("never", "any", "all")

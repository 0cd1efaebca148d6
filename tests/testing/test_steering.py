"""`simulate`: one schedule, event by event, as the test says."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import trio

from trouper.actors import Actor, Context, Request, handles
from trouper.errors import NotPending, OptionRefused, ScenarioRefused
from trouper.store import Store, Tx, record
from trouper.testing import Simulation, explore, simulate


@dataclass(frozen=True)
class Total(Request[int]):
    add: int = 0


class Counter(Actor[Total]):
    total = 0

    @handles(Total)
    def on(self, message: Total) -> int:
        self.total += message.add
        return self.total


class Asker(Actor[str]):
    def __init__(self, counter: Any, replies: list[int]) -> None:
        self.counter, self.replies = counter, replies

    @handles(str)
    async def on(self, word: str) -> None:
        self.replies.append(await self.counter.ask(Total(1)))


replies: list[int] = []


async def scenario(sim: Simulation) -> AsyncIterator[None]:
    replies.clear()
    counter = await sim.system.spawn(Counter, name="counter")
    for name in ("a", "b"):
        asker = await sim.system.spawn(Asker, counter, replies, name=name)
        asker.tell("go")
    yield
    assert sorted(replies) == [1, 2]


@pytest.mark.proves("Schedules: by hand")
def test_the_test_says_what_happens_next() -> None:
    with simulate(scenario) as sim:
        assert [event.kind for event in sim.pending()] == ["deliver", "deliver"]
        sim.deliver("b", message="str")
        sim.deliver("a")
        sim.deliver("counter", sender="b", message="Total")
        sim.reply("b", sender="counter")
        assert replies == [1]
        actors = [event.target.rpartition("/")[2] for event in sim.steps]
        assert actors == ["b", "a", "counter", "b"]


class Listener(Actor[int]):
    def __init__(self, order: list[int]) -> None:
        self.order = order

    @handles(int)
    def on(self, number: int) -> None:
        self.order.append(number)


class Teller(Actor[str]):
    def __init__(self, counter: Any, number: int) -> None:
        self.counter, self.number = counter, number

    @handles(str)
    def on(self, word: str) -> None:
        self.counter.tell(self.number)


async def early(sim: Simulation) -> AsyncIterator[None]:
    order: list[int] = []
    counter = await sim.system.spawn(Listener, order, name="counter")
    for number, name in ((1, "slow"), (2, "quick")):
        (await sim.system.spawn(Teller, counter, number, name=name)).tell("go")
    yield
    assert order == [1, 2], "quick was first"


@pytest.mark.proves("Schedules: by hand")
def test_the_rest_takes_place_behind_the_block_and_is_checked() -> None:
    def drive() -> None:
        with simulate(early) as sim:
            sim.deliver("quick")

    with pytest.raises(AssertionError, match="quick was first") as caught:
        contextvars.Context().run(drive)  # as if no plugin were there
    story = caught.value.__notes__[0]
    assert story.startswith("at `counter`: quick's int before slow's int")
    assert story.splitlines()[-1] == "driven by hand, then shrunk"


def test_settling_takes_the_ordinary_order_up_to_timers() -> None:
    with simulate(scenario) as sim:
        assert len(sim.settle()) == 6
        assert sim.pending() == ()


def test_what_cannot_happen_is_refused_with_what_can() -> None:
    with simulate(scenario) as sim:
        text = r"a Total for `counter` from a: .* what can: `.*a` gets"
        with pytest.raises(NotPending, match=text):
            sim.deliver("counter", sender="a", message="Total")
        for step in (sim.crash, sim.fire):
            with pytest.raises(NotPending):
                step()
        with pytest.raises(NotPending) as caught:
            sim.commit("a")
        assert len(caught.value.pending) == 2
        (first, *_) = sim.pending()
        sim.take(first)
        with pytest.raises(NotPending):
            sim.take(first)


class Sleeper(Actor[float]):
    def __init__(self, woken: list[float]) -> None:
        self.woken = woken

    @handles(float)
    def on(self, seconds: float, ctx: Context[float]) -> None:
        if seconds:
            ctx.after(seconds, 0.0)
        else:
            self.woken.append(trio.current_time())


async def sleepy(sim: Simulation) -> AsyncIterator[None]:
    woken.clear()
    for seconds in (3.0, 7.0):
        (await sim.system.spawn(Sleeper, woken, name=f"after{seconds:g}")).tell(seconds)
    yield
    assert len(woken) == 2


woken: list[float] = []


def test_time_passes_from_timer_to_timer() -> None:
    with simulate(sleepy) as sim:
        assert sim.advance(2.9)[-1].kind == "deliver"
        assert (sim.now, woken) == (0, [])
        sim.advance(3.1)
        assert (sim.now, len(woken)) == (3, 1)
        sim.fire()
        assert (sim.now, len(woken)) == (7, 1)
        sim.settle()
        assert len(woken) == 2
        for seconds in (-1, float("nan"), "3"):
            with pytest.raises(OptionRefused, match="time goes forward"):
                sim.advance(seconds)  # type: ignore[arg-type]


@record("steered", version=1)
@dataclass(frozen=True, slots=True)
class Settled:
    rank: int


class Child(Actor[str]):
    def __init__(self, store: Store) -> None:
        self.store = store

    @handles(str)
    async def settle(self, key: str) -> None:
        if self.store.get("record", b"row", Settled) is None:
            for name in (b"row", b"rank"):
                await self.store.commit(partial(write, name))


def write(name: bytes, tx: Tx) -> None:
    tx.put("record", name, Settled(1))


async def boot(sim: Simulation) -> None:
    (await sim.system.spawn(Child, sim.system.store, name="child")).tell("row")


async def two_commits(sim: Simulation) -> AsyncIterator[None]:
    sim.crash_points("journal", budget=1)
    sim.on_boot(boot)
    await boot(sim)
    yield
    assert sim.journal.get("record", b"rank", Settled) is not None, "no rank"


def test_a_crash_comes_when_the_test_says_so() -> None:
    def drive() -> None:
        with simulate(two_commits) as sim:
            sim.deliver("child")
            sim.commit("child")
            assert sim.crash().kind == "crash"
            assert [event.life for event in sim.pending()] == [1]

    with pytest.raises(AssertionError, match="no rank") as caught:
        contextvars.Context().run(drive)
    assert caught.value.__notes__[0].startswith("the crash right after `child`: the commit unit\n")


def test_after_the_end_nothing_can_happen() -> None:
    with simulate(scenario) as sim:
        sim.settle()
        with pytest.raises(NotPending, match="the schedule is over"):
            sim.deliver("a")


def test_a_seed_orders_the_rest() -> None:
    seen: set[tuple[str, ...]] = set()
    for seed in range(8):
        with simulate(scenario, seed=seed) as sim:
            pass
        seen.add(tuple(map(str, sim.steps)))
    assert len(seen) > 1


def test_a_token_of_what_happened_replays_it() -> None:
    with simulate(scenario) as sim:
        sim.deliver("b")
        token = sim.token
    report = explore(scenario, token=token)
    assert report.first_failure is None


def test_an_error_in_the_block_ends_the_run_where_it_is() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), simulate(scenario) as sim:
        sim.deliver("a")
        _ = 1 / 0
    assert threading.active_count() == before
    assert sim.steps[0].target.endswith("a")


def test_what_is_no_scenario_is_refused() -> None:
    async def without_a_yield(sim: Simulation) -> None: ...

    mistaken: Any = without_a_yield
    with pytest.raises(ScenarioRefused), simulate(mistaken):
        pass
    with pytest.raises(OptionRefused), simulate(scenario, seed="x"):  # type: ignore[arg-type]
        pass


def test_a_set_up_that_fails_is_raised_before_the_block() -> None:
    async def broken(sim: Simulation) -> AsyncIterator[None]:
        raise KeyError("set-up")
        yield

    with pytest.raises(KeyError, match="set-up"), simulate(broken):
        pytest.fail("there is nothing to drive")


async def test_simulating_inside_a_run_is_refused() -> None:
    with pytest.raises(RuntimeError, match="simulate makes a trio run"), simulate(scenario):
        pass

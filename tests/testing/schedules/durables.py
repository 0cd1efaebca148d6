"""Scenarios of the durable side: groups, operations, activations, durable actors."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import trio

from trouper import (
    Activation,
    ActivationCancelled,
    ActorStopped,
    Decision,
    DurableActor,
    FenceMoved,
    OutcomeUnknown,
    Request,
    applies,
    decides,
    durable,
    effect,
    race,
)
from trouper.actors import inspect
from trouper.actors.groups import EffectHost
from trouper.actors.operations import Operation, Operations
from trouper.errors import (
    DrainDeferred,
    GroupShapeError,
    OperationForgotten,
    ScopeBusy,
    SignalRefused,
)
from trouper.store import Store, record
from trouper.testing.schedules import Simulation
from trouper.testing.schedules._durable import GatedClock

Scene = AsyncGenerator[None, None]


@effect(name="schedules.answer")
async def answer(which: str) -> str:
    return which


@effect(name="schedules.slow")
async def slow(seconds: float) -> float:
    await trio.sleep(seconds)
    return seconds


@durable(name="schedules.single")
async def single(act: Activation) -> str:
    return await act.call(answer, "a")


@durable(name="schedules.two_steps")
async def two_steps(act: Activation) -> str:
    return await act.call(answer, "a") + await act.call(answer, "b")


@durable(name="schedules.parent")
async def parent(act: Activation) -> str:
    return await act.call(two_steps)


@durable(name="schedules.racer")
async def racer(act: Activation) -> str:
    won = await act.race(act.call(answer, "a"), act.sleep(5), losers="cancel")
    return "answered" if won.position == 0 else "late"


@durable(name="schedules.waiter")
async def waiter(act: Activation) -> list[Any]:
    return [await act.signal("go"), await act.signal("go")]


def crashes(sim: Simulation, start: Callable[[Simulation], None], budget: int = 1) -> None:
    """Let the clients start, in this life and in the next ones."""

    async def boot(sim: Simulation) -> None:
        start(sim)

    sim.crash_points("journal", budget=budget)
    sim.on_boot(boot)
    start(sim)


def check(sim: Simulation) -> None:
    """What holds at the end of every schedule: sound rows, and nothing that runs on or lies."""
    assert sim.journal.findings() == []
    assert sim.system.statistics().running == 0
    rows = cast(Store, sim.journal)
    assert all(group.settled == group.children for group in inspect.groups(rows))


def second_host(sim: Simulation) -> EffectHost:
    """Open another host on the journal of the system, as another system would."""
    gate: Any = sim._gate
    first: Any = sim.system.host
    host = EffectHost(
        sim.system.store, sim.system.dispatcher, first._tasks._nursery, GatedClock(gate),
        sim.system.fail,
    )  # fmt: skip
    host.register(first.resolve)
    return host


# --- groups ---------------------------------------------------------------------------------------


async def group_race_keeps_its_rank(sim: Simulation) -> Scene:
    won: list[Any] = []

    async def client() -> None:
        won.append(await race(sim.system.host, "g", [answer.call("a"), answer.call("b")]))

    crashes(sim, lambda sim: sim.start(client, name="client"))
    yield
    assert won
    assert all(each == won[0] for each in won)
    check(sim)


async def group_cancels_its_losers(sim: Simulation) -> Scene:
    won: list[Any] = []

    async def client() -> None:
        calls = [answer.call("a"), slow.call(1)]
        won.append(await race(sim.system.host, "g", calls, losers="cancel"))

    crashes(sim, lambda sim: sim.start(client, name="client"))
    yield
    assert won
    assert all(each == won[0] for each in won)
    check(sim)


async def group_of_two_hosts(sim: Simulation) -> Scene:
    """Two systems open one group, and both drain it."""
    other = second_host(sim)
    won: list[Any] = []

    async def client(host: EffectHost) -> None:
        calls = [answer.call("a"), slow.call(3)]
        won.append(await race(host, "g", calls, losers="cancel"))

    async def drain() -> None:
        for host in (other, sim.system.host):
            with contextlib.suppress(DrainDeferred, GroupShapeError):
                await host.drain().run("g")

    sim.start(client, sim.system.host, name="client")
    sim.start(client, other, name="other client")
    sim.start(drain, name="drain")
    yield
    assert len(won) == 2
    assert won[0] == won[1]
    assert other.running == 0
    check(sim)


async def group_of_two_hosts_with_a_lease(sim: Simulation) -> Scene:
    """The second one comes when the lease of the first would have ended, were it not renewed."""
    other = second_host(sim)
    won: list[Any] = []

    async def client(host: EffectHost, after: float) -> None:
        await trio.sleep(after)
        won.append(await race(host, "g", [slow.call(40.0)]))

    sim.start(client, sim.system.host, 0.0, name="client")
    sim.start(client, other, 35.0, name="other client")
    yield
    assert len(won) == 2
    assert won[0] == won[1]
    assert other.running == 0
    check(sim)


# --- operations -----------------------------------------------------------------------------------


class Till:
    """What an operation does to the world."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.running = self.most = 0

    async def charge(self, key: str) -> str:
        self.keys.append(key)
        self.running += 1
        self.most = max(self.most, self.running)
        await trio.sleep(1)
        self.running -= 1
        return "paid"


async def operation_across_a_crash(sim: Simulation) -> Scene:
    got: list[str] = []
    tills: list[Till] = []

    def start(sim: Simulation) -> None:
        tills.append(till := Till())  # what ran is gone with its process

        async def client() -> None:
            operation = await sim.system.operation("pay", {"n": 1})
            try:
                got.append(await operation.run(till.charge))
            except OutcomeUnknown:
                got.append("unknown")

        sim.start(client, name="client")

    crashes(sim, start)
    yield
    assert got[-1] == "paid"
    assert {key for till in tills for key in till.keys} == {"pay"}
    assert all(till.most <= 1 for till in tills)
    check(sim)


async def operation_of_two_systems(sim: Simulation) -> Scene:
    till, got = Till(), list[str]()
    other = Operations(second_host(sim))

    async def client(open_operation: Callable[[str, Any], Awaitable[Operation]]) -> None:
        operation = await open_operation("pay", {"n": 1})
        try:
            got.append(await operation.run(till.charge))
        except FenceMoved:
            got.append("fenced")

    sim.start(client, sim.system.operation, name="client")
    sim.start(client, other.open, name="other client")
    yield
    assert till.most == 1
    assert "paid" in got
    check(sim)


async def operation_is_forgotten(sim: Simulation) -> Scene:
    till = Till()

    async def client() -> None:
        operation = await sim.system.operation("pay", {"n": 1})
        with contextlib.suppress(OperationForgotten):
            await operation.run(till.charge)

    async def forgetter() -> None:
        for _ in range(2):
            with contextlib.suppress(ScopeBusy):
                await sim.system.forget("pay")

    sim.start(client, name="client")
    sim.start(client, name="other client")
    sim.start(forgetter, name="forgetter")
    yield
    assert till.most <= 1
    check(sim)


async def operation_and_a_deadline(sim: Simulation) -> Scene:
    till, got = Till(), list[str]()

    async def client(timeout: float) -> None:
        operation = await sim.system.operation("pay", {"n": 1})
        try:
            got.append(await operation.run(till.charge, timeout=timeout))
        except OutcomeUnknown:
            got.append("unknown")

    sim.start(client, 0.5, name="hasty")
    sim.start(client, 10.0, name="patient")
    yield
    assert sorted(got) == ["paid", "unknown"]
    assert till.most == 1
    check(sim)


# --- activations ----------------------------------------------------------------------------------

ALL = [single, two_steps, parent, racer, waiter]


async def activation_is_started_twice(sim: Simulation) -> Scene:
    got: list[str] = []

    async def client() -> None:
        got.append(await sim.system.run(single, key="k"))

    sim.start(client, name="client")
    sim.start(client, name="other client")
    yield
    assert got == ["a", "a"]
    check(sim)


async def _cancelled(sim: Simulation, activity: Any, *, crash: bool) -> Scene:
    got: list[str] = []

    async def client() -> None:
        try:
            got.append(await sim.system.run(activity, key="k"))
        except ActivationCancelled:
            got.append("cancelled")

    async def canceller() -> None:
        sim.system.cancel("k")

    def start(sim: Simulation) -> None:
        sim.start(client, name="client")

    if crash:
        crashes(sim, start)
    else:
        start(sim)
    sim.start(canceller, name="canceller")
    yield
    assert len(set(got)) == 1
    ended = "cancelled" if got[0] == "cancelled" else "completed"
    assert sim.system.status("k") == ended
    rows = cast(Store, sim.journal)
    assert all(view.state in ("completed", "cancelled") for view in inspect.activations(rows))
    check(sim)


def activation_is_cancelled(sim: Simulation) -> Scene:
    return _cancelled(sim, two_steps, crash=False)


def activation_is_cancelled_and_crashes(sim: Simulation) -> Scene:
    return _cancelled(sim, racer, crash=True)


def child_is_cancelled_and_crashes(sim: Simulation) -> Scene:
    return _cancelled(sim, parent, crash=True)


async def activation_is_forgotten_and_crashes(sim: Simulation) -> Scene:
    got: list[str] = []

    async def client() -> None:
        try:
            got.append(await sim.system.run(racer, key="k"))
        except ScopeBusy:
            got.append("busy")

    async def forgetter() -> None:
        with contextlib.suppress(ScopeBusy):
            await sim.system.forget("k")

    def start(sim: Simulation) -> None:
        sim.start(client, name="client")
        sim.start(forgetter, name="forgetter")

    crashes(sim, start)
    yield
    assert set(got) <= {"answered", "busy"}
    check(sim)


async def signals_are_taken_once(sim: Simulation) -> Scene:
    """Each one by one wait, whatever crashes; a repeat under its id changes nothing."""
    got: list[list[int]] = []

    async def client() -> None:
        got.append(await sim.system.run(waiter, key="k"))

    async def sender(n: int) -> None:
        while sim.system.status("k") == "unknown":  # noqa: ASYNC110 - clients do poll
            await trio.sleep(1)
        try:
            await sim.system.signal("k", "go", n, id=f"signal {n}")
        except SignalRefused as refused:
            if refused.reason != "ended":
                raise

    def start(sim: Simulation) -> None:
        sim.start(client, name="client")
        for n in (1, 2):
            sim.start(sender, n, name=f"sender {n}")

    crashes(sim, start)
    yield
    assert all(sorted(each) == [1, 2] and each == got[0] for each in got)
    assert got
    check(sim)


# --- durable actors -------------------------------------------------------------------------------


@record("schedules.put", version=1)
@dataclass(frozen=True, slots=True)
class Put:
    n: int


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    n: int
    idempotency_id: str | None = None


class Account(DurableActor[int, Add], name="schedules.account"):
    initial = 0

    @decides(Add)
    def add(self, total: int, message: Add) -> Decision[Put, int]:
        return Decision([Put(message.n)], reply=total + message.n)

    @applies(Put)
    def put(self, total: int, fact: Put) -> int:
        return total + fact.n


async def durable_actor_of_two_clients(sim: Simulation) -> Scene:
    got: list[int] = []

    async def client(n: int) -> None:
        account = await sim.system.actor(Account, "alice")
        got.append(await account.ask(Add(n)))

    sim.start(client, 1, name="client")
    sim.start(client, 2, name="other client")
    yield
    assert sorted(got) in ([1, 3], [2, 3])
    check(sim)


async def acknowledged(sim: Simulation, *, under_ids: bool) -> Scene:
    got: list[tuple[int, int]] = []

    async def client(n: int) -> None:
        account = await sim.system.actor(Account, "alice")
        idempotency_id = f"add {n}" if under_ids else None
        got.append((n, await account.ask(Add(n, idempotency_id))))

    def start(sim: Simulation) -> None:
        for n in (1, 2):
            if n not in [acknowledged for acknowledged, _ in got]:
                sim.start(client, n, name=f"client {n}")

    crashes(sim, start)
    yield
    facts = [fact.value.n for fact in sim.journal.history("alice")]
    assert sorted(facts) == [1, 2]
    assert sorted(n for n, _ in got) == [1, 2]
    assert all(total == sum(facts[: facts.index(n) + 1]) for n, total in got)
    check(sim)


def durable_actor_keeps_what_it_acknowledged(sim: Simulation) -> Scene:
    return acknowledged(sim, under_ids=True)


def durable_actor_asked_again_without_an_id(sim: Simulation) -> Scene:
    return acknowledged(sim, under_ids=False)


async def durable_actor_is_killed(sim: Simulation) -> Scene:
    """What it says did not happen is not there, and what it answered is."""
    got: dict[int, int | str] = {}

    async def client(n: int) -> None:
        account = await sim.system.actor(Account, "alice")
        try:
            got[n] = await account.ask(Add(n))
        except (ActorStopped, OutcomeUnknown) as error:
            got[n] = type(error).__name__

    async def killer() -> None:
        (await sim.system.actor(Account, "alice")).kill()

    sim.start(client, 1, name="client")
    sim.start(client, 2, name="other client")
    sim.start(killer, name="killer")
    yield
    facts = [fact.value.n for fact in sim.journal.history("alice")]
    assert len(got) == 2
    for n, answered in got.items():
        if answered == "ActorStopped":
            assert n not in facts
        elif isinstance(answered, int):
            assert answered == sum(facts[: facts.index(n) + 1])
    check(sim)

"""Signals on a host directly: kept in order, taken where the wait is ranked, never by a loser."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper import MemoryStore, SignalRefused, effect, open_system
from trouper.actors.groups import (
    Cancelled,
    Completed,
    EffectEnvelope,
    EffectHost,
    EffectHostBase,
    Runner,
    Settlement,
    SignalRow,
    SignalRunner,
    all_of,
    any_of,
    open_group,
    open_host,
    race,
    signal,
    timer,
)
from trouper.errors import EffectGroupsUnsupported, ValueRefused
from trouper.store import Store


@effect
async def give(value: str, seconds: float) -> str:
    await trio.sleep(seconds)
    return value


@pytest.fixture
def store() -> Store:
    return MemoryStore(debug=True)


def waiting(store: Store) -> list[tuple[str, Any]]:
    return [(row.name, row.number) for _, row in store.scan("record", b"Q", SignalRow)]


async def test_a_signal_child_takes_the_oldest_of_its_name(store: Store) -> None:
    async with open_system("s", store=store) as system:
        calls = [signal("a"), signal("b"), signal("a")]
        async with open_group(system.host, "g", calls) as group:
            await wait_all_tasks_blocked()  # all wait: who came to it first is no matter then
            for name, payload in (("a", 1), ("a", 2), ("b", 3)):
                await system.signal("g", name, payload)
            found = [s async for s in group]
        assert [(s.position, s.outcome) for s in found] == [
            (0, Completed(1)),
            (2, Completed(2)),
            (1, Completed(3)),
        ]
    async with open_system("s", store=store) as system:
        assert await all_of(system.host, "g", calls[:0]) == []
        async with open_group(system.host, "g", calls) as group:
            assert [s async for s in group] == found


async def test_two_signals_of_one_tick_go_to_the_waits_by_position(store: Store) -> None:
    async with open_system("s", store=store) as system:
        calls = [timer(1000), signal("a"), signal("a")]
        async with open_group(system.host, "g", calls) as group:
            await wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(system.signal, "g", "a", 1)
                nursery.start_soon(system.signal, "g", "a", 2)
            first = [await group.__anext__(), await group.__anext__()]
        assert [s.position for s in first] == [1, 2]
        assert {s.outcome for s in first} == {Completed(1), Completed(2)}


@pytest.mark.parametrize("losers", ["run_to_completion", "cancel"])
async def test_a_wait_ends_with_the_interest_in_its_group_and_takes_nothing(
    store: Store, losers: Any
) -> None:
    async with open_system("s", store=store) as system:
        host = system.host
        won = await race(host, "g", [give.call("quick", 0), signal("a")], losers=losers)
        assert won.position == 0
        await wait_all_tasks_blocked()
        async with open_group(
            host, "g", [give.call("quick", 0), signal("a")], wake="first", losers=losers
        ) as group:
            assert [s.outcome async for s in group] == [Completed("quick"), Cancelled()]
        with pytest.raises(SignalRefused, match="no group is open"):
            await system.signal("g", "a", 1)


async def test_a_wait_that_a_crash_left_in_a_closed_group_is_cancelled_by_the_drain(
    store: MemoryStore,
) -> None:
    calls: Any = [give.call("quick", 0), signal("a")]
    async with open_system("s", store=store, shutdown=0) as system:
        handle = await _opened(system.host, calls)
        await system.host.next_settlement(handle)
    async with open_host(store) as bare:  # it closes, and nobody here can wait for signals
        bare.register(lambda envelope: None)
        handle.closes = 0
        await bare.close_group(handle, open_group(bare, "g", calls).group.disposition)
    async with open_system("s", store=store) as system:
        handle = await _opened(system.host, calls, consumed=1)
        assert (await system.host.next_settlement(handle)).outcome == Cancelled()


async def _opened(host: EffectHost, calls: Any, consumed: int = 0) -> Any:
    return await host.open_group(open_group(host, "g", calls).group, consumed=consumed)


async def test_a_signal_survives_the_host_and_wakes_waits_of_another(store: Store) -> None:
    async with store, open_waiting(store) as one, open_waiting(store) as two:
        calls = [signal("a"), signal("b")]
        first = await _opened(one, calls)
        assert (await _opened(two, calls)).key == "g"
        await wait_all_tasks_blocked()
        await two.signal("g", "a", "by the other")
        assert (await one.next_settlement(first)).outcome == Completed("by the other")
        await two.signal("g", "c", "never taken")
    async with store, open_waiting(store) as host:
        again = await _opened(host, calls, consumed=1)
        await host.signal("g", "b", 2)
        assert (await host.next_settlement(again)).outcome == Completed(2)
        assert waiting(store) == [("c", 0)]
        await host.close_group(again, open_group(host, "g", calls).group.disposition)
        await host.retire_scope("g")
        for table in ("record", "group", "settle"):
            assert store.scan(table, b"", object) == []


def open_waiting(store: Store) -> Any:
    def resolve(envelope: EffectEnvelope) -> Runner | None:
        return SignalRunner(store, envelope) if envelope.kind == "signal" else None

    return open_host(store, resolve, shutdown=0)


async def test_any_of_takes_the_name_that_comes(store: Store) -> None:
    async with open_system("s", store=store) as system, trio.open_nursery() as nursery:
        found: list[Any] = []

        async def wait() -> None:
            found.append(await any_of(system.host, "g", [signal("yes"), signal("no")]))

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        await system.signal("g", "no", {"why": "late"})
        while not found:
            await trio.lowlevel.checkpoint()
    assert (found[0].position, found[0].value) == (1, {"why": "late"})


async def test_a_wait_after_its_deadline_leaves_the_signal(
    store: Store, autojump_clock: MockClock
) -> None:
    async with (
        open_system("s", store=store) as system,
        open_group(system.host, "g", [signal("a"), timer(3)], wake="first") as group,
    ):
        assert (await group.__anext__()).position == 1
        await system.signal("g", "a", 1)  # still open: rank 2 is served under any policy
        late: Settlement = await group.__anext__()
        assert (late.position, late.outcome) == (0, Completed(1))


async def test_execute_waits_for_timers_and_signals_too(
    store: Store, autojump_clock: MockClock
) -> None:
    async with open_system("s", store=store) as system:
        host = system.host
        before = host.now()
        await host.execute(timer(5).envelope("lone", "lone/0"))
        assert host.now() - before >= 5
        async with open_group(host, "lone", [timer(1000)]), trio.open_nursery() as nursery:
            found: list[Any] = []

            async def wait(number: int) -> None:
                found.append(await host.execute(signal("a").envelope("lone", f"lone/{number}")))

            nursery.start_soon(wait, 1)
            nursery.start_soon(wait, 2)
            await host.signal("lone", "a", 1)
            await host.signal("lone", "a", 2)
        assert sorted(end.value for end in found) == [1, 2]


async def test_who_does_no_groups_takes_no_signals(store: Store) -> None:
    async with store, open_host(store) as unwired:
        for host in (unwired, EffectHostBase()):
            with pytest.raises(EffectGroupsUnsupported):
                await host.signal("g", "a")
        assert store.scan("record", b"", object) == []


def test_a_name_that_is_none_is_refused() -> None:
    for name in ("", 3):
        with pytest.raises(ValueRefused, match="the name of a signal is a text"):
            signal(name)  # type: ignore[arg-type]

"""`.order` of an aggregate: the positions by rank, the same for everyone who ever looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from trouper import Activation, durable, effect, open_system
from trouper.actors.groups import (
    GROUP_TABLE,
    Gathered,
    GatheredTuple,
    GroupRow,
    Rank,
    _combinators,
    all_of,
    all_settled,
)
from trouper.store import MemoryStore, Store

SEEN: list[tuple[Any, ...]] = []
GATES: list[trio.Event] = []
LOG: Any = None


@pytest.fixture(autouse=True)
def afresh(log: Any) -> None:
    global LOG
    LOG = log
    SEEN.clear()
    shut()


def shut() -> None:
    """Shut the gates of a new life."""
    GATES[:] = [trio.Event() for _ in range(4)]


@effect
async def gated(position: int, size: int) -> bytes:
    LOG.append(("begun", position))
    await GATES[position].wait()
    LOG.append(("over", position))
    return bytes([position]) * size


@effect
async def timed(name: str, seconds: float) -> str:
    await trio.sleep(seconds)
    if name == "fails":
        raise LookupError(name)
    return name


@durable
async def gathers(act: Activation, size: int) -> list[bytes]:
    found = await act.all_of(*[act.call(gated, n, size) for n in range(3)])
    ends = await act.all_settled(act.call(timed, "fails", 2.0), act.call(timed, "quick", 1.0))
    SEEN.append((found, found.order, ends, ends.order))
    await act.call(gated, 3, 1)
    return found


async def let_end(*positions: int) -> None:
    """Let children end one after the other, each in a tick of its own."""
    for position in positions:
        await LOG.until(("begun", position))
        GATES[position].set()
        await LOG.until(("over", position))


async def look_in_two_lives(store: Store, size: int = 1) -> None:
    """Crash between the first end and the others, and again behind all of them."""
    async with open_system("t", store=store, shutdown=0) as system:
        system.start(gathers, size, key="k")
        await LOG.until(("begun", 0), ("begun", 1), ("begun", 2))
        await let_end(2)
        await ranked(store, 1)
        crash(store)
    LOG.clear()
    shut()
    async with open_system("t", store=store, shutdown=0) as system:
        system.start(gathers, size, key="k")
        await let_end(1, 0)
        await LOG.until(("begun", 3))
        crash(store)
    async with open_system("t", store=store) as system:
        GATES[3].set()
        result = await system.run(gathers, size, key="k")
    first, again = SEEN
    assert first == again
    assert first[1] == (2, 1, 0)
    assert first[3] == (1, 0)
    assert result == first[0]
    assert type(result) is list, "the journal carries the list that it equals"


async def ranked(store: Store, count: int) -> None:
    """Wait until so many children of the group are settled for good."""
    with trio.fail_after(10):
        while sum(row.counter for _, row in store.scan(GROUP_TABLE, b"G", GroupRow)) < count:
            await store.commit(lambda tx: None)


def crash(store: Store) -> None:
    if isinstance(store, MemoryStore):
        store.crash()


@pytest.mark.parametrize("size", [1, 40_000], ids=["in-the-step", "in-the-group"])
async def test_order_is_that_of_the_ranks_also_after_a_crash_and_on_replay(
    autojump_clock: MockClock, store: Store, size: int
) -> None:
    await look_in_two_lives(store, size)


async def test_the_order_of_the_arguments_would_be_noticed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = _combinators._gathered

    def in_argument_order(ranks: list[Rank], results: Iterable[Any]) -> Gathered[Any]:
        found = sound(ranks, results)
        return Gathered(found, sorted(found.order))

    monkeypatch.setattr(_combinators, "_gathered", in_argument_order)
    with pytest.raises(AssertionError):
        await look_in_two_lives(MemoryStore())


async def test_a_late_caller_on_a_host_sees_the_same_order(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [timed.call("a", 3.0), timed.call("b", 1.0), timed.call("c", 2.0)]
    pair = (timed.call("slow", 2.0), timed.call("quick", 1.0))
    for _ in range(2):
        async with open_system("t", store=store) as system:
            found = await all_of(system.host, "all", calls)
            assert (found, found.order) == (["a", "b", "c"], (1, 2, 0))
            both = await all_of(system.host, "pair", pair)
            assert (both, both.order) == (("slow", "quick"), (1, 0))
            ends = await all_settled(system.host, "ends", [timed.call("fails", 2.0), calls[1]])
            assert ends.order == (1, 0)
            assert (await all_of(system.host, "none", [])).order == ()


@durable
async def of_nothing(act: Activation) -> list[list[int]]:
    return [list((await act.all_of()).order), list((await act.all_settled()).order)]


@durable
async def hands_on(act: Activation) -> dict[str, Any]:
    found = await act.all_of(act.call(timed, "a", 2.0), act.call(timed, "b", 1.0))
    again = await act.call(takes, found, {"inside": found})
    return {"found": found, "again": again, "order": list(found.order)}


@effect
async def takes(names: list[str], more: dict[str, Any]) -> list[str]:
    assert type(names) is type(more["inside"]) is list
    return names + more["inside"]


async def test_aggregates_of_nothing_have_an_empty_order(store: Store) -> None:
    async with open_system("t", store=store) as system:
        assert await system.run(of_nothing, key="k") == [[], []]


async def test_what_an_aggregate_gave_may_be_handed_on_and_returned(
    autojump_clock: MockClock, store: Store
) -> None:
    for _ in range(2):
        async with open_system("t", store=store) as system:
            result = await system.run(hands_on, key="k")
        assert result == {"found": ["a", "b"], "again": ["a", "b", "a", "b"], "order": [1, 0]}
        assert type(result["found"]) is list


async def test_of_different_calls_on_a_host_it_is_a_tuple(autojump_clock: MockClock) -> None:
    async with open_system("t") as system:
        found = await all_of(system.host, "k", (timed.call("a", 1.0), timed.call("b", 1.0)))
    assert type(found) is GatheredTuple

"""Combinators on a host directly: the same ranks and the same answer, whoever asks and how late."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper import ActorSystem, EffectContext, LmdbStore, MemoryStore, effect, open_system
from trouper.actors.groups import (
    Cancelled,
    Completed,
    EffectHostBase,
    Failed,
    Settlement,
    Won,
    all_of,
    all_settled,
    any_of,
    move_on_after,
    open_group,
    race,
    signal,
    timer,
)
from trouper.errors import (
    EffectFailed,
    EffectGroupsUnsupported,
    EmptyGroup,
    GroupRetired,
    GroupShapeError,
    MembershipDropped,
    ReplayMismatch,
    ValueRefused,
)
from trouper.store import Store

RUNS: list[str] = []


@pytest.fixture(autouse=True)
def no_runs() -> None:
    RUNS.clear()


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore(debug=True) if request.param == "memory" else LmdbStore(tmp_path / "store")


@effect
async def answer(name: str, seconds: float) -> str:
    RUNS.append(name)
    await trio.sleep(seconds)
    return name


@effect
async def fail(name: str, seconds: float) -> str:
    RUNS.append(name)
    await trio.sleep(seconds)
    raise LookupError(name)


@dataclass(frozen=True)
class Receipt:
    line: str


@effect
async def receipt(ctx: EffectContext, line: str) -> Receipt:
    RUNS.append(ctx.key)
    return Receipt(line)


async def ranks(
    system: ActorSystem, key: str, calls: list[Any], **declared: Any
) -> list[Settlement]:
    async with open_group(system.host, key, calls, **declared) as group:
        return [settlement async for settlement in group]


async def test_the_first_settlement_wins_a_race_and_the_losers_run_on(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [answer.call("slow", 2.0), answer.call("quick", 1.0)]
    async with open_system("s", store=store) as system:
        assert await race(system.host, "r", calls) == Won(1, "quick", 1)
        settled = await ranks(system, "r", calls, wake="first")
    assert [(s.rank, s.position, s.outcome) for s in settled] == [
        (1, 1, Completed("quick")),
        (2, 0, Completed("slow")),
    ]


async def test_a_race_may_cancel_its_losers_whose_terminal_is_a_later_rank(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [answer.call("slow", 9.0), answer.call("quick", 1.0)]
    async with open_system("s", store=store) as system:
        assert (await race(system.host, "r", calls, losers="cancel")).value == "quick"
        settled = await ranks(system, "r", calls, wake="first", losers="cancel")
        assert trio.current_time() < 9.0
    assert [type(s.outcome) for s in settled] == [Completed, Cancelled]


async def test_the_first_success_wins_any_of_and_all_failures_come_in_input_order(
    autojump_clock: MockClock, store: Store
) -> None:
    async with open_system("s", store=store) as system:
        calls = [fail.call("a", 1.0), answer.call("b", 2.0)]
        assert await any_of(system.host, "one", calls) == Won(1, "b", 2)
        with pytest.raises(ExceptionGroup) as raised:
            await any_of(system.host, "none", [fail.call("late", 2.0), fail.call("early", 1.0)])
    assert [str(e) for e in raised.value.exceptions] == ["LookupError: late", "LookupError: early"]
    assert all(isinstance(error, EffectFailed) for error in raised.value.exceptions)


async def test_all_of_gives_values_in_input_order_and_raises_the_first_failure_by_rank(
    autojump_clock: MockClock, store: Store
) -> None:
    async with open_system("s", store=store) as system:
        host = system.host
        assert await all_of(host, "l", [answer.call("x", 2.0), answer.call("y", 1.0)]) == ["x", "y"]
        assert await all_of(host, "t", (receipt.call("tea"), timer(1.0))) == (Receipt("tea"), None)
        with pytest.raises(EffectFailed, match="early"):
            await all_of(host, "f", [fail.call("late", 2.0), fail.call("early", 1.0)])


async def test_all_settled_raises_nothing_and_keeps_input_order(
    autojump_clock: MockClock, store: Store
) -> None:
    async with open_system("s", store=store) as system:
        outcomes = await all_settled(system.host, "k", [fail.call("a", 2.0), receipt.call("b")])
    assert isinstance(outcomes[0], Failed)
    assert outcomes[1] == Completed(Receipt("b"))


async def test_a_deadline_cancels_the_work_it_overtakes(
    autojump_clock: MockClock, store: Store
) -> None:
    async with open_system("s", store=store) as system:
        won = await move_on_after(system.host, "in time", 5.0, answer.call("a", 1.0))
        assert won == Won(0, "a", 1)
        assert await move_on_after(system.host, "late", 1.0, answer.call("b", 5.0)) is None


async def test_the_same_answer_comes_again_and_nothing_runs_again(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [answer.call("a", 1.0), answer.call("b", 1.5)]
    for _ in range(2):
        async with open_system("s", store=store) as system:
            for _ in range(2):
                assert await race(system.host, "k", calls) == Won(0, "a", 1)
            assert len(await ranks(system, "k", calls, wake="first")) == len(calls)
    assert sorted(RUNS) == ["a", "b"]


async def test_two_callers_of_one_key_get_the_same_answer(
    autojump_clock: MockClock, store: Store
) -> None:
    """The one that decides first closes the group under the other."""
    found: list[list[str]] = []
    calls = [answer.call("a", 1.0), answer.call("b", 2.0)]
    async with open_system("s", store=store) as system:

        async def ask() -> None:
            found.append(await all_of(system.host, "k", calls))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
    assert found == [["a", "b"]] * 3
    assert sorted(RUNS) == ["a", "b"]


async def test_a_cancelled_wait_leaves_the_group_open_to_go_on(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [answer.call("a", 1.0), answer.call("b", 3.0)]
    async with open_system("s", store=store) as system:
        with trio.move_on_after(2.0) as scope:
            await all_of(system.host, "k", calls)
        assert scope.cancelled_caught
        assert await all_of(system.host, "k", calls) == ["a", "b"]
    assert sorted(RUNS) == ["a", "b"]


async def test_a_group_goes_on_at_its_cursor_in_the_next_system(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [answer.call("a", 1.0), answer.call("b", 3.0)]
    async with open_system("s", store=store) as system:
        with trio.CancelScope() as scope:
            async with open_group(system.host, "k", calls) as group:
                assert (await anext(group)).position == 0
                cursor = group.handle.consumed
                scope.cancel()
                await trio.sleep_forever()
    async with (
        open_system("s", store=store) as system,
        open_group(system.host, "k", calls, consumed=cursor) as group,
    ):
        assert [s.position async for s in group] == [1]
    assert RUNS.count("a") == 1


async def test_an_error_in_the_block_closes_the_group_as_declared(
    autojump_clock: MockClock, store: Store
) -> None:
    calls = [answer.call("a", 50.0)]
    async with open_system("s", store=store) as system:
        with pytest.raises(ZeroDivisionError):
            async with open_group(system.host, "k", calls, losers="cancel"):
                await wait_all_tasks_blocked()
                raise ZeroDivisionError
        settled = await ranks(system, "k", calls, losers="cancel")
    assert isinstance(settled[0].outcome, Cancelled)


async def test_other_calls_under_a_used_key_are_refused(
    autojump_clock: MockClock, store: Store
) -> None:
    async with open_system("s", store=store) as system:
        await race(system.host, "k", [answer.call("a", 1.0)])
        with pytest.raises(ReplayMismatch):
            await race(system.host, "k", [answer.call("other", 1.0)])
        with pytest.raises(GroupShapeError):
            await race(system.host, "k", [answer.call("a", 1.0), timer(1)])
        await system.host.retire("k")
        with pytest.raises(GroupRetired):
            await race(system.host, "k", [answer.call("a", 1.0)])


async def test_what_could_never_settle_is_refused_at_the_line() -> None:
    async with open_system("s", effects=[answer]) as system:
        host = system.host
        for one in (race, any_of):
            with pytest.raises(EmptyGroup):
                await one(host, "k", [])
        assert await all_of(host, "k", []) == []
        assert await all_settled(host, "k", []) == []
        with pytest.raises(ValueError, match="losers"):
            await race(host, "k", [timer(1)], losers="drop")  # type: ignore[arg-type]
        with pytest.raises(GroupShapeError, match="first_success"):
            open_group(host, "k", [timer(1)], wake="soon")  # type: ignore[arg-type]
        with pytest.raises(ValueRefused):
            answer.call("a", object())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="answer"):
            answer.call("a")  # type: ignore[call-arg]
        for seconds in (-1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="finite"):
                timer(seconds)
        with pytest.raises(RuntimeError, match="inside its"):
            open_group(host, "k", [timer(1)]).handle  # noqa: B018


@pytest.mark.parametrize("key", ["", "  "])
async def test_a_blank_key_is_refused_by_its_name_with_what_to_do(key: str) -> None:
    """As a variable is that was never set: nothing could be found again under it."""
    async with open_system("s", effects=[answer]) as system:
        host = system.host

        async def opened() -> None:
            async with open_group(host, key, [timer(1)]):
                raise AssertionError("it opened")

        verbs: dict[str, list[Callable[[], Awaitable[Any]]]] = {
            "a group": [
                lambda: race(host, key, [timer(1)]),
                lambda: any_of(host, key, [timer(1)]),
                lambda: all_of(host, key, [timer(1)]),
                lambda: all_of(host, key, []),
                lambda: all_settled(host, key, [timer(1)]),
                lambda: move_on_after(host, key, 1, timer(1)),
                opened,
                lambda: host.retire(key),
                lambda: host.drain().run(key),
            ],
            "a scope": [lambda: host.retire_scope(key), lambda: host.signal(key, "go")],
            "an activation": [lambda: system.signal(key, "go"), lambda: system.forget(key)],
        }
        for what, calls in verbs.items():
            says = f"^{what} takes a text as its key, not {key!r}: it is blank; give one under"
            for call in calls:
                with pytest.raises(ValueRefused, match=says) as raised:
                    await call()
                assert raised.value.path == "key"


async def test_a_host_without_groups_refuses() -> None:
    with pytest.raises(EffectGroupsUnsupported):
        await race(EffectHostBase(), "k", [timer(1)])


async def test_a_timer_that_passed_meanwhile_fires_at_once_behind_what_was_recorded(
    store: Store, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [timer(5), answer.call("quick", 0), timer(1000)]
    async with open_system("s", store=store, shutdown=0) as system:
        host = system.host
        handle = await host.open_group(open_group(host, "g", calls).group)
        assert (await host.next_settlement(handle)).position == 1
    later = time.time() + 60  # nobody has it open when it is due
    monkeypatch.setattr(time, "time", lambda: later)
    async with open_system("s", store=store, shutdown=0) as system:
        host, began = system.host, trio.current_time()
        handle = await host.open_group(open_group(host, "g", calls).group)
        found = [await host.next_settlement(handle) for _ in range(2)]
        assert [settled.position for settled in found] == [1, 0]
        assert trio.current_time() == began


@pytest.mark.parametrize("kind", ["timer", "signal"])
async def test_membership_is_never_dropped_on_the_way_to_a_shortcut(
    store: Store, kind: str
) -> None:
    call: Any = timer(0) if kind == "timer" else signal("a")
    async with open_system("s", store=store) as system:
        child = open_group(system.host, "g", [call]).group.children[0]
        with pytest.raises(MembershipDropped, match=r"'g/0'.*'g'") as refused:
            await system.host.execute(child)
        assert refused.value.facts["key"] == "g"
        assert store.scan("record", b"", object) == []

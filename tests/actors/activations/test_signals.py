"""Signals to durable functions: journaled when they come, taken once, by the oldest wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from trouper import Activation, MemoryStore, SignalRefused, SignalsFull, durable, effect
from trouper import open_system as open_plain_system
from trouper.actors import inspect
from trouper.actors.groups import Completed, EffectGroup, open_group, signal
from trouper.errors import ActivationCancelled, ShuttingDown, StoreClosed, TooLarge, ValueRefused
from trouper.store import LmdbStore as Lmdb
from trouper.store import Store, check

from .conftest import Log

LOG: Any = None


@pytest.fixture(autouse=True)
def own_log(log: Log) -> None:
    global LOG
    LOG = log


def open_system(store: Store, **options: Any) -> Any:
    return open_plain_system("shop", store=store, shutdown=0, **options)


@effect
async def note(what: Any) -> Any:
    LOG.append(what)
    return what


@effect
async def hang() -> None:
    LOG.append("hangs")
    await trio.sleep_forever()


@durable
async def approval(act: Activation, names: list[str]) -> list[Any]:
    return [await act.call(note, await act.wait_signal(name)) for name in names]


@durable
async def raced(act: Activation, seconds: float) -> list[Any]:
    won = await act.race(act.wait_signal("go"), act.sleep(seconds), losers="cancel")
    await act.call(note, won.position)
    return [won.position, won.value, await act.wait_signal("go")]


async def test_a_step_takes_the_oldest_signal_of_its_name(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(approval, ["a", "b", "a"], key="k")
        for name, payload in (("a", 1), ("a", 2), ("b", [3])):
            await system.signal("k", name, payload)
        assert await handle.result() == [1, [3], 2]


async def test_a_signal_may_come_before_and_behind_its_wait(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(approval, ["a", "b"], key="k")
        await handle.signal("a", "early")
        await LOG.until("early")
        await trio.testing.wait_all_tasks_blocked()
        await handle.signal("b", "late")
        assert await handle.result() == ["early", "late"]


async def test_a_signal_outlives_its_system_and_is_taken_once(store: Store) -> None:
    async with open_system(store) as system:
        system.start(approval, ["a", "a", "b"], key="k")
        await system.signal("k", "a", 1)
        await LOG.until(1)
        await system.signal("k", "b", 3)
    async with open_system(store) as system:
        await system.signal("k", "a", 2)
        assert await system.start(approval, ["a", "a", "b"], key="k").result() == [1, 2, 3]
    assert list(LOG) == [1, 2, 3]


async def test_nothing_is_kept_for_who_can_never_take_it(store: Store) -> None:
    async with open_system(store) as system:
        with pytest.raises(SignalRefused, match="no activation has this key") as unknown:
            await system.signal("nobody", "a")
        assert unknown.value.reason == "unknown"
        assert await system.run(approval, [], key="k") == []
        with pytest.raises(SignalRefused, match="has ended") as ended:
            await system.signal("k", "a")
        assert (ended.value.reason, ended.value.key, ended.value.name) == ("ended", "k", "a")


async def test_an_id_makes_a_repeat_harmless_also_when_it_was_taken(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(approval, ["a", "a"], key="k")
        await system.signal("k", "a", 1, id="one")
        await system.signal("k", "a", 1, id="one")
        await LOG.until(1)
        await system.signal("k", "a", 1, id="one")
        with pytest.raises(SignalRefused, match="'one'") as another:
            await system.signal("k", "a", 2, id="one")
        assert another.value.reason == "id"
        await system.signal("k", "a", 2, id="two")
        assert await handle.result() == [1, 2]
        await system.signal("k", "a", 2, id="two")  # its sender never heard of the first


async def test_so_many_wait_and_no_more(store: Store) -> None:
    async with open_system(store, signal_limit=2) as system:
        handle = system.start(approval, ["b", "a", "a", "a"], key="k")
        await system.signal("k", "a", 1)
        await system.signal("k", "a", 2)
        with pytest.raises(SignalsFull, match="signal_limit=") as full:
            await system.signal("k", "a", 3)
        assert (full.value.limit, full.value.name) == (2, "a")
        await system.signal("k", "b", 0)  # each name has its own room
        await LOG.until(0, 1)
        await LOG.until(2)
        await system.signal("k", "a", 3)
        assert await handle.result() == [0, 1, 2, 3]


async def test_a_key_that_looks_like_a_run_has_signals_of_its_own(store: Store) -> None:
    async with open_system(store) as system:
        odd, plain = (system.start(approval, ["a"], key=key) for key in ("order#5", "order"))
        await system.signal("order", "a", "plain")
        await system.signal("order#5", "a", "odd")
        assert (await odd.result(), await plain.result()) == (["odd"], ["plain"])
        async with open_group(system.host, "order#6", [signal("a")]) as group:
            await system.signal("order#6", "a", "on a host")
            assert (await group.__anext__()).outcome == Completed("on a host")


async def test_a_group_opened_by_hand_in_a_scope_shares_its_signals(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(approval, ["b", "a"], key="k")
        await handle.signal("b", 0)
        await LOG.until(0)
        envelope = signal("c").envelope("k#0", "by hand/0")
        group = EffectGroup.of("by hand", [envelope])
        by_hand = await system.host.open_group(group)
        await system.host.signal("k#0", "c", 1)
        assert (await system.host.next_settlement(by_hand)).outcome == Completed(1)
        await system.signal("k", "a", 2)
        assert await handle.result() == [0, 2]


async def test_what_no_journal_carries_is_refused_at_the_sender(store: Store) -> None:
    async with open_system(store) as system:
        system.start(approval, ["a"], key="k")
        with pytest.raises(ValueRefused, match=r"payload\['x'\]"):
            await system.signal("k", "a", {"x": {1}})
        with pytest.raises(ValueRefused, match="a signal"):
            await system.signal("k", " ")
        with pytest.raises(ValueRefused, match="the id of a signal"):
            await system.signal("k", "a", id="")
        with pytest.raises(TooLarge, match="keep it outside"):
            await system.signal("k", "a", "x" * (1 << 21))
        with pytest.raises(ValueError, match="signal_limit"):
            async with open_system(MemoryStore(), signal_limit=0):
                pass


async def test_a_signal_decides_a_race_and_a_late_one_is_left_for_the_next_wait(
    store: Store, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_system(store) as system:
        first = system.start(raced, 60, key="in time")
        await first.signal("go", "x")
        await first.signal("go", "y")
        assert await first.result() == [0, "x", "y"]
        second = system.start(raced, 5, key="late")
        await LOG.until(1)
        await second.signal("go", "z")
        assert await second.result() == [1, None, "z"]


@durable
async def decided(act: Activation) -> list[Any]:
    """The effect wins; the signal is taken as rank 2, before the function has its turn."""
    won = await act.race(act.call(note, "won"), act.wait_signal("go"))
    return [won.value, await act.wait_signal("go")]


async def test_a_loser_takes_no_signal_from_the_next_wait(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(decided, key="k")
        await handle.signal("go", 1)  # may tie with the effect: either way it is not lost
        await handle.signal("go", 2)
        assert (await handle.result())[1] in (1, 2)
        again = system.start(decided, key="l")
        await LOG.until("won")
        await trio.testing.wait_all_tasks_blocked()
        await again.signal("go", 3)
        assert await again.result() == ["won", 3]


@durable
async def collected(act: Activation) -> list[Any]:
    both = await act.all_of(act.wait_signal("a"), act.wait_signal("a"))
    some = await act.any_of(act.wait_signal("b"), act.wait_signal("c"))
    ends = await act.all_settled(act.wait_signal("d"), act.call(note, 0))
    return [sorted(both), some.position, some.value, len(ends)]


async def test_signals_are_children_of_every_combinator(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(collected, key="k")
        for name, payload in (("a", 1), ("a", 2), ("c", 3), ("d", 4)):
            await handle.signal(name, payload)
        assert await handle.result() == [[1, 2], 1, 3, 2]
        while any(group.state != "retired" for group in inspect.groups(store)):
            await trio.lowlevel.checkpoint()  # the wait for "b" lost, and ends as cancelled
        await system.forget("k")
        assert store.scan("record", b"", object) == []


@durable
async def outrun(act: Activation) -> Any:
    try:
        await act.race(act.wait_signal("go"), act.call(hang))
    finally:
        await act.call(note, "cleaning")
        await act.call(note, await act.wait_signal("clean"))
    return None


async def test_a_cancelled_wait_takes_nothing(store: Store) -> None:
    async with open_system(store) as system:
        handle = system.start(outrun, key="k")
        await LOG.until("hangs")
        handle.cancel()
        await LOG.until("cleaning")
        await handle.signal("go", "too late")
        await handle.signal("clean", "cleaned")
        with pytest.raises(ActivationCancelled):
            await handle.result()
        assert "cleaned" in LOG
        left = [(each.name, each.payload) for each in inspect.signals(store)]
        assert left == [("go", "too late")]


@durable
async def in_time(act: Activation, seconds: float) -> Any:
    won = await act.move_on_after(seconds, act.wait_signal("go"))
    return None if won is None else won.value


async def test_move_on_after_is_a_race_with_a_timer(
    store: Store, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_system(store) as system:
        assert await system.run(in_time, 5, key="late") is None
        handle = system.start(in_time, 5, key="early")
        await handle.signal("go", "now")
        assert await handle.result() == "now"
    async with open_system(store) as system:
        assert await system.run(in_time, 5, key="late") is None


@durable
async def crossing(act: Activation) -> list[Any]:
    """What the crash test drives: a step, a race that a signal loses, one that it wins."""
    first = await act.wait_signal("go")
    lost = await act.race(act.call(note, "quick"), act.wait_signal("go"))
    won = await act.race(act.wait_signal("go"), act.call(hang), losers="cancel")
    return [first, lost.value, won.value]


@pytest.mark.parametrize("point", ["before_commit", "committed", "acknowledged"])
async def test_a_crash_at_any_commit_loses_no_signal_and_takes_none_twice(point: str) -> None:
    crashes = 0
    for number in range(1, 80):
        store = MemoryStore(max_batch=1)
        if not await _crash_at(store, point, number):
            break
        crashes += 1
        async with open_system(store) as system:
            handle = system.start(crossing, key="k")
            for payload in (1, 2):
                try:
                    await handle.signal("go", payload, id=str(payload))
                except SignalRefused:
                    break  # it had ended
            with trio.fail_after(20):
                assert await handle.result() == [1, "quick", 2]
    assert crashes > 6


async def _crash_at(store: MemoryStore, point: str, number: int) -> bool:
    passed, scope, token = 0, trio.CancelScope(), trio.lowlevel.current_trio_token()

    def probe(at: str) -> None:
        nonlocal passed
        passed += at == point
        if at == point and passed == number:
            store.crash()
            token.run_sync_soon(scope.cancel)

    store.probe = probe
    with scope:
        try:
            async with open_system(store) as system:
                handle = system.start(crossing, key="k")
                for payload in (1, 2):
                    await handle.signal("go", payload, id=str(payload))
                await handle.result()
                store.probe = None  # a crash of a system that closes is nobody's to see here
        except* (StoreClosed, ShuttingDown):
            pass
    store.probe = None
    return passed >= number


async def test_the_rows_of_signals_are_sound(tmp_path: Any) -> None:
    from trouper.actors.inspect import INVARIANTS

    async with open_system(Lmdb(tmp_path / "s")) as system:
        handle = system.start(raced, 1000, key="k")
        await handle.signal("go", 1)
        await handle.signal("other", 1, id="x")
        await LOG.until(0)
    report = await trio.to_thread.run_sync(lambda: check(tmp_path / "s", invariants=INVARIANTS))
    assert report.ok, report.findings

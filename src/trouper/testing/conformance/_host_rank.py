"""Laws of ranks, cursors and what a crash leaves of them."""

from __future__ import annotations

import trio
import trio.testing

from ...actors.groups import Cancelled, Completed, Failed, GroupHandle, Settlement
from ...errors import HandleBusy, Reject, TrouperError
from ._host_bench import HostBench
from ._host_cast import Cast, order, refused, rest


class Declined(Reject):
    """A registered error with facts of its own."""

    def __init__(self, amount: float) -> None:
        super().__init__(f"declined: {amount}", amount=amount)


async def a_late_caller_sees_settlement_order(bench: HostBench) -> None:
    """Not the order of the arguments, and on every handle anew."""
    cast = Cast(bench.key("late"), 4)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        early = await host.open_group(cast.group())
        await cast.finish_in_turn(2, 0, 3, 1)
        found = await rest(host, early)
        assert [settlement.position for settlement in found] == [2, 0, 3, 1]
        assert [settlement.rank for settlement in found] == [1, 2, 3, 4]
        assert [settlement.outcome for settlement in found] == [
            Completed(position * 10) for position in (2, 0, 3, 1)
        ]
        late = await host.open_group(cast.group())
        assert await rest(host, late) == found


async def position_breaks_ties_within_one_tick(bench: HostBench) -> None:
    """What ends in one tick of the loop is a tie, whatever order the loop ran it in."""
    for number in range(4):  # trio shuffles tasks: one round could be lucky
        cast = Cast(bench.key(f"tie {number}"), 6)
        async with bench.runtime() as life:
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group())
            await cast.begun()
            cast.finish(5, 3, 4, 1, 0, 2)
            assert await order(host, handle) == [0, 1, 2, 3, 4, 5]


async def arrival_decides_across_ticks(bench: HostBench) -> None:
    """However the position order is."""
    cast = Cast(bench.key("arrival"), 5)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.begun()
        await cast.finish_in_turn(4, 2, 3, 0, 1)
        assert await order(host, handle) == [4, 2, 3, 0, 1]


async def arrivals_behind_a_flush_keep_the_order_of_their_ticks(bench: HostBench) -> None:
    """Rank never depends on how many ends share one flush (ruling 1)."""
    cast = Cast(bench.key("flush"), 6)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.begun()
        with life.hold():
            await cast.finish_in_turn(5)
            await trio.testing.wait_all_tasks_blocked()  # its unit waits for the flush
            await cast.finish_in_turn(4)
            cast.finish(3, 1)
            await cast[3].left.wait()
            await cast.finish_in_turn(2, 0)
        assert await order(host, handle) == [5, 4, 1, 3, 2, 0]


async def rank_is_stable_across_a_crash(bench: HostBench) -> None:
    """Rank k is the same settlement for ever; what ends later is appended above."""
    key = bench.key("stable")
    first, second = Cast(key, 4), Cast(key, 4)
    async with bench.runtime("crash") as life:
        host = await life.host(first.resolver)
        handle = await host.open_group(first.group())
        await first.finish_in_turn(3, 1)
        before = [await host.next_settlement(handle), await host.next_settlement(handle)]
        saved = handle.to_dict()
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        afresh = await host.open_group(second.group())
        await second.finish_in_turn(2)
        resumed = await host.open_group(second.group(), consumed=saved["consumed"])
        assert (await host.next_settlement(resumed)).position == 2
        second.finish()
        assert (await rest(host, afresh))[:2] == before
        assert await order(host, GroupHandle(key, 4)) == [3, 1, 2, 0]


async def settled_never_runs_again(bench: HostBench) -> None:
    """Unsettled does, as the next attempt, under the same key."""
    key = bench.key("again")
    lives = [Cast(key) for _ in range(3)]
    for number, cast in enumerate(lives):
        async with bench.runtime("crash") as life:
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group(), consumed=number)
            await cast.begun(*range(number, 3))
            await cast.finish_in_turn(number)
            assert (await host.next_settlement(handle)).position == number
    assert [cast.attempts for cast in lives] == [
        [[1], [1], [1]],
        [[], [2], [2]],
        [[], [], [3]],
    ]
    keys = {part.position: set(part.keys) for part in lives[0].parts}
    assert all(set(cast[p].keys) <= keys[p] for cast in lives for p in keys)


async def what_was_not_durable_was_never_served(bench: HostBench) -> None:
    """A crash behind an end that is not flushed loses it, and nobody had learned of it."""
    key = bench.key("unflushed")
    first, second = Cast(key, 2), Cast(key, 2)
    served: list[Settlement] = []
    async with bench.runtime("crash") as life, trio.open_nursery() as nursery:
        host = await life.host(first.resolver)
        handle = await host.open_group(first.group())
        await first.begun()
        before = life.journal()

        async def wait() -> None:
            served.append(await host.next_settlement(handle))

        nursery.start_soon(wait)
        hold = life.hold()
        hold.__enter__()  # never left: the process ends before the flush
        first.finish()
        await trio.testing.wait_all_tasks_blocked()
        assert served == []
        assert life.journal() == before
        nursery.cancel_scope.cancel()
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        handle = await host.open_group(second.group())
        await second.finish_in_turn(1, 0)
        assert await order(host, handle) == [1, 0]
        assert second.attempts == [[2], [2]]


async def the_handle_is_the_only_cursor(bench: HostBench) -> None:
    """A host keeps nothing per caller: handles are independent, and resume where they say."""
    cast = Cast(bench.key("cursor"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        one = await host.open_group(cast.group())
        two = await host.open_group(cast.group())
        await cast.finish_in_turn(1, 2, 0)
        assert (await host.next_settlement(one)).position == 1
        assert (await host.next_settlement(one)).position == 2
        assert (one.consumed, two.consumed) == (2, 0)
        copy = GroupHandle.from_dict(one.to_dict())
        assert copy == one
        assert await order(host, copy) == [0]
        assert await order(host, two) == [1, 2, 0]
        assert await order(host, one) == [0]
        assert await order(host, await host.open_group(cast.group(), consumed=2)) == [0]


async def cancelling_a_wait_changes_nothing(bench: HostBench) -> None:
    """Neither the cursor nor any rank; the next wait gets what this one would have got."""
    cast = Cast(bench.key("cancelled wait"), 2)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.begun()
        before = life.journal()
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(host.next_settlement, handle)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        assert handle.consumed == 0
        assert life.journal() == before
        await cast.finish_in_turn(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await host.next_settlement(handle)
        assert scope.cancelled_caught
        assert handle.consumed == 0
        assert (await host.next_settlement(handle)).position == 1


async def a_handle_serves_one_task_at_a_time(bench: HostBench) -> None:
    """A second waiter is refused, a later one is not."""
    cast = Cast(bench.key("busy"), 2)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        got: list[Settlement] = []

        async def wait() -> None:
            got.append(await host.next_settlement(handle))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await refused(HandleBusy, host.next_settlement(handle))
            cast.finish(1)
        assert [settlement.position for settlement in got] == [1]
        assert handle.consumed == 1
        cast.finish(0)
        assert await order(host, handle) == [0]


async def exhausted_is_arithmetic(bench: HostBench) -> None:
    """On the handle alone: no host is asked."""
    cast = Cast(bench.key("exhausted"), 2)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        cast.finish()
        assert not handle.exhausted
        await rest(host, handle)
    assert handle.exhausted
    assert GroupHandle.from_dict(handle.to_dict()).exhausted


async def a_failure_is_an_outcome_like_any_other(bench: HostBench) -> None:
    """Ranked, and equal in type and content on the first read and after a crash (ruling 13)."""
    key = bench.key("failure")
    cast = Cast(key, 6)
    cast[0].result = Declined(0.5)
    cast[1].result = KeyError("seven")
    cast[2].result = OSError("no such file: \udcff")  # as os.fsdecode makes them
    cast[3].result = {"a": [1, True, 0.5, None, b"\0"]}
    cast[4].result = {1, 2}
    cast[5].result = b"x" * (16 * 1024 * 1024)
    async with bench.runtime("crash") as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.begun()
        cast.finish()
        first = await rest(host, handle)
    async with bench.runtime() as life:
        host = await life.host(Cast(key, 6).resolver)
        assert await rest(host, await host.open_group(cast.group())) == first
    outcomes = [settlement.outcome for settlement in first]
    assert outcomes[3] == Completed({"a": [1, True, 0.5, None, b"\0"]})
    errors = [o.exception() for o in outcomes if isinstance(o, Failed)]
    assert len(errors) == 5
    assert type(errors[0]) is Declined
    assert (str(errors[0]), errors[0].facts) == ("declined: 0.5", {"amount": 0.5})
    names = [type(error).__name__ for error in errors[1:]]
    assert names == ["EffectFailed", "EffectFailed", "ValueRefused", "TooLarge"]
    assert "KeyError" in str(errors[1])
    assert "udcff" in str(errors[2])
    assert all(isinstance(error, TrouperError) for error in errors)


async def shutdown_journals_no_terminal(bench: HostBench) -> None:
    """Shutdown is not cancellation (ruling 14): also not for a child that raises on its way out."""
    key = bench.key("shutdown")
    first, second = Cast(key), Cast(key)
    first[1].last_words = RuntimeError("the connection went away")
    async with bench.runtime("shutdown") as life:
        host = await life.host(first.resolver)
        await host.open_group(first.group())
        await first.begun()
    assert [part.cancelled for part in first.parts] == [False, False, False]
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        handle = await host.open_group(second.group())
        await second.finish_in_turn(2, 1, 0)
        found = await rest(host, handle)
        assert [settlement.position for settlement in found] == [2, 1, 0]
        assert not any(isinstance(settlement.outcome, Cancelled) for settlement in found)
        assert second.attempts == [[2], [2], [2]]


RANK_LAWS = (
    a_late_caller_sees_settlement_order,
    position_breaks_ties_within_one_tick,
    arrival_decides_across_ticks,
    arrivals_behind_a_flush_keep_the_order_of_their_ticks,
    rank_is_stable_across_a_crash,
    settled_never_runs_again,
    what_was_not_durable_was_never_served,
    the_handle_is_the_only_cursor,
    cancelling_a_wait_changes_nothing,
    a_handle_serves_one_task_at_a_time,
    exhausted_is_arithmetic,
    a_failure_is_an_outcome_like_any_other,
    shutdown_journals_no_terminal,
)

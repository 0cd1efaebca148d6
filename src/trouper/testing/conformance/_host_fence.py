"""Laws of claims and takeover: fences decide, never luck."""

from __future__ import annotations

import trio
import trio.testing

from ...actors.groups import Completed, GroupHandle
from ._host_bench import HostBench
from ._host_cast import CANCEL, Cast, order, rest


async def a_taken_over_child_burns_no_rank(bench: HostBench) -> None:
    """After its lease ran out: the old owner's late result is not counted, and uses nothing up."""
    key = bench.key("fence")
    old, new = Cast(key), Cast(key, missing={2})
    for part in old.parts:
        part.result, part.deaf = "late", True  # an expiry never proves that the runner stopped
    async with bench.runtime() as life:
        with old.released():
            first, second = await life.host(old.resolver, lease=30), await life.host(new.resolver)
            await first.open_group(old.group())
            await old.begun()
            life.advance(31)
            handle = await second.open_group(new.group())
            await new.begun(0, 1)
            assert new.attempts == [[2], [2], []]
            await old.finish_in_turn(0, 1, 2)  # 2 was not taken over: its end closes the series
            settled = await second.next_settlement(handle)
            assert (settled.position, settled.sequence) == (2, 1)
            await new.finish_in_turn(1, 0)
            found = await rest(second, handle)
            assert [(s.position, s.sequence, s.outcome) for s in found] == [
                (1, 2, Completed(10)),
                (0, 3, Completed(0)),
            ]
            assert await order(first, await first.open_group(old.group())) == [2, 1, 0]


async def a_late_result_after_the_new_owner_s_is_not_counted(bench: HostBench) -> None:
    """Settled is settled: the journal does not change any more."""
    key = bench.key("late result")
    old, new = Cast(key, 2), Cast(key, 2)
    for part in old.parts:
        part.result, part.deaf = "late", True
    async with bench.runtime() as life:
        with old.released():
            first, second = await life.host(old.resolver, lease=30), await life.host(new.resolver)
            await first.open_group(old.group())
            await old.begun()
            life.advance(31)
            handle = await second.open_group(new.group())
            await new.finish_in_turn(1, 0)
            found = await rest(second, handle)
            before = life.journal()
            old.finish()
            await old[0].left.wait()
            await old[1].left.wait()
            await life.stop(first)  # waits until its last end met the fence
            assert life.journal() == before
            assert await rest(second, await second.open_group(new.group())) == found


async def a_live_lease_is_not_taken(bench: HostBench) -> None:
    """The second host runs nothing, and still gets the ranks of the first."""
    key = bench.key("live")
    one, two = Cast(key), Cast(key)
    async with bench.runtime() as life:
        first, second = await life.host(one.resolver), await life.host(two.resolver)
        await first.open_group(one.group())
        await one.begun()
        handle = await second.open_group(two.group())
        assert two.asked == []
        await one.finish_in_turn(2, 0, 1)
        assert await order(second, handle) == [2, 0, 1]
        assert two.attempts == [[], [], []]


async def a_lease_is_renewed_while_its_runner_lives(bench: HostBench) -> None:
    """Time alone takes nothing from a host that does its work."""
    key = bench.key("renew")
    one, two = Cast(key), Cast(key)
    async with bench.runtime() as life:
        first, second = await life.host(one.resolver, lease=30), await life.host(two.resolver)
        await first.open_group(one.group())
        await one.begun()
        for _ in range(6):
            before = life.journal()
            life.advance(10)
            while life.journal() == before:  # ends when the renewal is durable
                await trio.lowlevel.checkpoint()
            await first.close_group(GroupHandle(bench.key("nobody"), 1), CANCEL)
            await trio.testing.wait_all_tasks_blocked()  # its verdict came: it sleeps again
        handle = await second.open_group(two.group())
        assert two.asked == []
        one.finish()
        assert await order(second, handle) == [0, 1, 2]


async def the_claims_of_a_dead_host_are_free_at_once(bench: HostBench) -> None:
    """No time has to pass (ruling 6)."""
    key = bench.key("death")
    one, two = Cast(key), Cast(key)
    async with bench.runtime() as life:
        first, second = await life.host(one.resolver), await life.host(two.resolver)
        await first.open_group(one.group())
        await one.finish_in_turn(1)
        await second.next_settlement(await second.open_group(two.group()))
        await life.stop(first)
        handle = await second.open_group(two.group())
        await two.finish_in_turn(2, 0)
        assert await order(second, handle) == [1, 2, 0]
        assert two.attempts == [[2], [], [2]]


async def two_owners_of_one_group_never_share_a_rank(bench: HostBench) -> None:
    """Their ends wait behind one flush: each gets a number of its own, and both read one order."""
    key = bench.key("two owners")
    first = Cast(key, 4)
    even, odd = Cast(key, 4, missing={1, 3}), Cast(key, 4, missing={0, 2})
    async with bench.runtime("crash") as life:
        await (await life.host(first.resolver)).open_group(first.group())
        await first.begun()
    async with bench.runtime() as life:
        one, two = await life.host(even.resolver), await life.host(odd.resolver)
        handles = await one.open_group(even.group()), await two.open_group(odd.group())
        await even.begun(0, 2)
        await odd.begun(1, 3)
        with life.hold():
            even.finish()
            odd.finish()
            await trio.testing.wait_all_tasks_blocked()
        found = await rest(one, handles[0])
        assert sorted(settlement.position for settlement in found) == [0, 1, 2, 3]
        assert len({settlement.sequence for settlement in found}) == 4
        assert await rest(two, handles[1]) == found


FENCE_LAWS = (
    a_taken_over_child_burns_no_rank,
    a_late_result_after_the_new_owner_s_is_not_counted,
    a_live_lease_is_not_taken,
    a_lease_is_renewed_while_its_runner_lives,
    the_claims_of_a_dead_host_are_free_at_once,
    two_owners_of_one_group_never_share_a_rank,
)

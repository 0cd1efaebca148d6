"""Laws of closing: a durable release of interest that may only narrow."""

from __future__ import annotations

import trio
import trio.testing

from ...actors.groups import Cancelled, Completed, GroupHandle
from ...errors import GroupShapeError, HandleClosed
from ._host_bench import HostBench
from ._host_cast import CANCEL, RUN_ON, Cast, order, refused, rest

ROUNDS = 20  # trio shuffles tasks: half of the rounds are lucky


async def closing_again_is_fine(bench: HostBench) -> None:
    """Twice, on a saved handle, with an unknown key; the second close changes nothing."""
    key = bench.key("again")
    cast = Cast(key)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        saved = handle.to_dict()
        await cast.begun()
        await host.close_group(handle, RUN_ON)
        before = life.journal()
        await host.close_group(handle, RUN_ON)
        await host.close_group(GroupHandle.from_dict(saved), RUN_ON)
        await host.close_group(GroupHandle(bench.key("nobody"), 3), CANCEL)
        assert life.journal() == before
        reopened = await host.open_group(cast.group())
        await host.close_group(GroupHandle.from_dict(saved), RUN_ON)
        cast.finish()
        assert await order(host, reopened) == [0, 1, 2], "a replayed close ends no new interest"


async def a_handle_older_than_the_close_cannot_wait(bench: HostBench) -> None:
    """`HandleClosed`, for a parked waiter too; a reopen with the saved cursor goes on."""
    cast = Cast(bench.key("older"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        parked = await host.open_group(cast.group(), consumed=1)
        await cast.finish_in_turn(1)
        await host.next_settlement(handle)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, HandleClosed, host.next_settlement(parked))
            await trio.testing.wait_all_tasks_blocked()
            await host.close_group(handle, RUN_ON)
        error = await refused(HandleClosed, host.next_settlement(handle))
        assert error.facts["consumed"] == 1
        cast.finish()
        fresh = await host.open_group(cast.group(), consumed=handle.consumed)
        assert await order(host, fresh) == [0, 2]
        await refused(HandleClosed, host.next_settlement(handle))


async def a_widening_close_is_refused(bench: HostBench) -> None:
    """Of a declared *cancel*, and of a narrowed one; nothing is written, nobody is cancelled."""
    for declared in (CANCEL, RUN_ON):
        cast = Cast(bench.key(f"widen {declared}"))
        for part in cast.parts:
            part.teardown = trio.Event()
        async with bench.runtime() as life:
            with cast.released():
                host = await life.host(cast.resolver)
                handle = await host.open_group(cast.group(declared))
                await cast.begun()
                if declared is RUN_ON:
                    await host.close_group(handle, CANCEL)
                before = life.journal()
                error = await refused(GroupShapeError, host.close_group(handle, RUN_ON))
                assert error.facts["field"] == "disposition"
                assert life.journal() == before
                stopping = [part.stopping.is_set() for part in cast.parts]
                assert not any(stopping) or declared is RUN_ON


async def narrowing_is_journaled(bench: HostBench) -> None:
    """A crash does not revert it, though the reopen compares with the declared word."""
    key = bench.key("narrow")
    first, second = Cast(key), Cast(key)
    for part in first.parts:
        part.teardown = trio.Event()
    async with bench.runtime("crash") as life:
        with first.released():
            host = await life.host(first.resolver)
            handle = await host.open_group(first.group(RUN_ON))
            await first.finish_in_turn(1)
            await host.next_settlement(handle)
            await host.close_group(handle, CANCEL)
            await first[2].stopping.wait()
            hold = life.hold()
            hold.__enter__()  # the process dies before the losers' ends are flushed
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        handle = await host.open_group(second.group(RUN_ON))
        await refused(GroupShapeError, host.close_group(handle, RUN_ON))
        handle = await host.open_group(second.group(RUN_ON))
        report = await host.drain().run(key)
        assert report.is_complete
        found = await rest(host, handle)
        assert [settlement.position for settlement in found] == [1, 0, 2]
        assert [settlement.outcome for settlement in found[1:]] == [Cancelled(), Cancelled()]
        assert second.attempts == [[], [], []]


async def a_closed_reopen_dispatches_nothing(bench: HostBench) -> None:
    """It reads the ranks that are there, and undoes nothing."""
    key = bench.key("closed reopen")
    first, second = Cast(key), Cast(key)
    async with bench.runtime("crash") as life:
        host = await life.host(first.resolver)
        handle = await host.open_group(first.group())
        await first.finish_in_turn(2)
        await host.next_settlement(handle)
        await host.close_group(handle, RUN_ON)
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        before = life.journal()
        handle = await host.open_group(second.group())
        assert second.asked == []
        assert life.journal() == before
        assert (await host.next_settlement(handle)).position == 2
        await trio.testing.wait_all_tasks_blocked()
        assert second.attempts == [[], [], []]


async def close_returns_before_the_losers_are_gone(bench: HostBench) -> None:
    """The cancels are issued; a loser that winds down is ranked when it ends, as *cancelled*."""
    cast = Cast(bench.key("teardown"))
    for part in cast.parts:
        part.teardown = trio.Event()
    async with bench.runtime() as life:
        with cast.released():
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group(CANCEL))
            await cast.finish_in_turn(1)
            assert (await host.next_settlement(handle)).position == 1
            await host.close_group(handle, CANCEL)
            assert not cast[0].left.is_set()
            assert not cast[2].left.is_set()
            handle = await host.open_group(cast.group(CANCEL), consumed=1)
            await cast[0].stopping.wait()
            await cast[2].stopping.wait()
            assert [part.cancelled for part in cast.parts] == [True, False, True]
            for position in (2, 0):
                teardown = cast[position].teardown
                assert teardown is not None
                teardown.set()
                settlement = await host.next_settlement(handle)
                assert settlement.position == position
                assert settlement.outcome == Cancelled()


async def a_loser_that_completes_in_the_race_keeps_its_value(bench: HostBench) -> None:
    """A cancel request decides nothing; the terminal does (ruling 2), and is ranked."""
    cast = Cast(bench.key("race"))
    cast[0].deaf = True
    async with bench.runtime() as life:
        with cast.released():
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group(CANCEL))
            await cast.begun()
            await cast.finish_in_turn(2)
            await host.next_settlement(handle)
            await host.close_group(handle, CANCEL)
            handle = await host.open_group(cast.group(CANCEL), consumed=1)
            assert (await host.next_settlement(handle)).outcome == Cancelled()
            cast.finish(0)
            last = await host.next_settlement(handle)
            assert (last.position, last.outcome) == (0, Completed(0))


async def losers_run_on_and_are_ranked(bench: HostBench) -> None:
    """After their caller has left, in the host's own care."""
    cast = Cast(bench.key("losers"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        async with trio.open_nursery() as caller:
            handle = await host.open_group(cast.group(RUN_ON))
            await cast.finish_in_turn(1)
            await host.next_settlement(handle)
            await host.close_group(handle, RUN_ON)
            caller.cancel_scope.cancel()
        await cast.finish_in_turn(2, 0)
        handle = await host.open_group(cast.group(RUN_ON), consumed=1)
        found = await rest(host, handle)
        assert [(s.position, s.outcome) for s in found] == [(2, Completed(20)), (0, Completed(0))]
        assert cast.attempts == [[1], [1], [1]]


async def a_close_right_behind_an_open_still_cancels(bench: HostBench) -> None:
    """Both wait for one flush; no child escapes the cancel, and each still settles, ranked."""
    for number in range(ROUNDS):
        cast = Cast(bench.key(f"behind {number}"))
        async with bench.runtime() as life:
            host = await life.host(cast.resolver)
            async with trio.open_nursery() as nursery:
                with life.hold():
                    nursery.start_soon(host.open_group, cast.group(CANCEL))
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.start_soon(host.close_group, GroupHandle(cast.key, 3), CANCEL)
                    await trio.testing.wait_all_tasks_blocked()
            handle = await host.open_group(cast.group(CANCEL))
            found = await rest(host, handle)
            assert [settlement.outcome for settlement in found] == [Cancelled()] * 3


async def a_close_and_the_last_end_in_one_flush_both_count(bench: HostBench) -> None:
    """Whichever verdict the loop hears first: the handle is closed and the rank is there."""
    for number in range(ROUNDS):
        cast = Cast(bench.key(f"both {number}"), 2)
        async with bench.runtime() as life:
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group())
            await cast.begun()
            async with trio.open_nursery() as nursery:
                with life.hold():
                    await cast.finish_in_turn(1)
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.start_soon(host.close_group, handle, RUN_ON)
                    await trio.testing.wait_all_tasks_blocked()
            await refused(HandleClosed, host.next_settlement(handle))
            fresh = await host.open_group(cast.group())
            assert (await host.next_settlement(fresh)).position == 1
            await refused(HandleClosed, host.next_settlement(handle))


CLOSE_LAWS = (
    closing_again_is_fine,
    a_handle_older_than_the_close_cannot_wait,
    a_widening_close_is_refused,
    narrowing_is_journaled,
    a_closed_reopen_dispatches_nothing,
    close_returns_before_the_losers_are_gone,
    a_loser_that_completes_in_the_race_keeps_its_value,
    losers_run_on_and_are_ranked,
    a_close_right_behind_an_open_still_cancels,
    a_close_and_the_last_end_in_one_flush_both_count,
)

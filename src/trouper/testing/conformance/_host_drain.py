"""Laws of the drain: it acts where nobody can come back, claims first, and invents nothing."""

from __future__ import annotations

import trio
import trio.testing

from ...actors.groups import Cancelled, ChildState, Completed, DrainReport
from ...errors import DrainDeferred, GroupShapeError
from ._host_bench import HostBench
from ._host_cast import CANCEL, RUN_ON, Cast, order, refused, rest


def states(report: DrainReport) -> dict[int, str]:
    """Return what a report says, by position."""
    return {child.position: str(child.state) for child in report.children}


async def draining_an_unknown_group_is_refused(bench: HostBench) -> None:
    """By a wired and by an unwired host."""
    async with bench.runtime() as life:
        for host in (await life.host(Cast("x").resolver), await life.host()):
            await refused(GroupShapeError, host.drain().run(bench.key("nobody")))


async def the_drain_lists_closed_groups_only(bench: HostBench) -> None:
    """A dead process is no closed opener (ruling 4)."""
    closed, left = Cast(bench.key("closed")), Cast(bench.key("left open"))
    async with bench.runtime("crash") as life:
        for cast in (closed, left):
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group())
            await cast.begun()
            if cast is closed:
                await host.close_group(handle, RUN_ON)
    async with bench.runtime() as life:
        host = await life.host(closed.resolver)
        keys = host.drain().keys()
        assert closed.key in keys
        assert left.key not in keys


async def a_cancel_drain_journals_cancelled_and_runs_nothing(bench: HostBench) -> None:
    """By the word declared at the open: the caller never came to its close."""
    key = bench.key("drain cancel")
    first, second = Cast(key), Cast(key)
    async with bench.runtime("crash") as life:
        host = await life.host(first.resolver)
        handle = await host.open_group(first.group(CANCEL))
        await first.finish_in_turn(2)
        await host.next_settlement(handle)
    async with bench.runtime() as life:
        host, peer = await life.host(second.resolver), await life.host(second.resolver)
        waiter = await host.open_group(Cast(bench.key("other"), 1).group())
        assert waiter.consumed == 0
        report = await host.drain().run(key)
        assert (report.is_complete, report.settled) == (True, 3)
        assert second[2].attempts == []
        handle = await peer.open_group(second.group(CANCEL))
        found = await rest(peer, handle)
        assert [settlement.position for settlement in found] == [2, 0, 1]
        assert [settlement.outcome for settlement in found[1:]] == [Cancelled(), Cancelled()]
        assert (await host.drain().run(key)).is_complete, "a drained group can be drained again"


async def a_drain_wakes_whoever_waits_on_another_host(bench: HostBench) -> None:
    """Ranks are news for every host on the journal."""
    key = bench.key("drain news")
    first, second, third = Cast(key), Cast(key, missing={0, 1, 2}), Cast(key)
    async with bench.runtime("crash") as life:
        host = await life.host(first.resolver)
        await host.open_group(first.group(CANCEL))
        await first.begun()
    async with bench.runtime() as life:
        waits, drains = await life.host(second.resolver), await life.host(third.resolver)
        handle = await waits.open_group(second.group(CANCEL))
        async with trio.open_nursery() as nursery:

            async def reader() -> None:
                assert await order(waits, handle) == [0, 1, 2]

            nursery.start_soon(reader)
            await trio.testing.wait_all_tasks_blocked()
            assert (await drains.drain().run(key)).is_complete


async def a_run_on_drain_runs_the_losers(bench: HostBench) -> None:
    """All are started before any is awaited."""
    key = bench.key("drain run")
    first, second = Cast(key), Cast(key)
    async with bench.runtime("crash") as life:
        host = await life.host(first.resolver)
        handle = await host.open_group(first.group(RUN_ON))
        await first.finish_in_turn(2)
        await host.next_settlement(handle)
        await host.close_group(handle, RUN_ON)
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        reports: list[DrainReport] = []

        async def drain() -> None:
            reports.append(await host.drain().run(key))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await second.begun(0, 1)
            await refused(DrainDeferred, host.drain().run(key))
            await second.finish_in_turn(1, 0)
        assert reports[0].is_complete
        assert second.attempts == [[2], [2], []]
        assert host.drain().keys() == []
        assert await order(host, await host.open_group(second.group(RUN_ON))) == [2, 1, 0]


async def a_drain_defers_to_this_host_s_own_work(bench: HostBench) -> None:
    """And works once that is over; nothing was cancelled meanwhile."""
    cast = Cast(bench.key("deferred"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group(CANCEL))
        await cast.begun()
        before = life.journal()
        error = await refused(DrainDeferred, host.drain().run(cast.key))
        assert error.facts["key"] == cast.key
        assert life.journal() == before
        await cast.finish_in_turn(1, 0, 2)
        assert await order(host, handle) == [1, 0, 2]
        assert (await host.drain().run(cast.key)).is_complete


async def a_drain_reports_a_live_lease_of_another_host(bench: HostBench) -> None:
    """With its end; after the other's death the same drain goes through."""
    for losers in (CANCEL, RUN_ON):
        key = bench.key(f"lease {losers}")
        one, two = Cast(key), Cast(key)
        two.finish()
        async with bench.runtime() as life:
            first, second = await life.host(one.resolver), await life.host(two.resolver)
            await first.open_group(one.group(losers))
            await one.finish_in_turn(1)
            await second.next_settlement(await second.open_group(two.group(losers)))
            report = await second.drain().run(key)
            assert states(report) == dict.fromkeys((0, 2), ChildState.LEASE_LIVE)
            assert all(child.expires is not None for child in report.children)
            assert (report.settled, report.is_complete) == (1, False)
            assert not one[0].stopping.is_set()
            await life.stop(first)
            assert (await second.drain().run(key)).is_complete
            handle = await second.open_group(two.group(losers))
            ends = {s.position: s.outcome for s in await rest(second, handle)}
            assert ends[1] == Completed(10)
            assert ends[0] == (Cancelled() if losers is CANCEL else Completed(0))


async def a_miss_is_no_outcome(bench: HostBench) -> None:
    """No executor is a routing fact: reported per child, siblings go on, nothing is invented."""
    key = bench.key("no executor")
    first, second = Cast(key), Cast(key, missing={1})
    async with bench.runtime("crash") as life:
        await (await life.host(first.resolver)).open_group(first.group(RUN_ON))
        await first.begun()
    async with bench.runtime() as life:
        unwired = await life.host()
        before = life.journal()
        report = await unwired.drain().run(key)
        assert states(report) == dict.fromkeys((0, 1, 2), ChildState.NO_EXECUTOR)
        assert life.journal() == before
        host = await life.host(second.resolver)
        second.finish()
        report = await host.drain().run(key)
        assert states(report) == {1: ChildState.NO_EXECUTOR}
        assert report.settled == 2
        second.missing.clear()
        assert (await host.drain().run(key)).is_complete
        found = await rest(host, await host.open_group(second.group(RUN_ON)))
        assert [(s.position, s.outcome) for s in found] == [
            (0, Completed(0)),
            (2, Completed(20)),
            (1, Completed(10)),
        ]


async def a_stopped_drain_starts_nothing(bench: HostBench) -> None:
    """Every unsettled child is reported as interrupted, and the journal is as it was."""
    key = bench.key("stopped")
    first, second = Cast(key), Cast(key)
    async with bench.runtime("crash") as life:
        host = await life.host(first.resolver)
        await host.open_group(first.group(RUN_ON))
        await first.finish_in_turn(1)
        await host.next_settlement(await host.open_group(first.group(RUN_ON)))
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        drain, before = host.drain(), life.journal()
        drain.stop()
        report = await drain.run(key)
        assert states(report) == dict.fromkeys((0, 2), ChildState.INTERRUPTED)
        assert (report.settled, report.is_complete) == (1, False)
        assert second.attempts == [[], [], []]
        assert life.journal() == before


async def a_drain_that_ends_with_its_host_is_no_outcome(bench: HostBench) -> None:
    """What it ran is interrupted and unsettled, and the next drain finishes it."""
    key = bench.key("cut drain")
    first, second, third = Cast(key, 2), Cast(key, 2), Cast(key, 2)
    async with bench.runtime("crash") as life:
        await (await life.host(first.resolver)).open_group(first.group(RUN_ON))
        await first.begun()
    async with bench.runtime() as life:
        host, other = await life.host(second.resolver), await life.host(third.resolver)
        reports: list[DrainReport] = []

        async def drain() -> None:
            reports.append(await host.drain().run(key))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await second.begun()
            await life.stop(host)
        assert states(reports[0]) == dict.fromkeys((0, 1), ChildState.INTERRUPTED)
        third.finish()
        assert (await other.drain().run(key)).is_complete
        assert third.attempts == [[3], [3]]


async def an_overtaken_drain_reports_contested(bench: HostBench) -> None:
    """Its lease ran out, and another owner took its children: the fence moved, nothing is lost."""
    key = bench.key("contested")
    first, second, third = Cast(key, 2), Cast(key, 2), Cast(key, 2)
    async with bench.runtime("crash") as life:
        await (await life.host(first.resolver)).open_group(first.group(RUN_ON))
        await first.begun()
    async with bench.runtime() as life:
        drains, takes = await life.host(second.resolver, lease=30), await life.host(third.resolver)
        reports: list[DrainReport] = []

        async def drain() -> None:
            reports.append(await drains.drain().run(key))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await second.begun()
            life.advance(31)
            handle = await takes.open_group(third.group(RUN_ON))
            await third.begun()
        assert states(reports[0]) == dict.fromkeys((0, 1), ChildState.CONTESTED)
        await third.finish_in_turn(1, 0)
        assert await order(takes, handle) == [1, 0]
        assert (await drains.drain().run(key)).is_complete


DRAIN_LAWS = (
    draining_an_unknown_group_is_refused,
    the_drain_lists_closed_groups_only,
    a_cancel_drain_journals_cancelled_and_runs_nothing,
    a_drain_wakes_whoever_waits_on_another_host,
    a_run_on_drain_runs_the_losers,
    a_drain_defers_to_this_host_s_own_work,
    a_drain_reports_a_live_lease_of_another_host,
    a_miss_is_no_outcome,
    a_stopped_drain_starts_nothing,
    a_drain_that_ends_with_its_host_is_no_outcome,
    an_overtaken_drain_reports_contested,
)

"""Laws of retries: budget and back-off are facts of the journal, whoever goes on with them."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from ...actors.groups import Cancelled, Completed, EffectContext, ErrorRecord, Failed, Retry
from ._host_bench import HostBench, Runtime
from ._host_cast import CANCEL, Cast, Part, rest

HOUR = 3600.0
FAILED = Failed(ErrorRecord.of(OSError("no route")))


class Flaky(Part):
    """A child whose attempts fail until so many have; each asks for the next one in an hour."""

    def __init__(self, fails: int) -> None:
        super().__init__(0)
        self.fails = fails
        self.seen: list[tuple[int, int]] = []  # attempt, failures before it

    async def run(self, ctx: EffectContext) -> Any:
        """Fail, or wait at the gate."""
        self.seen.append((ctx.attempt, ctx.failures))
        if ctx.failures < self.fails:
            self.begun.set()
            return Retry(HOUR, FAILED)
        return await super().run(ctx)


class FlakyCast(Cast):
    """A group of one flaky child."""

    def __init__(self, key: str, fails: int = 1) -> None:
        super().__init__(key, 1)
        self.only = Flaky(fails)
        self.parts = [self.only]

    async def failed(self, life: Runtime, times: int = 1) -> None:
        """Wait until so many failures are durable: time is what the next attempt waits for."""
        before = life.journal()
        while len(self.only.seen) < times:
            await trio.lowlevel.checkpoint()
        while life.journal() == before:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()

    async def again(self, life: Runtime, times: int) -> None:
        """Let hours pass until so many attempts have begun."""
        for _ in range(1000):
            if len(self.only.seen) >= times:
                return
            life.advance(HOUR)
            await trio.testing.wait_all_tasks_blocked(0.002)
        raise AssertionError(f"only {self.only.seen} began, in a thousand hours")


async def a_failed_attempt_is_followed_by_another_when_it_is_due(bench: HostBench) -> None:
    """Not before, and with a runner of its own; each start is counted."""
    cast = FlakyCast(bench.key("again"), fails=2)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.again(life, 3)
        assert cast.only.seen == [(1, 0), (2, 1), (3, 2)]
        assert cast.asked == [0, 0, 0]
        cast.finish()
        assert [s.outcome for s in await rest(host, handle)] == [Completed(0)]


async def a_due_instant_survives_the_host(bench: HostBench) -> None:
    """A shutdown in the back-off journals nothing; the next host waits for what is left of it."""
    key = bench.key("due")
    first, second = FlakyCast(key), FlakyCast(key)
    second.finish()
    async with bench.runtime() as life:
        host = await life.host(first.resolver)
        await host.open_group(first.group())
        await first.failed(life)
        journal = life.journal()
        await life.stop(host)
        assert life.journal() == journal
    async with bench.runtime() as life:
        host = await life.host(second.resolver)
        handle = await host.open_group(second.group())
        for seconds in (0, HOUR / 2, HOUR / 3):
            life.advance(seconds)
            await trio.testing.wait_all_tasks_blocked()
            assert second.only.seen == []
        life.advance(HOUR / 3)
        assert [s.outcome for s in await rest(host, handle)] == [Completed(0)]
        assert second.only.seen == [(2, 1)]


async def failures_outlive_a_crash_at_every_commit(bench: HostBench) -> None:
    """At most the failure that nobody wrote down is forgotten, and no wait is cut short."""
    for units in range(1, 30):
        key = bench.key(f"crash {units}")
        first, second = FlakyCast(key, fails=2), FlakyCast(key, fails=2)
        first.finish()
        second.finish()
        if await _outran_the_crash(bench, first, units):
            assert units > 4, "an open, two failures, two starts and a terminal are units"
            return
        async with bench.runtime() as life:
            host = await life.host(second.resolver)
            handle = await host.open_group(second.group())
            await trio.testing.wait_all_tasks_blocked()
            if second.only.seen:
                assert second.only.seen[0][1] == 0, "whoever failed before waits first"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pass_time, life)
                found = await rest(host, handle)
                nursery.cancel_scope.cancel()
            assert [s.outcome for s in found] == [Completed(0)]
            begun = len(first.only.seen)
            if second.only.seen:  # else its terminal was durable
                attempt, failures = second.only.seen[0]
                assert begun - 1 <= failures <= min(begun, 2)
                assert begun < attempt <= begun + 2, "a claimed start may never have come"
                assert [f for _, f in second.only.seen] == list(range(failures, 3))
    raise AssertionError("this group never settles")


async def _outran_the_crash(bench: HostBench, cast: FlakyCast, units: int) -> bool:
    settled = False
    async with bench.runtime("crash") as life, trio.open_nursery() as nursery:

        async def play() -> None:
            nonlocal settled
            host = await life.host(cast.resolver)
            handle = await host.open_group(cast.group())
            nursery.start_soon(_pass_time, life)
            await rest(host, handle)
            settled = True
            nursery.cancel_scope.cancel()

        nursery.start_soon(play)
        await life.crash_after(units)
        nursery.cancel_scope.cancel()
    return settled


async def _pass_time(life: Runtime) -> None:
    while True:
        await trio.testing.wait_all_tasks_blocked()
        life.advance(HOUR / 4)


async def a_cancel_reaches_the_back_off(bench: HostBench) -> None:
    """No time has to pass, and no attempt begins."""
    cast = FlakyCast(bench.key("cancel"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.failed(life)
        await host.close_group(handle, CANCEL)
        found = await rest(host, await host.open_group(cast.group()))
        assert [settlement.outcome for settlement in found] == [Cancelled()]
        assert cast.only.seen == [(1, 0)]


async def a_takeover_in_the_back_off_keeps_count(bench: HostBench) -> None:
    """After the lease ran out; the old owner begins nothing, though it too comes to its due."""
    key = bench.key("takeover")
    old, new = FlakyCast(key), FlakyCast(key)
    async with bench.runtime() as life:
        first, second = await life.host(old.resolver, lease=30), await life.host(new.resolver)
        await first.open_group(old.group())
        await old.failed(life)
        life.advance(2 * HOUR)  # no task of the first host runs before the second one has claimed
        handle = await second.open_group(new.group())
        await new.only.begun.wait()
        assert new.only.seen == [(2, 1)]
        new.finish()
        assert [s.outcome for s in await rest(second, handle)] == [Completed(0)]
        assert old.only.seen == [(1, 0)]


RETRY_LAWS = (
    a_failed_attempt_is_followed_by_another_when_it_is_due,
    a_due_instant_survives_the_host,
    failures_outlive_a_crash_at_every_commit,
    a_cancel_reaches_the_back_off,
    a_takeover_in_the_back_off_keeps_count,
)

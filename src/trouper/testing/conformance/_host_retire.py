"""Laws of retirement: a group and a scope go whole, for good, and only once nobody needs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio
import trio.testing

from ...actors.groups import EffectHost, GroupHandle
from ...errors import (
    CursorOutOfRange,
    EffectGroupsUnsupported,
    GroupRetired,
    GroupShapeError,
    HandleBusy,
    ScopeBusy,
    StoreError,
)
from ._host_bench import HostBench, Runtime
from ._host_cast import RUN_ON, Cast, order, refused

WIDE = 300  # children of a group that no single unit takes away
WHOLE = "nothing was journaled"


async def finished(life: Runtime, *casts: Cast) -> EffectHost:
    """Run groups to their end, and close them."""
    parts = {f"{cast.key}/{p.position}": p for cast in casts for p in cast.parts}
    host = await life.host(lambda envelope: parts[envelope.replay_key])
    for cast in casts:
        handle = await host.open_group(cast.group())
        cast.finish()
        await order(host, handle)
        await host.close_group(handle, RUN_ON)
    return host


async def a_retired_key_is_never_opened_again(bench: HostBench) -> None:
    """`GroupRetired`, in this life and the next; nothing is written and nothing runs."""
    key = bench.key("retired")
    async with bench.runtime() as life:
        host = await finished(life, Cast(key))
        await host.retire(key)
        before = life.journal()
        for cast in (Cast(key), Cast(key, 2), Cast(key, scope=bench.key("elsewhere"))):
            await refused(GroupRetired, host.open_group(cast.group()))
        assert life.journal() == before, WHOLE
    again = Cast(key, missing={0})
    async with bench.runtime() as life:
        host = await life.host(again.resolver)
        error = await refused(GroupRetired, host.open_group(again.group()))
        assert error.facts["key"] == key
        assert (again.attempts, life.journal()) == ([[], [], []], before)


async def retiring_waits_for_the_close_and_for_every_terminal(bench: HostBench) -> None:
    """`ScopeBusy` while the group is open or unsettled; nothing is written."""
    cast = Cast(bench.key("busy"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.begun()
        for state in ("open", "closed"):
            before = life.journal()
            await refused(ScopeBusy, host.retire(cast.key))
            await refused(ScopeBusy, host.retire_scope(cast.scope))
            assert life.journal() == before, f"{state}: {WHOLE}"
            if state == "open":
                await cast.finish_in_turn(2, 0)
                await host.next_settlement(handle)
                await host.next_settlement(handle)
                await host.close_group(handle, RUN_ON)
        cast.finish()
        reader = await host.open_group(cast.group())
        assert await order(host, reader) == [2, 0, 1], "refused retirements changed no rank"
        await host.retire(cast.key)


async def a_settled_group_that_is_open_is_in_use(bench: HostBench) -> None:
    """All its children are settled, and its caller may still come for them."""
    cast = Cast(bench.key("open"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        cast.finish()
        await order(host, await host.open_group(cast.group()))
        await refused(ScopeBusy, host.retire(cast.key))
        await refused(ScopeBusy, host.retire_scope(cast.scope))
        assert await order(host, handle) == [0, 1, 2]


async def a_retired_group_serves_no_ranks(bench: HostBench) -> None:
    """To no handle, on no host of its store; closing and retiring it again is fine."""
    cast = Cast(bench.key("gone"))
    async with bench.runtime() as life:
        host = await finished(life, cast)
        other = await life.host(cast.resolver)
        handles = [(h, await h.open_group(cast.group())) for h in (host, other)]
        saved = handles[0][1].to_dict()
        await other.next_settlement(handles[1][1])
        await host.retire(cast.key)
        before = life.journal()
        handles += [(h, GroupHandle.from_dict(saved)) for h in (host, other)]
        for each, handle in handles:
            await refused(GroupRetired, each.next_settlement(handle))
            await refused(GroupRetired, each.next_settlements(handle))
            await each.close_group(handle, RUN_ON)
            await each.retire(cast.key)
        assert (await host.drain().run(cast.key)).is_complete
        assert cast.key not in host.drain().keys()  # noqa: SIM118 - no mapping
        assert life.journal() == before


async def what_is_unknown_cannot_be_retired(bench: HostBench) -> None:
    """A key that the journal does not hold is refused; an empty scope is gone already."""
    async with bench.runtime() as life:
        host = await life.host(Cast("any").resolver)
        before = life.journal()
        await refused(GroupShapeError, host.retire(bench.key("nobody")))
        await host.retire_scope(bench.key("nowhere"))
        assert life.journal() == before


async def an_unwired_host_retires_nothing(bench: HostBench) -> None:
    """As it refuses every other verb."""
    cast = Cast(bench.key("unwired"))
    async with bench.runtime() as life:
        await finished(life, cast)
        unwired, before = await life.host(), life.journal()
        await refused(EffectGroupsUnsupported, unwired.retire(cast.key))
        await refused(EffectGroupsUnsupported, unwired.retire_scope(cast.scope))
        assert life.journal() == before


async def a_retired_scope_leaves_no_row(bench: HostBench) -> None:
    """Groups, wide and small, retired or not, and their tombstones: all of it goes, and no more."""
    scope = bench.key("scope")
    casts = [Cast(bench.key(f"{n} of it"), n, scope=scope) for n in (WIDE, 1, 5)]
    other = Cast(bench.key("of another"))
    async with bench.runtime() as life:
        host = await finished(life, other)
        before = life.journal()
        host = await finished(life, *casts)
        await host.retire(casts[0].key)
        await host.retire(casts[1].key)
        await host.retire_scope(scope)
        assert life.journal() == before
        await host.retire_scope(scope)
        assert life.journal() == before, "gone already"
        assert await order(host, await host.open_group(other.group())) == [0, 1, 2]


async def the_keys_of_a_retired_scope_are_new(bench: HostBench) -> None:
    """Somebody said that the scope is over: the same key is other work, and runs."""
    key = bench.key("new")
    async with bench.runtime() as life:
        first = Cast(key)
        host = await finished(life, first)
        stale = await host.open_group(first.group())
        await host.retire_scope(first.scope)
        await refused(GroupShapeError, host.next_settlement(stale))
        await host.close_group(stale, RUN_ON)
        again = Cast(key, 2)
        host = await life.host(again.resolver)
        handle = await host.open_group(again.group())
        await again.finish_in_turn(1, 0)
        assert await order(host, handle) == [1, 0]
        assert again.attempts == [[1], [1]]


async def a_sweep_cut_off_anywhere_goes_on_in_the_next_life(bench: HostBench) -> None:
    """Crash at each unit of it: the key is refused or new, never half there, and no row is left."""
    refusals = 0
    for units in range(20):
        key = bench.key(f"cut {units}")
        cast, again = Cast(key, WIDE), Cast(key, WIDE)
        fresh = Cast(f"{key} fresh", 1, scope=cast.scope)
        async with bench.runtime(ends="crash") as life:
            empty = life.journal()
            host = await finished(life, cast)
            is_over = await _cut_off(life, partial(host.retire_scope, cast.scope), units)
        async with bench.runtime() as life:
            is_there = life.journal() != empty
            refused_again, refused_fresh = await _open_behind_the_sweep(life, again, fresh)
            refusals += refused_fresh
            ran: list[list[int]] = (
                [[]] * WIDE if refused_again or (is_there and not units) else [[1]] * WIDE
            )
            assert again.attempts == ran, f"crash at unit {units}: settled work ran again"
            host = await life.host(again.resolver)
            if refused_again and refused_fresh:
                await _rounds(life, host, bench.key("nowhere"), empty)
            else:
                await host.retire_scope(cast.scope)
            assert life.journal() == empty, f"rows are left after a crash at unit {units}"
        if is_over:
            assert refusals, "a scope takes groups while it is swept, or goes in one unit"
            return
    raise AssertionError("the sweep of a scope does not end")


async def _rounds(life: Runtime, host: EffectHost, nowhere: str, until: object) -> None:
    """Let flushes pass until the journal is as it was; nobody asks for the sweep."""
    for _ in range(50):
        if life.journal() == until:
            return
        await host.retire_scope(nowhere)


async def _cut_off(life: Runtime, verb: Callable[[], Awaitable[None]], units: int) -> bool:
    """Crash so many units into a verb; tell whether it was over before."""
    is_over = False

    async def run() -> None:
        nonlocal is_over
        with suppress(StoreError):  # the end of this life came before it
            await verb()
            is_over = True
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await life.crash_after(units)
        nursery.cancel_scope.cancel()
    return is_over


async def _open_behind_the_sweep(life: Runtime, *casts: Cast) -> list[bool]:
    """Open groups as early as can be, and run them to their end; tell which were refused."""
    parts = {f"{cast.key}/{p.position}": p for cast in casts for p in cast.parts}
    refusals = [False for _ in casts]

    async def run(number: int, cast: Cast) -> None:
        try:
            handle = await host.open_group(cast.group())
        except GroupRetired:
            refusals[number] = True
            return
        cast.finish()
        await order(host, handle)
        await host.close_group(handle, RUN_ON)

    async with trio.open_nursery() as nursery:
        with life.hold():  # one unit of the sweep, and the opens right behind it
            host = await life.host(lambda envelope: parts[envelope.replay_key])
            for number, cast in enumerate(casts):
                nursery.start_soon(run, number, cast)
            await trio.testing.wait_all_tasks_blocked()
    return refusals


async def a_retirement_cut_off_anywhere_is_whole_or_did_not_happen(bench: HostBench) -> None:
    """Crash at each unit: before the mark the ranks are served, behind it the key is refused."""
    for units in range(20):
        cast = Cast(bench.key(f"retired {units}"), WIDE)
        async with bench.runtime(ends="crash") as life:
            host = await finished(life, cast)
            is_over = await _cut_off(life, partial(host.retire, cast.key), units)
        async with bench.runtime() as life:
            host = await life.host(cast.resolver)
            if units == 0:
                reader = await host.open_group(cast.group())
                assert len(await order(host, reader)) == WIDE
            else:
                await refused(GroupRetired, host.open_group(cast.group()))
            await host.retire(cast.key)
            await host.retire_scope(cast.scope)
        if is_over:
            assert units > 2, "a wide group goes in more units than one"
            return
    raise AssertionError("the sweep of a group does not end")


async def a_late_result_for_a_retired_group_is_not_counted(bench: HostBench) -> None:
    """Its runner outlived its lease, its group and its rows; the host that ran it lives on."""
    key = bench.key("late")
    old, new, other = Cast(key), Cast(key), Cast(bench.key("other"), 1)
    for part in old.parts:
        part.result, part.deaf = "late", True
    async with bench.runtime() as life:
        with old.released():
            parts = {f"{cast.key}/{p.position}": p for cast in (old, other) for p in cast.parts}
            first = await life.host(lambda envelope: parts[envelope.replay_key], lease=30)
            second = await life.host(new.resolver)
            stale = await first.open_group(old.group())
            await old.begun()
            life.advance(31)
            handle = await second.open_group(new.group())
            new.finish()
            await order(second, handle)
            await second.close_group(handle, RUN_ON)
            await second.retire(key)
            before = life.journal()
            await old.finish_in_turn(2, 1, 0)
            await trio.testing.wait_all_tasks_blocked()
            assert life.journal() == before
            await refused(GroupRetired, first.next_settlement(stale))
            handle = await first.open_group(other.group())
            other.finish()
            assert await order(first, handle) == [0]


async def other_work_goes_on_beside_a_sweep(bench: HostBench) -> None:
    """Of a scope of many units: whoever opens a group meanwhile waits for one of them, not all."""
    wide, small = Cast(bench.key("wide"), 4 * WIDE), Cast(bench.key("small"), 1)
    async with bench.runtime() as life:
        await finished(life, wide)
        host = await life.host(small.resolver)
        swept = False

        async def retire() -> None:
            nonlocal swept
            await host.retire_scope(wide.scope)
            swept = True

        async with trio.open_nursery() as nursery:
            with life.hold():
                nursery.start_soon(retire)
                await trio.testing.wait_all_tasks_blocked()
            handle = await host.open_group(small.group())
            assert not swept
            small.finish()
            assert await order(host, handle) == [0]
        assert swept


async def every_recorded_rank_comes_in_one_read(bench: HostBench) -> None:
    """Above the cursor, in rank order, at once; a parked reader wakes with the first."""
    cast = Cast(bench.key("read"), 5)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.finish_in_turn(3, 1)
        first = await host.next_settlement(handle)
        ranks = await host.next_settlements(handle)
        assert [first.position, *(s.position for s in ranks)] == [3, 1]
        found: list[int] = []

        async def read() -> None:
            while not handle.exhausted:
                found.extend(s.position for s in await host.next_settlements(handle))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert (found, handle.consumed) == ([], 2)
            await refused(HandleBusy, host.next_settlements(handle))
            cast.finish()
        assert found == [0, 2, 4]
        await refused(CursorOutOfRange, host.next_settlements(handle))
        late = await host.next_settlements(await host.open_group(cast.group()))
        assert [(s.rank, s.position) for s in late] == [(1, 3), (2, 1), (3, 0), (4, 2), (5, 4)]


RETIRE_LAWS = (
    a_retired_key_is_never_opened_again,
    retiring_waits_for_the_close_and_for_every_terminal,
    a_settled_group_that_is_open_is_in_use,
    a_retired_group_serves_no_ranks,
    what_is_unknown_cannot_be_retired,
    an_unwired_host_retires_nothing,
    a_retired_scope_leaves_no_row,
    the_keys_of_a_retired_scope_are_new,
    a_sweep_cut_off_anywhere_goes_on_in_the_next_life,
    a_retirement_cut_off_anywhere_is_whole_or_did_not_happen,
    a_late_result_for_a_retired_group_is_not_counted,
    other_work_goes_on_beside_a_sweep,
    every_recorded_rank_comes_in_one_read,
)

"""Laws of wiring and opening."""

from __future__ import annotations

import trio
import trio.testing

from ...actors.groups import (
    Completed,
    EffectEnvelope,
    EffectGroup,
    EffectHost,
    GroupHandle,
    WakePolicy,
)
from ...errors import (
    CursorOutOfRange,
    EffectGroupsUnsupported,
    GroupShapeError,
    MembershipDropped,
    NoExecutor,
    ReplayMismatch,
    TrouperError,
)
from ._host_bench import HostBench, Runtime
from ._host_cast import CANCEL, RUN_ON, Cast, order, refused


async def an_unwired_host_refuses_every_group_verb(bench: HostBench) -> None:
    """Open, next and close alike, on a known group too, and journals nothing."""
    cast = Cast(bench.key("unwired"))
    async with bench.runtime() as life:
        wired = await life.host(cast.resolver)
        host = await life.host()
        assert wired.supports_groups
        assert not host.supports_groups
        known = await wired.open_group(cast.group())
        before = life.journal()
        for handle in (known, GroupHandle(bench.key("nobody"), 3)):
            verbs = [
                await refused(EffectGroupsUnsupported, host.open_group(cast.group())),
                await refused(EffectGroupsUnsupported, host.next_settlement(handle)),
                await refused(EffectGroupsUnsupported, host.close_group(handle, CANCEL)),
            ]
            assert [error.facts["verb"] for error in verbs] == ["open", "next", "close"]
        assert life.journal() == before
        host.register(cast.resolver)
        assert host.supports_groups


async def a_second_resolver_is_refused(bench: HostBench) -> None:
    """One host has one answer to what runs a child."""
    first, second = Cast(bench.key("resolver"), 1), Cast(bench.key("resolver"), 1)
    async with bench.runtime() as life:
        host = await life.host(first.resolver)
        try:
            host.register(second.resolver)
        except TrouperError:
            pass
        else:
            raise AssertionError("a second resolver was taken")
        await host.open_group(first.group())
        await first.begun()
        assert second.asked == []


async def a_first_open_with_a_miss_writes_nothing(bench: HostBench) -> None:
    """Two tries are two identical refusals; once the child is known it is a first open."""
    cast = Cast(bench.key("miss"), missing={1})
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        before = life.journal()
        first = await refused(GroupShapeError, host.open_group(cast.group()))
        second = await refused(GroupShapeError, host.open_group(cast.group()))
        assert life.journal() == before
        assert (str(first), first.facts) == (str(second), second.facts)
        assert first.facts["position"] == 1
        assert first.facts["replay_key"] == cast.envelope(1).replay_key
        assert cast.attempts == [[], [], []]
        cast.missing.clear()
        await host.open_group(cast.group())
        await cast.begun()
        assert cast.attempts == [[1], [1], [1]]


async def a_reopen_passes_a_miss_through(bench: HostBench) -> None:
    """It resolves only what it dispatches, and still serves the ranks that are there."""
    key = bench.key("reopen")
    cast = Cast(key)
    async with bench.runtime("crash") as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        await cast.finish_in_turn(0)
        await host.next_settlement(handle)
    again = Cast(key, missing={2})
    async with bench.runtime() as life:
        host = await life.host(again.resolver)
        handle = await host.open_group(again.group())
        assert again.asked == [1, 2]
        await again.finish_in_turn(1)
        assert (await host.next_settlement(handle)).position == 0
        assert (await host.next_settlement(handle)).position == 1
        assert again.attempts == [[], [2], []]
        again.missing.clear()
        again.finish(2)
        handle = await host.open_group(again.group(), consumed=2)
        assert again.asked == [1, 2, 2]
        assert await order(host, handle) == [2]


async def two_first_opens_at_once_run_each_child_once(bench: HostBench) -> None:
    """They become one first open and one reopen."""
    for number in range(6):  # trio shuffles tasks: one round could be lucky
        cast = Cast(bench.key(f"twice {number}"))
        async with bench.runtime() as life:
            host = await life.host(cast.resolver)
            handles = await opened_at_once(life, host, cast.group())
            await cast.finish_in_turn(2, 0, 1)
            assert [await order(host, handle) for handle in handles] == [[2, 0, 1]] * 2
            assert cast.attempts == [[1], [1], [1]]


async def opened_at_once(life: Runtime, host: EffectHost, group: EffectGroup) -> list[GroupHandle]:
    """Open a group twice, before either open is durable."""
    handles: list[GroupHandle] = []

    async def opener() -> None:
        handles.append(await host.open_group(group))

    async with trio.open_nursery() as nursery:
        with life.hold():
            nursery.start_soon(opener)
            nursery.start_soon(opener)
            await trio.testing.wait_all_tasks_blocked()
    return handles


async def a_reopen_beside_running_children_starts_nothing(bench: HostBench) -> None:
    """Children that run here are joined, not run again."""
    cast = Cast(bench.key("beside"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        await host.open_group(cast.group())
        await cast.begun()
        await cast.finish_in_turn(1)
        handle = await host.open_group(cast.group())
        assert cast.asked == [0, 1, 2]
        cast.finish()
        assert await order(host, handle) == [1, 0, 2]
        assert cast.attempts == [[1], [1], [1]]


async def a_drifted_shape_is_refused(bench: HostBench) -> None:
    """Shrunk, grown, reordered, other wake, other disposition, other scope; settled or not."""
    key = bench.key("shape")
    cast, wider = Cast(key), Cast(key, 4)
    swapped = [cast.envelope(1), cast.envelope(0), cast.envelope(2)]
    foreign = [
        EffectEnvelope.make("effect", "part", [p, 0.5], {}, "another scope", f"{key}/{p}")
        for p in range(3)
    ]
    drifted = [
        ("children", cast.group(children=[cast.envelope(0), cast.envelope(1)])),
        ("children", wider.group()),
        ("replay_key", cast.group(children=swapped)),
        ("wake", cast.group(wake=WakePolicy.ALL)),
        ("disposition", cast.group(CANCEL)),
        ("scope", cast.group(children=foreign)),
    ]
    async with bench.runtime("crash") as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group(RUN_ON, wake=WakePolicy.FIRST))
        await cast.begun()
        for phase in ("nothing settled", "one settled", "all settled"):
            if phase == "one settled":
                await cast.finish_in_turn(1)
            elif phase == "all settled":
                await cast.finish_in_turn(0, 2)
                assert await order(host, await host.open_group(cast.group())) == [1, 0, 2]
            before = life.journal() if phase != "one settled" else None
            for field, group in drifted:
                error = await refused(GroupShapeError, host.open_group(group))
                assert error.facts["field"] == field, phase
                assert error.facts["recorded"] != error.facts["offered"]
            assert before is None or life.journal() == before
        assert cast.attempts == [[1], [1], [1]]
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        for field, group in drifted:
            error = await refused(GroupShapeError, host.open_group(group))
            assert error.facts["field"] == field
        assert await order(host, await host.open_group(cast.group(), consumed=handle.consumed))


async def a_drifted_child_is_a_replay_mismatch(bench: HostBench) -> None:
    """Under the same replay key: the differing field is named, settled or not."""
    cast = Cast(bench.key("drift"))
    others = [
        ("arguments", cast.envelope(1, args=[1, 0.25])),
        ("arguments", cast.envelope(1, args=[True, 0.5])),
        ("arguments", cast.envelope(1, args=[1.0, 0.5])),
        ("name", cast.envelope(1, name="another")),
        ("kind", cast.envelope(1, kind="guest")),
    ]
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        handle = await host.open_group(cast.group())
        for phase in ("running", "settled"):
            for field, child in others:
                group = cast.group(children=[cast.envelope(0), child, cast.envelope(2)])
                error = await refused(ReplayMismatch, host.open_group(group))
                assert error.field == field, phase
                assert f"{error.facts['recorded']!r}" in str(error)
                assert f"{error.facts['offered']!r}" in str(error)
            await cast.begun()
            cast.finish()
            await order(host, handle)
        assert cast.attempts == [[1], [1], [1]]


async def a_cursor_out_of_range_is_refused(bench: HostBench) -> None:
    """On open, before anything is written; past the last child; with a foreign child count."""
    cast = Cast(bench.key("range"))
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        before = life.journal()
        for consumed in (-1, 4):
            await refused(CursorOutOfRange, host.open_group(cast.group(), consumed=consumed))
        assert life.journal() == before
        handle = await host.open_group(cast.group(), consumed=3)
        assert handle.exhausted
        await refused(CursorOutOfRange, host.next_settlement(handle))
        await refused(CursorOutOfRange, host.next_settlement(GroupHandle(handle.key, 5)))
        stored = handle.to_dict()
        for consumed in (-1, 4):
            try:
                GroupHandle.from_dict(stored | {"consumed": consumed})
            except CursorOutOfRange:
                continue
            raise AssertionError(f"a cursor at {consumed} of 3 was restored")


async def execute_runs_here_and_now_without_a_group(bench: HostBench) -> None:
    """It journals nothing, refuses a grouped envelope, and a miss is no outcome."""
    cast = Cast(bench.key("execute"), 1)
    async with bench.runtime() as life:
        host = await life.host(cast.resolver)
        before = life.journal()
        await refused(MembershipDropped, host.execute(cast.group().children[0]))
        assert cast.attempts == [[]], "a grouped envelope never runs on this path"
        cast.finish()
        assert await host.execute(cast.envelope(0)) == Completed(0)
        cast.missing.add(0)
        await refused(NoExecutor, host.execute(cast.envelope(0)))
        assert life.journal() == before


async def a_timer_keeps_its_due_instant(bench: HostBench) -> None:
    """It is journaled at the open: a restart neither resets nor forgets it."""
    key = bench.key("timer")
    first, second = Cast(key, 1), Cast(key, 1)
    children = [first.envelope(0, kind="timer", args=[20.5])]
    async with bench.runtime("crash") as life:
        await (await life.host(first.resolver)).open_group(first.group(children=children))
        await first.begun()
        life.advance(7.0)
    async with bench.runtime() as life:
        await (await life.host(second.resolver)).open_group(second.group(children=children))
        await second.begun()
    assert first[0].dues == second[0].dues
    assert first[0].dues[0] > 20.5


OPEN_LAWS = (
    an_unwired_host_refuses_every_group_verb,
    a_second_resolver_is_refused,
    a_first_open_with_a_miss_writes_nothing,
    a_reopen_passes_a_miss_through,
    two_first_opens_at_once_run_each_child_once,
    a_reopen_beside_running_children_starts_nothing,
    a_drifted_shape_is_refused,
    a_drifted_child_is_a_replay_mismatch,
    a_cursor_out_of_range_is_refused,
    execute_runs_here_and_now_without_a_group,
    a_timer_keeps_its_due_instant,
)

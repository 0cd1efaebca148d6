"""Attempts of effects as children of groups: budget and back-off are facts of the journal."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from trouper import Backoff, EffectContext, MemoryStore, Reject, effect
from trouper.actors.groups import (
    Cancelled,
    ChildRow,
    ChildState,
    Completed,
    Disposition,
    Effect,
    EffectEnvelope,
    EffectGroup,
    EffectHost,
    EffectRunner,
    Failed,
    GroupHandle,
    Outcome,
    Runner,
    _timer,
    open_host,
)
from trouper.actors.groups._rows import CHILD_TABLE, child_key
from trouper.errors import NoExecutor, OutcomeUnknown, ValueRefused
from trouper.store import Store

EVERY_MINUTE = Backoff(60, factor=1, cap=60, jitter=0)


@pytest.fixture(autouse=True)
def utc_runs_with_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let journaled time pass between two hosts as the test's clock says."""
    utc = SimpleNamespace(time=lambda: 1.7e9 + trio.current_time())
    monkeypatch.setattr(_timer, "time", utc)


class Declined(Exception):
    """An answer of somebody else's library."""


class Stage:
    """One effect whose attempts follow a script, and where each of them began.

    A line of the script is an exception to raise, a value to return, or a gate to wait at. Behind
    its end comes success.
    """

    def __init__(self, *script: Any, **options: Any) -> None:
        self.script = list(script)
        self.seen: list[tuple[int, int]] = []  # attempt, failures before it
        self.keys: set[str] = set()
        self.contexts: list[EffectContext] = []
        self.begun = trio.Event()
        self.missing = False
        options = {"attempts": 3, "backoff": EVERY_MINUTE, **options}

        @effect(name="play", **options)
        async def play(ctx: EffectContext) -> Any:
            self.contexts.append(ctx)
            self.seen.append((ctx.attempt, ctx.failures))
            self.keys.add(ctx.key)
            self.begun.set()
            line = self.script.pop(0) if self.script else "done"
            if isinstance(line, trio.Event):
                await line.wait()
                return "done"
            if isinstance(line, BaseException):
                raise line
            return line

        self.play: Effect[..., Any] = play

    def resolver(self, envelope: EffectEnvelope) -> Runner | None:
        if self.missing:
            return None
        return EffectRunner(self.play, envelope, trio.CapacityLimiter(1))

    def group(self, losers: Disposition = Disposition.RUN_TO_COMPLETION) -> EffectGroup:
        return EffectGroup.of("g", [self.play.envelope([], {}, "s", "g/0")], disposition=losers)


@asynccontextmanager
async def staged(
    store: Store, stage: Stage, **options: Any
) -> AsyncIterator[tuple[EffectHost, GroupHandle]]:
    async with open_host(store, stage.resolver, shutdown=0, **options) as host:
        yield host, await host.open_group(stage.group())


async def outcome_of(host: EffectHost, handle: GroupHandle) -> Outcome:
    return (await host.next_settlement(handle)).outcome


def row_of(store: Store) -> ChildRow:
    row = store.get(CHILD_TABLE, child_key("g", 0), ChildRow)
    assert row is not None
    return row


async def in_backoff(store: Store, failures: int = 1) -> ChildRow:
    while row_of(store).failures < failures:
        await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked()
    return row_of(store)


async def played(stage: Stage) -> Outcome:
    async with staged(MemoryStore(debug=True), stage) as (host, handle):
        return await outcome_of(host, handle)


async def test_a_failure_is_followed_by_another_attempt_after_the_back_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage(OSError("no route"), ValueError("garbled"))
    start = trio.current_time()
    assert await played(stage) == Completed("done")
    assert stage.seen == [(1, 0), (2, 1), (3, 2)]
    assert stage.keys == {"g/0"}, "one idempotency key for all attempts"
    assert trio.current_time() - start == pytest.approx(120)


async def test_the_last_failure_is_the_outcome(autojump_clock: trio.testing.MockClock) -> None:
    outcome = await played(Stage(OSError("1"), OSError("2"), OSError("3")))
    assert isinstance(outcome, Failed)
    assert not outcome.unknown
    assert outcome.error.message == "OSError: 3"


async def test_an_effect_is_not_repeated_unasked() -> None:
    stage = Stage(OSError("no route"), attempts=1)
    assert isinstance(await played(stage), Failed)
    assert stage.seen == [(1, 0)]


@pytest.mark.parametrize("answer", [Reject("no"), Declined("no")], ids=repr)
async def test_a_definite_answer_ends_the_effect_at_once(answer: Exception) -> None:
    stage = Stage(answer, definite=(Declined,))
    outcome = await played(stage)
    assert isinstance(outcome, Failed)
    assert not outcome.unknown
    assert stage.seen == [(1, 0)]


async def test_a_result_that_cannot_be_kept_is_not_asked_for_again() -> None:
    stage = Stage(object())
    outcome = await played(stage)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.exception(), ValueRefused)
    assert stage.seen == [(1, 0)]


async def test_a_timeout_is_retried(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage(trio.Event(), timeout=5)
    start = trio.current_time()
    assert await played(stage) == Completed("done")
    assert trio.current_time() - start == pytest.approx(65)
    deadlines = [context.deadline - start for context in stage.contexts]
    assert deadlines == pytest.approx([5, 70])


async def test_the_last_timeout_is_an_unknown_outcome(
    autojump_clock: trio.testing.MockClock,
) -> None:
    outcome = await played(Stage(OSError(), trio.Event(), trio.Event(), timeout=5))
    assert isinstance(outcome, Failed)
    assert outcome.unknown
    assert isinstance(outcome.exception(), OutcomeUnknown)


async def test_a_last_failure_behind_a_timeout_is_what_it_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    outcome = await played(Stage(trio.Event(), OSError("late"), timeout=5, attempts=2))
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "OSError: late"


async def test_an_effect_without_a_timeout_has_no_deadline() -> None:
    stage = Stage()
    await played(stage)
    assert stage.contexts[0].deadline == math.inf


@pytest.mark.parametrize(
    ("error", "unknown"), [(OSError("half sent"), True), (Reject("rolled back"), False)], ids=repr
)
async def test_an_error_on_the_way_out_of_a_timeout_is_no_answer_unless_it_is_definite(
    error: Exception, unknown: bool, autojump_clock: trio.testing.MockClock
) -> None:
    @effect(name="cut", timeout=5)
    async def cut() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise error from None

    stage = Stage()
    stage.play = cut
    outcome = await played(stage)
    assert isinstance(outcome, Failed)
    assert outcome.unknown is unknown


async def test_a_cancel_in_the_back_off_settles_at_once() -> None:
    store, stage = MemoryStore(debug=True), Stage(OSError())
    async with store, staged(store, stage) as (host, handle):
        before = await in_backoff(store)
        await host.close_group(handle, Disposition.CANCEL)
        handle = await host.open_group(stage.group(), consumed=0)
        assert await outcome_of(host, handle) == Cancelled()
        assert stage.seen == [(1, 0)]
        after = row_of(store)
        assert (after.attempt, after.failures) == (before.attempt, before.failures) == (1, 1)


async def test_an_attempt_that_a_cancel_reached_is_the_last() -> None:
    store, gate = MemoryStore(), trio.Event()
    stage = Stage()

    @effect(name="play", attempts=3, backoff=EVERY_MINUTE)
    async def play(ctx: EffectContext) -> None:
        gate.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            assert ctx.cancelled
            raise OSError("while it wound down") from None

    stage.play = play
    async with store, staged(store, stage) as (host, handle):
        await gate.wait()
        await host.close_group(handle, Disposition.CANCEL)
        handle = await host.open_group(stage.group())
        outcome = await outcome_of(host, handle)
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "OSError: while it wound down"


async def test_a_shutdown_in_the_back_off_writes_nothing_and_the_due_instant_stands(
    mock_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore(debug=True)
    stage, again = Stage(OSError()), Stage()
    async with store:
        async with staged(store, stage):
            before = await in_backoff(store)
        assert row_of(store) == before
        mock_clock.jump(45)
        async with staged(store, again) as (host, handle):
            waiting = await in_backoff(store)
            assert (waiting.attempt, waiting.failures, waiting.due) == (1, 1, before.due)
            mock_clock.jump(14.9)
            await trio.testing.wait_all_tasks_blocked()
            assert again.seen == []
            mock_clock.jump(0.2)
            assert await outcome_of(host, handle) == Completed("done")
        assert again.seen == [(2, 1)]


async def test_what_became_due_meanwhile_runs_at_once(
    mock_clock: trio.testing.MockClock,
) -> None:
    store, stage, again = MemoryStore(), Stage(OSError()), Stage()
    async with store:
        async with staged(store, stage):
            await in_backoff(store)
        mock_clock.jump(1000)
        now = trio.current_time()
        async with staged(store, again) as (host, handle):
            assert await outcome_of(host, handle) == Completed("done")
        assert trio.current_time() == now


async def test_an_attempt_that_died_with_its_process_uses_up_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore(debug=True)
    async with store:
        for attempt in range(1, 6):
            stage = Stage(trio.Event(), attempts=2)
            async with staged(store, stage):
                await stage.begun.wait()
            assert stage.seen == [(attempt, 0)]
        last = Stage(OSError("1"), OSError("2"), attempts=2)
        async with staged(store, last) as (host, handle):
            assert isinstance(await outcome_of(host, handle), Failed)
        assert last.seen == [(6, 0), (7, 1)]


async def test_a_takeover_in_the_back_off_keeps_count_and_the_old_owner_starts_nothing(
    mock_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    old, new = Stage(OSError()), Stage()
    async with store, staged(store, old) as (first, _):
        await in_backoff(store)
        mock_clock.jump(31)
        async with staged(store, new) as (second, handle):
            await trio.testing.wait_all_tasks_blocked()
            taken = row_of(store)
            assert taken.owner == second.owner
            assert (taken.attempt, taken.failures) == (1, 1)
            mock_clock.jump(30)
            assert await outcome_of(second, handle) == Completed("done")
            assert new.seen == [(2, 1)]
            assert old.seen == [(1, 0)]
            assert await outcome_of(first, await first.open_group(old.group())) == Completed("done")


async def test_an_owner_that_lost_its_lease_unawares_starts_no_attempt(
    mock_clock: trio.testing.MockClock,
) -> None:
    """Both are due in one tick; the fence at the start decides."""
    store, gate = MemoryStore(), trio.Event()
    old, new = Stage(OSError()), Stage(gate)
    async with store, staged(store, old, lease=30):
        await in_backoff(store)
        async with open_host(store, new.resolver, shutdown=0) as second:
            mock_clock.jump(61)  # no task of the first one runs before the second one claims
            handle = await second.open_group(new.group())
            await new.begun.wait()
            gate.set()
            assert await outcome_of(second, handle) == Completed("done")
        assert old.seen == [(1, 0)]


async def test_a_lease_is_renewed_during_a_long_back_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    slow = Backoff(3600, cap=3600, jitter=0)
    stage, other = Stage(OSError(), backoff=slow), Stage(backoff=slow)
    async with store, staged(store, stage) as (first, handle):
        await trio.sleep(3000)
        async with staged(store, other):
            await trio.testing.wait_all_tasks_blocked()
            row = row_of(store)
            assert row.owner == first.owner
            assert row.expires > trio.current_time()
            assert await outcome_of(first, handle) == Completed("done")
        assert (stage.seen, other.seen) == ([(1, 0), (2, 1)], [])


async def test_a_drain_sees_a_child_through_its_back_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    store, stage, rest = MemoryStore(), Stage(OSError()), Stage(OSError())
    async with store:
        async with staged(store, stage) as (host, handle):
            await in_backoff(store)
            await host.close_group(handle, Disposition.RUN_TO_COMPLETION)
        async with open_host(store, rest.resolver, shutdown=0) as host:
            mock_clock.autojump_threshold = 0
            report = await host.drain().run("g")
        assert report.is_complete
        assert rest.seen == [(2, 1), (3, 2)]


async def test_a_cancelling_drain_ends_a_back_off_whose_owner_is_dead() -> None:
    store, stage, rest = MemoryStore(), Stage(OSError()), Stage()
    async with store:
        async with staged(store, stage) as (host, handle):
            await in_backoff(store)
        async with open_host(store, rest.resolver, shutdown=0) as host:
            await host.close_group(handle, Disposition.CANCEL)
            assert (await host.drain().run("g")).is_complete
            assert await outcome_of(host, await host.open_group(rest.group())) == Cancelled()
        assert rest.seen == []
        assert row_of(store).attempt == 1, "what never ran is no attempt"


async def test_an_effect_that_is_unknown_when_it_is_due_is_stuck_and_goes_on_where_it_is_known(
    mock_clock: trio.testing.MockClock,
) -> None:
    store, stage, again = MemoryStore(), Stage(OSError()), Stage()
    async with store:
        async with staged(store, stage) as (host, _):
            stage.missing = True
            actor = host.group("g")
            await in_backoff(store)
            mock_clock.jump(61)
            while actor.stuck is None:
                await actor.changed()
            assert isinstance(actor.stuck, NoExecutor)
            report = await host.drain().run("g")
            assert [child.state for child in report.children] == [ChildState.NO_EXECUTOR]
        assert row_of(store).attempt == 1
        async with staged(store, again) as (host, handle):
            assert await outcome_of(host, handle) == Completed("done")
        assert again.seen == [(2, 1)]


async def test_an_ungrouped_envelope_is_tried_as_often(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(OSError("no route"))
    async with open_host(MemoryStore(), stage.resolver, shutdown=0) as host:
        assert await host.execute(stage.play.envelope([], {}, "s", "k")) == Completed("done")
    assert stage.seen == [(1, 0), (2, 1)]
    assert "attempt 1 of k failed (OSError: no route); the next one is due in 60 s" in caplog.text

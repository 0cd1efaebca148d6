"""The host suite can fail: each planted fault is caught by the law of its rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio.testing
from tests.conformance.planting import Catches, Faults, Patch

from trouper.actors.groups import (
    Cancelled,
    ChildRow,
    Disposition,
    EffectContext,
    EffectGroup,
    EffectHost,
    GroupActor,
    GroupDrain,
    GroupHandle,
    GroupRow,
    Runner,
    Settlement,
    _actor,
    _attempts,
    _drain,
    _host,
    _ledger,
    _rules,
)
from trouper.actors.groups import attempt as sound_attempt
from trouper.actors.groups._ledger import Arrival
from trouper.actors.groups._rows import GROUP_TABLE, group_key
from trouper.actors.groups._rules import Claim, Lease
from trouper.errors import TrouperError
from trouper.mailbox import Dispatcher
from trouper.store import Tx

breaks = Faults()


@breaks("a_late_caller_sees_settlement_order")
def late_callers_get_argument_order(patch: pytest.MonkeyPatch) -> None:
    served = GroupActor.settlement

    def settlement(self: GroupActor, rank: int) -> Settlement:
        in_order = sorted(self.settled, key=lambda child: child.position)
        place = self.settled.index(in_order[rank - 1])
        return replace(served(self, place + 1), rank=rank)

    patch.setattr(GroupActor, "settlement", settlement)


@breaks("a_taken_over_child_burns_no_rank")
def the_counter_is_bumped_before_the_fence(patch: pytest.MonkeyPatch) -> None:
    sound = _ledger.finalise_all

    def finalise_all(tx: Tx, key: str, arrivals: Sequence[Arrival], now: float) -> Any:
        row, ends = sound(tx, key, arrivals, now)
        moved = sum(isinstance(end, Exception) for end in ends)
        if moved:
            assert row is not None
            row = replace(row, counter=row.counter + moved)
            tx.put(GROUP_TABLE, group_key(key), row)
        return row, ends

    patch.setattr(_actor, "finalise_all", finalise_all)


@breaks("two_owners_of_one_group_never_share_a_rank")
def a_rank_is_one_more_than_was_read_before(patch: pytest.MonkeyPatch) -> None:
    sound = GroupActor.plan

    def plan(self: GroupActor, inbox: Any) -> Any:
        seen, made = self.last_sequence, sound(self, inbox)
        if made is not None:
            unit = made.unit

            def read_then_max(tx: Tx) -> Any:
                row = tx.get(GROUP_TABLE, group_key(self.key), GroupRow)
                assert row is not None
                tx.put(GROUP_TABLE, group_key(self.key), replace(row, counter=seen))
                return unit(tx)

            made.unit = read_then_max
        return made

    patch.setattr(GroupActor, "plan", plan)


@breaks("narrowing_is_journaled")
def narrowing_stays_in_memory(patch: pytest.MonkeyPatch) -> None:
    sound = _ledger.close_group

    def close_group(tx: Tx, key: str, seen: int, asked: Disposition) -> GroupRow | None:
        row = sound(tx, key, seen, asked)
        if row is not None:
            tx.put(GROUP_TABLE, group_key(key), replace(row, effective=row.declared))
        return row

    patch.setattr(_host, "close_unit", close_group)


@breaks("a_late_result_after_the_new_owner_s_is_not_counted")
@breaks("a_taken_over_child_burns_no_rank")
def a_fence_that_lets_everybody_pass(patch: pytest.MonkeyPatch) -> None:
    sound = _rules.finalise

    def finalise(row: GroupRow, child: ChildRow, held: Claim, outcome: bytes, now: float) -> Any:
        return sound(row, replace(child, sequence=0), _ledger.held(child), outcome, now)

    patch.setattr(_ledger, "finalise", finalise)


@breaks("arrivals_behind_a_flush_keep_the_order_of_their_ticks")
def a_batch_is_ranked_by_position(patch: pytest.MonkeyPatch) -> None:
    def arrival(tick: int, *rest: Any) -> Arrival:
        return Arrival(0, *rest)

    patch.setattr(_actor, "Arrival", arrival)


@breaks("position_breaks_ties_within_one_tick")
def ties_go_to_whom_the_loop_ran_first(patch: pytest.MonkeyPatch) -> None:
    count = iter(range(-(10**9), 0))

    def arrival(tick: int, *rest: Any) -> Arrival:
        return Arrival(next(count), *rest)

    patch.setattr(_actor, "Arrival", arrival)


@breaks("shutdown_journals_no_terminal")
def a_shutdown_counts_as_a_cancel(patch: pytest.MonkeyPatch) -> None:
    async def attempt(runner: Runner, context: EffectContext) -> Any:
        return await sound_attempt(runner, context) or Cancelled()

    patch.setattr(_attempts, "attempt", attempt)


@breaks("two_first_opens_at_once_run_each_child_once")
def a_host_may_claim_again_what_it_holds(patch: pytest.MonkeyPatch) -> None:
    sound = _rules.is_free

    def is_free(child: ChildRow, lease: Lease) -> bool:
        return sound(child, lease) or (child.owner == lease.owner and not child.settled)

    patch.setattr(_rules, "is_free", is_free)


@breaks("a_live_lease_is_not_taken")
def a_lease_of_another_host_is_no_obstacle(patch: pytest.MonkeyPatch) -> None:
    def is_free(child: ChildRow, lease: Lease) -> bool:
        return not child.settled

    patch.setattr(_rules, "is_free", is_free)
    patch.setattr(_host, "is_free", is_free)


@breaks("the_claims_of_a_dead_host_are_free_at_once")
def only_time_frees_a_claim(patch: pytest.MonkeyPatch) -> None:
    sound = _rules.is_free

    def is_free(child: ChildRow, lease: Lease) -> bool:
        return sound(child, replace(lease, is_dead=lambda owner: False))

    patch.setattr(_rules, "is_free", is_free)
    patch.setattr(_host, "is_free", is_free)


@breaks("a_first_open_with_a_miss_writes_nothing")
def a_miss_is_refused_behind_the_group_row(patch: pytest.MonkeyPatch) -> None:
    sound = EffectHost.open_group

    async def open_group(self: EffectHost, group: EffectGroup, *, consumed: int = 0) -> GroupHandle:
        try:
            return await sound(self, group, consumed=consumed)
        except TrouperError:
            if self.supports_groups:
                await self.store.commit(self.opening(group, {}))
            raise

    patch.setattr(EffectHost, "open_group", open_group)


@breaks("a_reopen_passes_a_miss_through")
def a_reopen_resolves_everybody(patch: pytest.MonkeyPatch) -> None:
    def resolve_for_open(self: EffectHost, group: EffectGroup) -> Mapping[int, Runner]:
        found = {p: self.resolve(child) for p, child in enumerate(group.children)}
        return {p: runner for p, runner in found.items() if runner is not None}

    patch.setattr(EffectHost, "resolve_for_open", resolve_for_open)


@breaks("a_drifted_shape_is_refused")
def settled_groups_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    sound = _rules.require_shape

    def require_shape(row: GroupRow, children: Sequence[ChildRow], group: EffectGroup) -> None:
        if row.counter < row.children:
            sound(row, children, group)

    patch.setattr(_ledger, "require_shape", require_shape)


@breaks("a_handle_older_than_the_close_cannot_wait")
def a_close_counts_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def require_open(self: GroupActor, handle: GroupHandle) -> None:
        pass

    patch.setattr(GroupActor, "require_open", require_open)


@breaks("close_returns_before_the_losers_are_gone")
def a_close_waits_for_the_teardown(patch: pytest.MonkeyPatch) -> None:
    sound = EffectHost.close_group

    async def close_group(self: EffectHost, handle: GroupHandle, asked: Disposition) -> None:
        await sound(self, handle, asked)
        actor = self.in_memory(handle.key)
        while actor is not None and actor.running:
            await actor.changed()

    patch.setattr(EffectHost, "close_group", close_group)


@breaks("a_close_right_behind_an_open_still_cancels")
def a_close_reaches_only_what_runs_already(patch: pytest.MonkeyPatch) -> None:
    sound = EffectHost.adopt

    def adopt(self: EffectHost, *args: Any) -> GroupActor:
        with patch.context() as inside:
            inside.setattr(GroupActor, "apply_close", lambda self, row: None)
            return sound(self, *args)

    patch.setattr(EffectHost, "adopt", adopt)


@breaks("a_close_and_the_last_end_in_one_flush_both_count")
def the_last_verdict_heard_is_the_row(patch: pytest.MonkeyPatch) -> None:
    def learn(self: GroupActor, row: GroupRow) -> None:
        self.row = row

    patch.setattr(GroupActor, "_learn", learn)
    # A pass in the place of its verdict hears them in order; those of workers, any time later.
    patch.setattr(Dispatcher, "pass_now", Dispatcher.enlist)


@breaks("what_was_not_durable_was_never_served")
def a_rank_is_served_before_its_commit(patch: pytest.MonkeyPatch) -> None:
    sound = GroupActor.arrived

    def arrived(self: GroupActor, child: Any, outcome: bytes) -> None:
        row = self.unsettled[child.position]
        number = len(self.settled) + 1
        self._ranks.append(replace(row, outcome=outcome, sequence=number))
        self.announce()
        sound(self, child, outcome)

    patch.setattr(GroupActor, "arrived", arrived)


@breaks("cancelling_a_wait_changes_nothing")
def the_cursor_moves_when_the_wait_begins(patch: pytest.MonkeyPatch) -> None:
    sound = EffectHost.next_settlement

    async def next_settlement(self: EffectHost, handle: GroupHandle) -> Settlement:
        asked = replace(handle)
        handle.consumed += 1
        return await sound(self, asked)

    patch.setattr(EffectHost, "next_settlement", next_settlement)


@breaks("a_run_on_drain_runs_the_losers")
@breaks("a_drain_defers_to_this_host_s_own_work")
def a_drain_works_beside_its_host(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDrain, "_working", lambda self, key: [])


@breaks("a_drain_wakes_whoever_waits_on_another_host")
def a_drain_keeps_its_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EffectHost, "changed_by_drain", lambda self, key: self.noticed(key))


@breaks("a_stopped_drain_starts_nothing")
def a_drain_never_stops(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDrain, "stop", lambda self: None)


@breaks("a_drain_that_ends_with_its_host_is_no_outcome")
def a_cut_drain_counts_as_a_cancel(patch: pytest.MonkeyPatch) -> None:
    a_shutdown_counts_as_a_cancel(patch)


@breaks("an_overtaken_drain_reports_contested")
def a_drain_takes_every_claim_for_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_drain, "held", lambda child: None)


@breaks("a_cancel_drain_journals_cancelled_and_runs_nothing")
def a_drain_runs_whatever_was_declared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDrain, "_cancel", GroupDrain._run)


@breaks("the_drain_lists_closed_groups_only")
def every_group_qualifies_for_the_drain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupRow, "closed", property(lambda self: True))


@breaks("a_miss_is_no_outcome")
def a_miss_is_failed_by_the_drain(patch: pytest.MonkeyPatch) -> None:
    sound = GroupDrain._run

    async def run(self: GroupDrain, key: str) -> Any:
        report = await sound(self, key)
        await self._cancel(key)
        return report

    patch.setattr(GroupDrain, "_run", run)


@breaks("a_drain_reports_a_live_lease_of_another_host")
def a_drain_takes_what_another_host_works_on(patch: pytest.MonkeyPatch) -> None:
    a_lease_of_another_host_is_no_obstacle(patch)


@pytest.mark.parametrize(("law", "plant"), breaks.cases)
async def test_a_planted_fault_is_caught(
    law: str,
    plant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
    catches: Catches,
) -> None:
    await catches(law, lambda: plant(monkeypatch), mock_clock)

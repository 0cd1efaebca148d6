"""The operation suite can fail: each planted fault is caught by the law of its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from tests.conformance.planting import Faults, Patch, assert_caught

from trouper.actors.groups import Completed, EffectHost, encode_outcome
from trouper.actors.groups._board import Board
from trouper.actors.operations import (
    Observation,
    Operation,
    OperationRow,
    Operations,
    OperationState,
    OperationStatus,
    _actor,
    _lattice,
    _operation,
)
from trouper.actors.operations._actor import Attempt, Claim, Observe, OperationActor
from trouper.actors.operations._rows import NOBODY, TABLE, operation_key
from trouper.store import MemoryStore, Tx
from trouper.testing.conformance import operations

breaks = Faults()
PENDING, RUNNING, UNKNOWN, FAILED, COMPLETED = OperationStatus


def merging(
    patch: pytest.MonkeyPatch, merge: Callable[[OperationState, Observation], OperationState]
) -> None:
    def settle(state: OperationState, seen: Observation, *, keep: int = 32) -> OperationState:
        return merge(state, seen)

    patch.setattr(_actor, "settle", settle)


def forced(state: OperationState, seen: Observation) -> OperationState:
    return replace(
        _lattice.refuse(state, seen),
        status=seen.status,
        result=seen.result,
        version=state.version + 1,
    )


# -- merges ----------------------------------------------------------------------------------


@breaks("a_record_is_never_downgraded")
@breaks("a_timeout_merges_first_and_then_looks")
def the_last_write_wins(patch: pytest.MonkeyPatch) -> None:
    merging(patch, forced)


@breaks("a_second_success_with_another_result_is_kept_as_a_conflict")
def the_last_success_wins(patch: pytest.MonkeyPatch) -> None:
    def merge(state: OperationState, seen: Observation) -> OperationState:
        again = seen.status is state.status is COMPLETED
        return (forced if again else _lattice.settle)(state, seen)

    merging(patch, merge)


@breaks("a_second_success_with_another_result_is_kept_as_a_conflict")
def a_second_success_is_only_counted(patch: pytest.MonkeyPatch) -> None:
    def merge(state: OperationState, seen: Observation) -> OperationState:
        if seen.status is state.status is COMPLETED:
            return replace(state, ignored=state.ignored + 1)
        return _lattice.settle(state, seen)

    merging(patch, merge)


@breaks("a_second_success_with_another_result_is_kept_as_a_conflict")
def noise_pushes_a_conflict_out(patch: pytest.MonkeyPatch) -> None:
    def logged(state: OperationState, seen: Observation, keep: int) -> OperationState:
        return replace(state, observations=(*state.observations, seen)[-keep:])

    patch.setattr(_lattice, "_logged", logged)


@breaks("failed_is_upgraded_by_durable_evidence")
def a_failure_absorbs(patch: pytest.MonkeyPatch) -> None:
    def merge(state: OperationState, seen: Observation) -> OperationState:
        merged = _lattice.refuse if state.status is FAILED else _lattice.settle
        return merged(state, seen)

    merging(patch, merge)


@breaks("unknown_is_upgraded_by_a_late_success")
@breaks("a_lost_answer_is_unknown_and_runs_again")
def unknown_absorbs(patch: pytest.MonkeyPatch) -> None:
    def merge(state: OperationState, seen: Observation) -> OperationState:
        merged = _lattice.refuse if state.status is UNKNOWN else _lattice.settle
        return merged(state, seen)

    merging(patch, merge)


@breaks("a_completed_record_answers_without_running")
@breaks("failed_is_upgraded_by_durable_evidence")
def a_success_loses_its_result(patch: pytest.MonkeyPatch) -> None:
    sound = OperationRow.with_state

    def with_state(self: OperationRow, state: OperationState) -> OperationRow:
        empty = encode_outcome(Completed(None))
        lossy = replace(state, result=empty) if state.status is COMPLETED else state
        return sound(self, lossy)

    patch.setattr(OperationRow, "with_state", with_state)


@breaks("the_log_is_bounded")
def the_log_grows(patch: pytest.MonkeyPatch) -> None:
    def logged(state: OperationState, seen: Observation, keep: int) -> OperationState:
        return replace(state, observations=(*state.observations, seen))

    patch.setattr(_lattice, "_logged", logged)


@breaks("a_large_result_leaves_room_for_the_log")
def the_log_carries_results(patch: pytest.MonkeyPatch) -> None:
    def logged(state: OperationState, seen: Observation, keep: int) -> OperationState:
        return replace(state, observations=(*state.observations, seen)[-keep:])

    patch.setattr(_lattice, "_logged", logged)


# -- keys and answers ------------------------------------------------------------------------


@breaks("a_key_belongs_to_one_request")
def a_key_serves_any_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_operation, "fingerprint", lambda domain, request: b"all alike")


@breaks("nothing_runs_after_a_failure")
def a_failure_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperationStatus, "terminal", property(lambda self: self is COMPLETED))


@breaks("a_lost_answer_is_unknown_and_runs_again")
def a_lost_answer_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_actor, "_has_lost", lambda error, lost: False)


@breaks("a_timeout_merges_first_and_then_looks")
def a_timeout_looks_at_nothing(patch: pytest.MonkeyPatch) -> None:
    sound = Operation.run

    async def run(self: Operation, fn: Any, *args: Any, timeout: float | None = None) -> Any:
        if timeout is None:
            return await sound(self, fn, *args)
        with trio.move_on_after(timeout):
            return await sound(self, fn, *args)
        raise self._unknown("out of time")

    patch.setattr(Operation, "run", run)


@breaks("a_timeout_without_an_answer_is_recorded")
def a_timeout_stays_with_the_caller(patch: pytest.MonkeyPatch) -> None:
    async def observe(self: Operation, seen: Observation) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(Operation, "_observe", observe)


@breaks("what_was_not_durable_was_never_told")
def an_answer_comes_before_its_record(patch: pytest.MonkeyPatch) -> None:
    sound = OperationActor.post

    def post(self: OperationActor, command: Any) -> None:
        if isinstance(command, Observe):
            state = _lattice.settle(self.row.state(), command.observation)
            self.row = self.row.with_state(state)
            self._announce()
        sound(self, command)

    patch.setattr(OperationActor, "post", post)


# -- attempts --------------------------------------------------------------------------------


@breaks("ending_a_wait_ends_only_the_waiting")
@breaks("a_stuck_attempt_is_joined")
def an_attempt_is_its_callers(patch: pytest.MonkeyPatch) -> None:
    async def run(self: Operation, claim: Claim) -> Any:
        return await claim.fn(self.key, *claim.args)

    patch.setattr(Operation, "_run", run)


@breaks("a_crash_before_the_record_runs_again_under_the_same_key")
def every_attempt_has_a_key_of_its_own(patch: pytest.MonkeyPatch) -> None:
    sound = Attempt.run

    async def run(self: Attempt, ctx: Any) -> Any:
        self._key = f"{self._key} {ctx.attempt}"
        return await sound(self, ctx)

    patch.setattr(Attempt, "run", run)


@breaks("a_crash_before_the_record_runs_again_under_the_same_key")
def a_crash_forgets_how_many_attempts_there_were(patch: pytest.MonkeyPatch) -> None:
    sound = OperationRow.claimed_by

    def claimed_by(self: OperationRow, owner: Any, expires: float) -> OperationRow:
        return replace(sound(self, owner, expires), token=1)

    patch.setattr(OperationRow, "claimed_by", claimed_by)


@breaks("a_dead_attempt_is_taken_over")
def only_its_owner_may_try_again(patch: pytest.MonkeyPatch) -> None:
    def is_attempted(row: OperationRow, host: EffectHost, now: float) -> bool:
        return row.owner not in (NOBODY, host.owner)

    patch.setattr(_actor, "_is_attempted", is_attempted)


@breaks("a_dead_attempt_is_taken_over")
def a_lost_attempt_leaves_no_trace(patch: pytest.MonkeyPatch) -> None:
    sound = OperationActor._claim

    def claim(self: OperationActor, state: OperationState, row: OperationRow) -> Any:
        return sound(self, state, row.released())

    patch.setattr(OperationActor, "_claim", claim)


@breaks("an_attempt_of_another_owner_is_joined")
def a_claim_of_another_owner_is_no_obstacle(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_actor, "_is_attempted", lambda row, host, now: False)


@breaks("an_attempt_of_another_owner_is_joined")
def a_claim_is_only_as_long_as_its_status_says_so(patch: pytest.MonkeyPatch) -> None:
    sound = _actor._is_attempted

    def is_attempted(row: OperationRow, host: EffectHost, now: float) -> bool:
        return row.status == RUNNING and sound(row, host, now)

    patch.setattr(_actor, "_is_attempted", is_attempted)


@breaks("a_joined_attempt_that_lost_its_answer_is_nobody_s")
def a_claim_outlasts_its_attempt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperationRow, "released", lambda self: self)


@breaks("a_joined_attempt_whose_owner_dies_is_taken_over")
def a_death_is_no_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Board, "tell_all", lambda self, kind: None)


@breaks("an_attempt_of_another_owner_is_joined")
def whoever_waits_elsewhere_hears_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Board, "tell", lambda self, *topic: None)


@breaks("a_late_owner_is_refused_and_logged")
def a_late_owner_passes_the_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Observe, "is_late", lambda self, row, owner: False)


@breaks("a_late_owner_is_refused_and_logged")
def a_late_owner_leaves_no_trace(patch: pytest.MonkeyPatch) -> None:
    sound = OperationActor._merged

    def merged(
        self: OperationActor, state: OperationState, seen: Observation, *, late: bool
    ) -> OperationState:
        return state if late else sound(self, state, seen, late=late)

    patch.setattr(OperationActor, "_merged", merged)


@breaks("forget_leaves_no_row")
def forget_keeps_the_row(patch: pytest.MonkeyPatch) -> None:
    def forget(self: OperationActor, tx: Tx) -> None:
        row = tx.get(TABLE, operation_key(self.key), OperationRow)
        if row is not None:
            tx.put(TABLE, operation_key(self.key), row.with_state(OperationState()))

    patch.setattr(OperationActor, "_forget", forget)


@breaks("forget_leaves_no_row")
def forget_takes_what_is_live(patch: pytest.MonkeyPatch) -> None:
    async def forget(self: Operations, key: str) -> None:
        actor = self._actors.pop(key, None)
        await self._host.store.commit(lambda tx: tx.delete(TABLE, operation_key(key)))
        if actor is not None:
            actor.forgotten = True

    patch.setattr(Operations, "forget", forget)


@pytest.mark.parametrize(("law", "plant"), breaks.cases)
async def test_a_planted_fault_is_caught(
    law: str,
    plant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
) -> None:
    def bench() -> operations.EmbeddedOperations:
        store = MemoryStore()
        return operations.EmbeddedOperations(lambda: store, mock_clock)

    await assert_caught(law, operations.LAWS, bench, lambda: plant(monkeypatch))


def test_every_law_is_failed_by_some_fault() -> None:
    assert {law.__name__ for law in operations.LAWS} == breaks.laws

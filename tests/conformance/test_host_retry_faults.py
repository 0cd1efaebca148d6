"""The laws of retries can fail: each planted fault is caught by the law of its rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio.testing
from tests.conformance.planting import Catches, Faults, Patch

from trouper.actors.groups import (
    Cancelled,
    ChildRow,
    EffectContext,
    ErrorRecord,
    Failed,
    GroupActor,
    Outcome,
    Retry,
    Runner,
    _attempts,
    _children,
    _ledger,
    _moves,
    _rules,
)
from trouper.actors.groups import attempt as sound_attempt
from trouper.actors.groups._actor import RunningChild
from trouper.actors.groups._rules import Claim, Lease

breaks = Faults()


@breaks("a_failed_attempt_is_followed_by_another_when_it_is_due")
def every_failure_is_the_last(patch: pytest.MonkeyPatch) -> None:
    async def attempt(runner: Runner, context: EffectContext) -> Any:
        outcome = await sound_attempt(runner, context)
        return outcome.failed if isinstance(outcome, Retry) else outcome

    patch.setattr(_attempts, "attempt", attempt)


@breaks("failures_outlive_a_crash_at_every_commit")
@breaks("a_takeover_in_the_back_off_keeps_count")
def a_new_owner_counts_from_the_start(patch: pytest.MonkeyPatch) -> None:
    def claim(child: ChildRow, lease: Lease, *, starts: bool = True) -> ChildRow | None:
        return _rules.claim(replace(child, failures=0), lease, starts=starts)

    patch.setattr(_ledger, "claim", claim)


@breaks("a_due_instant_survives_the_host")
@breaks("failures_outlive_a_crash_at_every_commit")
def the_back_off_is_kept_in_memory(patch: pytest.MonkeyPatch) -> None:
    """The wait begins anew with each host, and none is left of one that was cut off."""

    def postpone(child: ChildRow, held: Claim, due: float) -> ChildRow:
        return replace(_rules.postpone(child, held, due), due=0.0)

    sound = _children.Children.run

    def run(self: Any, actor: GroupActor, row: ChildRow, runner: Runner) -> None:
        sound(self, actor, replace(row, failures=0), runner)

    patch.setattr(_moves, "postpone", postpone)
    patch.setattr(_children.Children, "run", run)


@breaks("a_failed_attempt_is_followed_by_another_when_it_is_due")
def no_start_is_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_moves, "begin", lambda child, held: child)


@breaks("a_cancel_reaches_the_back_off")
def a_cancel_in_the_back_off_ends_it_without_a_terminal(patch: pytest.MonkeyPatch) -> None:
    sound = _children.Children._over

    def over(self: Any, actor: GroupActor, child: RunningChild, outcome: Outcome | None) -> None:
        sound(self, actor, child, None if isinstance(outcome, Cancelled) else outcome)

    patch.setattr(_children.Children, "_over", over)


@breaks("a_takeover_in_the_back_off_keeps_count")
def an_attempt_begins_without_its_fence(patch: pytest.MonkeyPatch) -> None:
    def begin(child: ChildRow, held: Claim) -> ChildRow:
        return replace(child, attempt=child.attempt + 1)

    patch.setattr(_moves, "begin", begin)


@breaks("a_due_instant_survives_the_host")
def a_shutdown_in_the_back_off_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    sound = _children.Children._over
    last = Failed(ErrorRecord.of(OSError("shut down")))

    def over(self: Any, actor: GroupActor, child: RunningChild, outcome: Outcome | None) -> None:
        sound(self, actor, child, outcome or last)

    patch.setattr(_children.Children, "_over", over)


@pytest.mark.parametrize(("law", "plant"), breaks.cases)
async def test_a_planted_fault_is_caught(
    law: str,
    plant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
    catches: Catches,
) -> None:
    await catches(law, lambda: plant(monkeypatch), mock_clock)

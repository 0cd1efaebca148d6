"""The rules of one cell, as a machine against what a careful reader would keep on paper."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trouper.cells._cell import (
    LIVE,
    Action,
    Capped,
    Cell,
    CellState,
    Closed,
    Event,
    Killed,
    Lease,
    Opened,
    Reconcile,
    Returned,
    decide,
)
from trouper.errors import InvariantError

ALLOWED = {
    CellState.FREE: {CellState.RUNNING},
    CellState.RUNNING: {CellState.WAITING_PROVIDER, CellState.CLEANING},
    CellState.WAITING_PROVIDER: {CellState.RUNNING, CellState.CLEANING},
    CellState.CLEANING: {CellState.FREE, CellState.QUARANTINED},
    CellState.QUARANTINED: {CellState.FREE},
}


def leased() -> Cell:
    return decide(Cell(), Lease()).cell


def after(cell: Cell, *events: Event) -> Cell:
    for event in events:
        cell = decide(cell, event).cell
    return cell


class CellMachine(RuleBasedStateMachine):
    """Drives a cell as its slot does, and keeps the evidence apart from it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()
        self.open: list[int] = []  # sizes of the provider operations that physically run
        self.frame_out = False  # a frame runs on the thread
        self.witness_alive = False
        self.frees = self.leases = self.accounts = 0

    def apply(self, event: Event) -> tuple[Action, ...]:
        before = self.cell
        decision = decide(before, event)
        self.cell = decision.cell
        path = before.state, self.cell.state
        if path[0] is not path[1] and self.cell.state is not CellState.QUARANTINED:
            # Returned may pass through CLEANING within one decision.
            via = {CellState.CLEANING} if isinstance(event, Returned) else set()
            reach = ALLOWED[path[0]] | {s for v in via & ALLOWED[path[0]] for s in ALLOWED[v]}
            assert path[1] in reach, (path, event)
        if Action.FREE in decision.actions:
            self.frees += 1
            assert not self.frame_out
            assert not self.open
            assert not self.witness_alive
        self.accounts += Action.ACCOUNT in decision.actions
        return decision.actions

    @precondition(lambda self: self.cell.state is CellState.FREE)
    @rule()
    def lease(self) -> None:
        assert self.apply(Lease()) == (Action.START,)
        self.frame_out = self.witness_alive = True
        self.leases += 1

    @precondition(lambda self: self.frame_out and not self.open)
    @rule(size=st.integers(0, 1000))
    def ask(self, size: int) -> None:
        if Action.SERVE in self.apply(Opened(self.cell.generation, size)):
            self.open.append(size)

    @precondition(lambda self: bool(self.open))
    @rule()
    def provider_ends(self) -> None:
        self.apply(Closed(self.cell.generation, self.open.pop()))

    @rule()
    def kill(self) -> None:
        self.apply(Killed(self.cell.generation))

    @precondition(lambda self: self.frame_out)
    @rule(leak=st.sampled_from([False] * 9 + [True]), odd=st.sampled_from([None] * 9 + ["X"]))
    def frame_returns(self, leak: bool, odd: str | None) -> None:
        self.frame_out = False
        self.witness_alive = leak
        self.apply(Returned(self.cell.generation, not leak, odd))
        if leak or odd:
            assert self.cell.state is CellState.QUARANTINED

    @rule()
    def cap(self) -> None:
        was = self.cell.state
        self.apply(Capped(self.cell.generation))
        if was is CellState.CLEANING:
            assert self.cell.state is CellState.QUARANTINED
            assert self.cell.reasons
        else:
            assert self.cell.state is was

    @rule()
    def reconcile(self) -> None:
        proven = not (self.frame_out or self.open or self.witness_alive)
        was = self.cell.state
        self.apply(Reconcile())
        back = was is CellState.QUARANTINED and self.cell.state is CellState.FREE
        assert back == (was is CellState.QUARANTINED and proven)

    @precondition(lambda self: self.cell.generation > 0)
    @rule(
        event=st.sampled_from([Opened(0, 7), Closed(0, 7), Killed(0), Returned(0, True), Capped(0)])
    )
    def stale(self, event: Event) -> None:
        before = self.cell
        assert self.apply(event) == ()
        assert self.cell.stale == before.stale + 1
        assert self.cell.state is before.state
        assert self.cell.missing() == before.missing()

    @invariant()
    def evidence_is_what_the_cell_believes(self) -> None:
        assert self.cell.operations == len(self.open)
        assert self.cell.staged == sum(self.open)
        assert self.cell.returned is not self.frame_out
        assert self.cell.store_dead is not self.witness_alive
        assert self.accounts == self.leases - self.frame_out
        if self.cell.state is CellState.FREE:
            assert self.cell.missing() == ()


TestCellMachine = CellMachine.TestCase
TestCellMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_finished_run_frees_the_cell_at_once() -> None:
    decision = decide(leased(), Returned(1, True))
    assert decision.cell.state is CellState.FREE
    assert decision.actions == (Action.ACCOUNT, Action.FREE)


def test_a_cell_that_is_not_free_is_never_leased() -> None:
    with pytest.raises(InvariantError):
        decide(leased(), Lease())


def test_a_kill_is_decided_once() -> None:
    dying = decide(leased(), Killed(1))
    assert dying.actions == (Action.KILL, Action.WATCH)
    assert decide(dying.cell, Killed(1)).actions == ()


def test_a_request_after_the_kill_starts_nothing() -> None:
    decision = decide(after(leased(), Killed(1)), Opened(1, 10))
    assert decision.actions == ()
    assert decision.cell.operations == 0


def test_an_answer_is_given_only_while_the_guest_waits_for_it() -> None:
    waiting = after(leased(), Opened(1, 10))
    assert decide(waiting, Closed(1, 10)).actions == (Action.REPLY,)
    assert decide(after(waiting, Killed(1)), Closed(1, 10)).actions == ()


def test_every_missing_proof_is_a_reason() -> None:
    cell = after(leased(), Opened(1, 10), Killed(1), Capped(1))
    assert [reason.split(":")[0] for reason in cell.reasons] == [
        "frame",
        "store",
        "provider",
        "accounts",
    ]


def test_late_evidence_changes_nothing_until_somebody_reconciles() -> None:
    cell = after(leased(), Killed(1), Capped(1), Returned(1, True))
    assert cell.state is CellState.QUARANTINED
    assert cell.reasons
    assert cell.missing() == ()
    assert decide(cell, Reconcile()).actions == (Action.FREE,)


def test_accounts_closed_twice_are_not_clean() -> None:
    cell = after(leased(), Killed(1), Capped(1), Returned(1, True), Returned(1, True))
    assert decide(cell, Reconcile()).cell.state is CellState.QUARANTINED
    assert "accounts: closed 2 times" in cell.missing()[0]


def test_a_surviving_store_or_an_unknown_failure_quarantines_at_once() -> None:
    assert after(leased(), Returned(1, False)).reasons == ("store: not seen to be dropped",)
    assert after(leased(), Returned(1, True, "KeyError")).reasons == ("unexpected: KeyError",)


def test_closing_an_operation_that_is_not_open_is_a_bug() -> None:
    with pytest.raises(InvariantError):
        decide(leased(), Closed(1, 1))


def test_live_states_are_the_leased_ones() -> None:
    assert set(CellState) - LIVE == {CellState.FREE, CellState.QUARANTINED}

"""Random trees of ledgers on random schedules: nothing is spent twice, and nothing is lost.

The model counts by itself what is spent where; the ledgers only say what is left. The two meet in
one sum over the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from trouper.errors import BudgetExhausted, OwnershipError, ShuttingDown
from trouper.supervision import (
    Budget,
    Entry,
    Grant,
    Ledger,
    Reservation,
    Usage,
    admit,
)

FIELDS = ("fuel", "calls", "io_bytes")
ROOT = Grant(
    fuel=97, calls=61, io_bytes=50, memory=89, depth=3, live_children=3, live_descendants=9
)
small = st.integers(0, 12)
budgets = st.builds(
    Budget,
    fuel=st.none() | small,
    calls=st.none() | small,
    memory=st.none() | small,
    live_descendants=st.none() | st.integers(0, 3),
)
picks = st.integers(0, 10**6)


@dataclass
class Node:
    """One actor: its ledger, its journal, and what the model counts of it."""

    ledger: Ledger
    parent: str | None
    entries: list[Entry] = field(default_factory=list)
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0))
    peak: int = 0
    lost: int = 0

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.ledger = self.ledger.apply(entry)


class Trees(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.nodes = {"r": Node(Ledger("r", ROOT), None)}
        self.void: list[tuple[str, Reservation]] = []  # settled, or of a process that is gone
        self.born = 0

    def pick(self, n: int, ok: Callable[[str], bool] = lambda _: True) -> str | None:
        names = [name for name in self.nodes if ok(name)]
        return names[n % len(names)] if names else None

    def children(self, name: str) -> list[str]:
        return [child for child, node in self.nodes.items() if node.parent == name]

    def reservations(self) -> list[tuple[str, Reservation]]:
        return [(n, r) for n, node in self.nodes.items() for r in node.ledger.live.values()]

    # --- what happens ----------------------------------------------------------------------------

    @rule(n=picks, fuel=small, calls=small, io_bytes=small, level=st.integers(0, 40))
    def spend(self, n: int, fuel: int, calls: int, io_bytes: int, level: int) -> None:
        name = self.pick(n, lambda name: not self.nodes[name].ledger.is_ended)
        if name is None:
            return
        node = self.nodes[name]
        left = node.ledger.left
        fits = (
            fuel <= left.fuel
            and calls <= left.calls
            and io_bytes <= left.io_bytes
            and level <= node.peak + left.memory
        )
        try:
            entry = node.ledger.spend(fuel=fuel, calls=calls, io_bytes=io_bytes, memory=level)
        except BudgetExhausted:
            assert not fits
            return
        assert fits
        node.note(entry)
        for name_, amount in (("fuel", fuel), ("calls", calls), ("io_bytes", io_bytes)):
            node.spent[name_] += amount
        node.peak = max(node.peak, level)

    @rule(n=picks, row=st.lists(budgets, min_size=1, max_size=5))
    def reserve(self, n: int, row: list[Budget]) -> None:
        name = self.pick(n)
        assert name is not None
        node = self.nodes[name]
        waiting = [(f"{name}/{self.born + place}", asked) for place, asked in enumerate(row)]
        self.born += len(row)
        try:
            admission = admit(node.ledger, waiting)
        except ShuttingDown:
            assert node.ledger.is_closed
            return
        for entry in admission.reserved:
            node.note(entry)
        if admission.held:
            assert node.ledger.live, "somebody waits for a sibling that there is not"

    @precondition(lambda self: self.reservations())
    @rule(n=picks)
    def accept(self, n: int) -> None:
        every = self.reservations()
        name, held = every[n % len(every)]
        node = self.nodes[name]
        if held.number in node.ledger.accepted:
            return
        node.note(node.ledger.accept(held))
        node.spent["calls"] += 1
        self.nodes[held.child] = Node(Ledger(held.child, held.grant), name)

    @precondition(lambda self: self.reservations())
    @rule(n=picks, fuel=small)
    def decline(self, n: int, fuel: int) -> None:
        every = self.reservations()
        name, held = every[n % len(every)]
        node = self.nodes[name]
        if held.number in node.ledger.accepted:
            return
        fuel = min(fuel, held.grant.fuel)
        node.note(node.ledger.decline(held, Usage(fuel=fuel)))
        node.spent["fuel"] += fuel
        self.void.append((name, held))

    @rule(n=picks)
    def finish(self, n: int) -> None:
        """The code returned; descendants may run on."""
        name = self.pick(n)
        assert name is not None
        node = self.nodes[name]
        if name != "r" and not node.ledger.is_ended:
            node.note(node.ledger.close())

    @rule(n=picks, is_proper=st.booleans())
    def retire(self, n: int, is_proper: bool) -> None:
        name = self.pick(n, lambda name: name != "r" and not self.nodes[name].ledger.live)
        if name is None:
            return
        node = self.nodes.pop(name)
        assert node.parent is not None
        parent = self.nodes[node.parent]
        held = parent.ledger.reservation(name)
        assert held is not None
        if is_proper:
            node.note(node.ledger.end())
            parent.note(parent.ledger.settle(held, node.ledger.account))
            for each in FIELDS:
                parent.spent[each] += node.spent[each]
            parent.lost += node.lost
        else:
            parent.note(parent.ledger.settle(held, None))
            for each in FIELDS:
                parent.spent[each] += getattr(held.grant, each)
            parent.lost += held.grant.memory
        self.void.append((node.parent, held))

    @rule(n=picks, is_short=st.booleans())
    def crash(self, n: int, is_short: bool) -> None:
        """The process is gone; the journal is not. Absence refunds nothing."""
        name = self.pick(n)
        assert name is not None
        node = self.nodes[name]
        before = node.ledger
        if is_short:
            node.entries = list(before.compact())
        node.ledger = Ledger(name, before.grant).replay(node.entries)
        assert node.ledger == before
        self.void += [(name, held) for held in before.live.values()]

    # --- what somebody tries ----------------------------------------------------------------------

    @precondition(lambda self: self.void)
    @rule(n=picks, m=picks, is_lost=st.booleans())
    def settle_again(self, n: int, m: int, is_lost: bool) -> None:
        issuer, held = self.void[n % len(self.void)]
        other = self.pick(m)
        assert other is not None
        for name in {issuer, other} & set(self.nodes):
            ledger = self.nodes[name].ledger
            with pytest.raises(OwnershipError) as caught:
                ledger.settle(held, None if is_lost else Usage())
            assert caught.value.kind in {"settled", "forged", "foreign"}
            with pytest.raises(OwnershipError):
                ledger.decline(held)

    @precondition(lambda self: self.reservations())
    @rule(n=picks, m=picks)
    def settle_elsewhere(self, n: int, m: int) -> None:
        every = self.reservations()
        name, held = every[n % len(every)]
        other = self.pick(m, lambda other: other != name)
        if other is not None:
            with pytest.raises(OwnershipError):
                self.nodes[other].ledger.settle(held, None)

    # --- what always holds ------------------------------------------------------------------------

    @invariant()
    def all_that_was_given_is_somewhere_exactly_once(self) -> None:
        pending = [
            held
            for name, held in self.reservations()
            if held.number not in self.nodes[name].ledger.accepted
        ]
        for each in FIELDS:
            total = sum(
                node.spent[each] + getattr(node.ledger.left, each) for node in self.nodes.values()
            )
            total += sum(getattr(held.grant, each) for held in pending)
            total += len(pending) * (each == "calls")
            assert total == getattr(ROOT, each), each
        memory = sum(n.peak + n.lost + n.ledger.left.memory for n in self.nodes.values())
        assert memory + sum(held.grant.memory for held in pending) == ROOT.memory

    @invariant()
    def every_ledger_says_what_the_model_counted(self) -> None:
        for node in self.nodes.values():
            assert node.ledger.used == Usage(**node.spent, memory=node.peak, lost=node.lost)

    @invariant()
    def limits_hold_at_every_node(self) -> None:
        for name, node in self.nodes.items():
            grant = node.ledger.grant
            below = [n for n in self.nodes if n.startswith(f"{name}/")]
            assert len(node.ledger.live) <= grant.live_children
            assert len(below) <= grant.live_descendants
            assert name.count("/") + grant.depth <= ROOT.depth
            if node.parent is not None:
                assert grant.deadline <= self.nodes[node.parent].ledger.grant.deadline


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_budgets_are_conserved_whatever_crashes_and_whoever_forges() -> None:
    run_state_machine_as_test(Trees, settings=settings(max_examples=80, deadline=None))

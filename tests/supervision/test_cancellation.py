"""The cancellation tree: whom a cancel reaches, in which order, and who may retire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial

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

from trouper.errors import BudgetExhausted, OwnershipError
from trouper.supervision import (
    CancelFact,
    CancellationTree,
    CancelNode,
    NodeAdded,
    NodeCancelled,
    NodeClosed,
    NodeRetired,
)


def grown(*edges: str, limit: int = 257) -> CancellationTree:
    """Make a tree out of words like ``a`` (the root) and ``a>b``."""
    tree = CancellationTree(limit=limit)
    for edge in edges:
        parent, _, key = edge.rpartition(">")
        tree = tree.apply(tree.add(key, parent))
    return tree


FAMILY = grown("a", "a>b", "a>c", "b>d", "c>e", "b>f", "d>g")


def cancelled(tree: CancellationTree, key: str, reason: str = "why") -> CancellationTree:
    fact = tree.cancel(key, reason)
    assert fact is not None
    return tree.apply(fact)


def refused(decide: Callable[[], object]) -> str:
    with pytest.raises(OwnershipError) as caught:
        decide()
    return caught.value.kind


def marked(tree: CancellationTree) -> dict[str, tuple[str, str]]:
    return {n.key: (n.reason, n.origin) for n in tree.nodes.values() if n.reason is not None}


def test_a_cancel_reaches_the_subtree_parents_first_and_siblings_as_they_entered() -> None:
    assert FAMILY.reach("a") == ("a", "b", "d", "g", "f", "c", "e")
    assert FAMILY.reach("b") == ("b", "d", "g", "f")
    assert marked(cancelled(FAMILY, "b")) == dict.fromkeys("bdgf", ("why", "b"))


def test_a_cancel_reaches_each_node_once_and_the_first_reason_stands() -> None:
    tree = cancelled(FAMILY, "d", "first")
    assert tree.reach("a") == ("a", "b", "f", "c", "e")
    tree = cancelled(tree, "a", "second")
    assert marked(tree)["g"] == ("first", "d")
    assert marked(tree)["f"] == ("second", "a")
    assert tree.cancel("f", "third") is None
    assert tree.reach("a") == ()


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_node_added_under_a_cancelled_one_is_cancelled_at_once() -> None:
    tree = cancelled(FAMILY, "b")
    tree = tree.apply(tree.add("late", "g"))
    assert tree.nodes["late"] == CancelNode("late", "g", 7, "why", "b")


def test_an_addition_that_was_decided_before_the_cancel_does_not_escape_it() -> None:
    fact = FAMILY.add("late", "g")
    assert cancelled(FAMILY, "b").apply(fact).nodes["late"].reason == "why"


def test_a_cancelled_node_and_one_that_returned_delegate_nothing_more() -> None:
    tree = cancelled(FAMILY, "b")
    tree = tree.apply(tree.close("c"))
    assert [key for key in tree.nodes if tree.delegates(key)] == ["a", "e"]
    assert not tree.delegates("nobody")
    assert refused(lambda: tree.add("x", "c")) == "closed"


def test_a_node_that_returned_stays_until_its_children_retired_and_is_still_reached() -> None:
    tree = FAMILY.apply(FAMILY.close("b"))
    assert refused(lambda: tree.retire("b")) == "live"
    assert tree.reach("b") == ("b", "d", "g", "f")


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_children_retire_before_their_parents() -> None:
    tree = FAMILY
    assert tree.retirement("a") == ("e", "c", "f", "g", "d", "b", "a")
    for key in tree.retirement("a"):
        tree = tree.apply(tree.retire(key))
    assert dict(tree.nodes) == {}


def test_a_cancel_that_comes_late_changes_nothing() -> None:
    tree = FAMILY.apply(FAMILY.retire("e"))
    assert tree.cancel("e", "late") is None
    again = tree.apply(tree.add("e", "c"))
    assert again.cancel("e", "late", entry=FAMILY.nodes["e"].entry) is None
    assert again.cancel("e", "meant", entry=7) == NodeCancelled("e", 7, "meant")


def test_a_node_retires_once_and_a_later_one_of_its_name_is_another() -> None:
    tree = FAMILY.apply(FAMILY.retire("e"))
    assert refused(lambda: tree.retire("e")) == "unknown"
    again = tree.apply(tree.add("e", "c"))
    assert refused(lambda: again.retire("e", entry=4)) == "stale"
    assert refused(lambda: again.close("e", entry=4)) == "stale"


def test_a_node_enters_once_below_a_parent_and_there_is_one_root() -> None:
    assert refused(lambda: FAMILY.add("b", "a")) == "taken"
    assert refused(lambda: FAMILY.add("", "a")) == "taken"
    assert refused(lambda: FAMILY.add("second root")) == "taken"
    assert refused(lambda: FAMILY.add("x", "nobody")) == "unknown"


def test_a_full_tree_takes_nobody() -> None:
    with pytest.raises(BudgetExhausted, match="2 nodes"):
        grown("a", "a>b", limit=2).add("c", "a")


def test_a_deep_tree_needs_no_stack() -> None:
    edges = ["0"] + [f"{n}>{n + 1}" for n in range(2000)]
    tree = grown(*edges, limit=3000)
    assert len(marked(cancelled(tree, "0"))) == 2001
    assert tree.retirement("0")[0] == "2000"


BAD: list[CancelFact] = [
    NodeAdded("b", "a", 7),
    NodeAdded("x", "nobody", 7),
    NodeAdded("x", "", 7),
    NodeAdded("x", "a", 3),
    NodeRetired("b", 1),
    NodeRetired("e", 99),
    NodeClosed("nobody", 0),
    NodeCancelled("e", 99, "why"),
]


@pytest.mark.parametrize("fact", BAD, ids=repr)
def test_a_fact_that_contradicts_the_tree_is_refused_and_not_repaired(fact: CancelFact) -> None:
    assert refused(lambda: FAMILY.apply(fact)) == "entry"


class Trees(RuleBasedStateMachine):
    """The model: sets of who was reached, told by walking up instead of down."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[CancelFact] = []
        self.tree = CancellationTree(limit=12)
        self.parent: dict[str, str] = {}
        self.reason: dict[str, str] = {}
        self.told: list[str] = []
        self.born = 0

    def note(self, fact: CancelFact) -> None:
        for field in fields(fact):
            assert type(getattr(fact, field.name)) in (int, str)
        assert type(fact)(**asdict(fact)) == fact
        self.facts.append(fact)
        self.tree = self.tree.apply(fact)

    def pick(self, n: int) -> str:
        return list(self.parent)[n % len(self.parent)]

    def above(self, key: str) -> list[str]:
        line = [key]
        while self.parent[line[-1]]:
            line.append(self.parent[line[-1]])
        return line

    @rule(n=st.integers(0, 99))
    def add(self, n: int) -> None:
        parent = self.pick(n) if self.parent else ""
        key = f"n{self.born}"
        try:
            fact = self.tree.add(key, parent)
        except OwnershipError:
            assert self.tree.nodes[parent].is_closed
            return
        except BudgetExhausted:
            assert len(self.parent) == 12
            return
        self.born += 1
        self.note(fact)
        self.parent[key] = parent
        if parent in self.reason:
            self.reason[key] = self.reason[parent]
            self.told.append(key)

    @precondition(lambda self: self.parent)
    @rule(n=st.integers(0, 99), reason=st.sampled_from(["x", "y"]))
    def cancel(self, n: int, reason: str) -> None:
        key = self.pick(n)
        reached = self.tree.reach(key)
        fact = self.tree.cancel(key, reason)
        expected = {
            each for each in self.parent if key in self.above(each) and each not in self.reason
        }
        assert set(reached) == expected
        assert (fact is None) == (key in self.reason)
        for place, each in enumerate(reached):
            assert self.parent[each] not in reached[place:]
        if fact is not None:
            self.note(fact)
            self.told += reached
            self.reason |= dict.fromkeys(reached, reason)

    @precondition(lambda self: self.parent)
    @rule(n=st.integers(0, 99))
    def close(self, n: int) -> None:
        self.note(self.tree.close(self.pick(n)))

    @precondition(lambda self: self.parent)
    @rule(n=st.integers(0, 99))
    def retire(self, n: int) -> None:
        key = self.tree.retirement(self.pick(n))[0]
        assert key not in self.parent.values()
        self.note(self.tree.retire(key))
        del self.parent[key]
        self.reason.pop(key, None)
        for up in set(self.parent.values()) - {""}:
            assert refused(partial(self.tree.retire, up)) == "live"

    @rule()
    def crash(self) -> None:
        assert CancellationTree(limit=12).replay(self.facts) == self.tree

    @invariant()
    def exactly_the_subtrees_of_the_cancelled_are_cancelled(self) -> None:
        assert {key: node.reason for key, node in self.tree.nodes.items() if node.reason} == (
            self.reason
        )

    @invariant()
    def nobody_is_told_twice(self) -> None:
        assert len(self.told) == len(set(self.told))

    @invariant()
    def nobody_is_detached(self) -> None:
        for node in self.tree.nodes.values():
            assert node.parent in self.tree.nodes or node.parent == ""


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_cancel_reaches_exactly_its_subtree_whatever_retires_and_crashes() -> None:
    run_state_machine_as_test(Trees, settings=settings(max_examples=80, deadline=None))

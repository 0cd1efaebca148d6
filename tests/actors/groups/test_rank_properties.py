"""Ranks under every order of opens, ends, takeovers, closes and crashes, on the units themselves.

Owners of several lives share one journal of plain dicts. Each remembers the claims it was given,
for ever: most of what it brings later meets a fence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trouper._ids import Incarnation
from trouper.actors.groups import (
    ChildRow,
    Completed,
    Disposition,
    EffectEnvelope,
    EffectGroup,
    GroupRow,
    encode_outcome,
    group_key,
)
from trouper.actors.groups._ledger import (
    Arrival,
    close_group,
    finalise_all,
    load,
    open_group,
    ranks_above,
)
from trouper.actors.groups._rows import GROUP_TABLE
from trouper.actors.groups._rules import Claim, Lease, in_rank_order
from trouper.errors import FenceMoved, GroupShapeError
from trouper.testing.conformance._journal_machine import Model

OWNERS = [Incarnation(epoch, number) for epoch in (1, 2) for number in (1, 2)]
GROUPS = {"a": 3, "b": 2}
LEASE = 10.0

owners, groups = st.sampled_from(OWNERS), st.sampled_from(sorted(GROUPS))


def offered(key: str) -> EffectGroup:
    children = [
        EffectEnvelope.make("effect", "part", [p], {}, "s", f"{key}/{p}")
        for p in range(GROUPS[key])
    ]
    return EffectGroup.of(key, children)


class Ranks(RuleBasedStateMachine):
    """Two groups, four owners in two lives."""

    @initialize()
    def begin(self) -> None:
        tables: dict[str, dict[bytes, Any]] = {"record": {}, "group": {}, "settle": {}, "log": {}}
        self.tx: Any = Model(tables)
        self.now = 0.0
        self.dead: set[Incarnation] = set()
        self.claims: list[tuple[str, int, Claim]] = []
        self.ranks: dict[str, list[tuple[int, bytes]]] = {key: [] for key in GROUPS}
        self.counters = dict.fromkeys(GROUPS, 0)

    def rows(self, key: str) -> tuple[GroupRow, tuple[ChildRow, ...]] | None:
        return load(self.tx, key)

    @rule(key=groups, owner=owners)
    def opens(self, key: str, owner: Incarnation) -> None:
        lease = Lease(owner, self.now, self.now + LEASE, lambda asked: asked in self.dead)
        group = offered(key)
        size = len(group.children)
        dues = [0.0] * size
        opened = open_group(self.tx, group, lease, dues, self.now, frozenset(range(size)))
        for position in opened.claimed:
            child = opened.children[position]
            assert not child.settled, "what is settled is never claimed, and so never runs again"
            self.claims.append((key, position, Claim(child.owner, child.token)))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), value=st.integers(0, 1))
    def ends_arrive(self, data: st.DataObject, value: int) -> None:
        """One flush: several ends of one group, of whoever ran them, stale ones among them."""
        key = data.draw(st.sampled_from(sorted({each[0] for each in self.claims})))
        mine = [each for each in self.claims if each[0] == key]
        chosen = data.draw(st.lists(st.sampled_from(mine), min_size=1, max_size=4))
        outcome = encode_outcome(Completed(value))
        before = self.rows(key)
        assert before is not None
        arrivals = [Arrival(0, position, held, outcome) for _, position, held in chosen]
        row, ends = finalise_all(self.tx, key, arrivals, self.now)
        won = [end for end in ends if not isinstance(end, FenceMoved)]
        assert row is not None
        assert row.counter == before[0].counter + len(won), "a moved fence burns no number"
        for (_, position, held), end in zip(chosen, ends, strict=True):
            was = before[1][position]
            stands = (was.owner, was.token) == (held.owner, held.token) and not was.settled
            assert stands or isinstance(end, FenceMoved)

    @rule(key=groups, seen=st.integers(0, 2), asked=st.sampled_from(Disposition))
    def closes(self, key: str, seen: int, asked: Disposition) -> None:
        try:
            close_group(self.tx, key, seen, asked)
        except GroupShapeError:
            return  # it would widen

    @rule(owner=owners)
    def dies(self, owner: Incarnation) -> None:
        self.dead.add(owner)

    @rule()
    def time_passes(self) -> None:
        self.now += LEASE

    @rule(key=groups, gap=st.integers(1, 5))
    def leaves_a_gap(self, key: str, gap: int) -> None:
        """As an engine that gives its numbers out without looking back may."""
        row = self.tx.get(GROUP_TABLE, group_key(key), GroupRow)
        if row is not None:
            # The counter of the embedded host also says when a group is finished; keep it below.
            unsettled = row.children - len(self.ranks[key])
            if unsettled and row.closes == 0:
                self.tx.put(GROUP_TABLE, group_key(key), replace(row, counter=row.counter + gap))
                self.counters[key] += gap

    @invariant()
    def ranks_are_only_ever_appended(self) -> None:
        for key in GROUPS:
            found = self.rows(key)
            if found is None:
                continue
            row, children = found
            ordered = in_rank_order(row, children)  # raises for a rank without a terminal
            ranks = [(child.position, child.outcome) for child in ordered]
            known = self.ranks[key]
            assert ranks[: len(known)] == known, "rank k is the same settlement for ever"
            grown = len(ranks) - len(known)
            assert row.counter == self.counters[key] + grown, "nobody else moves this counter"
            assert all(child.outcome for child in ordered)
            assert [c.position for c in ranks_above(self.tx, key, 0)] == [p for p, _ in ranks]
            self.ranks[key], self.counters[key] = ranks, row.counter


TestRanks = Ranks.TestCase
TestRanks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

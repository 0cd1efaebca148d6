"""Signals under every order of sends, repeats, waits, closes and givings-back, on the units alone.

Each signal that was kept is in exactly one place: in its queue, or taken by one wait whose rank
stands. What is taken is the oldest of its name, and what is given back comes before what is newer.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trouper._ids import Incarnation
from trouper.actors.groups import (
    Cancelled,
    Completed,
    Disposition,
    EffectEnvelope,
    EffectGroup,
    Signal,
    SignalRow,
    SignalTake,
    decode_outcome,
    give_back,
)
from trouper.actors.groups._ledger import Arrival, close_group, finalise_all, load, open_group
from trouper.actors.groups._rules import Claim, Lease
from trouper.actors.groups._signals import send
from trouper.errors import FenceMoved, SignalsFull
from trouper.testing.conformance._journal_machine import Model

NAMES = ("a", "b")
GROUPS = {"g": ("a", "b", "a"), "h": ("a", "a")}
LIMIT = 3
OWNER = Incarnation(1, 1)
names, groups = st.sampled_from(NAMES), st.sampled_from(sorted(GROUPS))


def offered(key: str) -> EffectGroup:
    children = [
        EffectEnvelope("signal", name, b"\x82\x80\xa0", "k", f"{key}/{position}")
        for position, name in enumerate(GROUPS[key])
    ]
    return EffectGroup.of(key, children)


class Signals(RuleBasedStateMachine):
    """Two groups of waits at one address, and two names."""

    @initialize()
    def begin(self) -> None:
        tables: dict[str, dict[bytes, Any]] = {"record": {}, "group": {}, "settle": {}, "log": {}}
        self.tx: Any = Model(tables)
        self.sent = 0
        self.kept: dict[str, list[int]] = {name: [] for name in NAMES}  # in order of arrival
        self.ids: dict[str, tuple[str, int]] = {}
        self.given_back: set[tuple[str, int]] = set()
        for key in GROUPS:
            lease = Lease(OWNER, 0.0, 10.0, lambda asked: False)
            group = offered(key)
            everyone = frozenset(range(len(group.children)))
            open_group(self.tx, group, lease, [0.0] * len(everyone), 0.0, everyone)

    def queue(self, name: str) -> list[int]:
        rows = [row for _, row in self.tx.scan("record", b"Q", SignalRow) if row.name == name]
        return [self.payload(row) for row in sorted(rows, key=lambda row: row.number)]

    @staticmethod
    def payload(row: SignalRow) -> int:
        outcome = decode_outcome(row.outcome)
        assert isinstance(outcome, Completed)
        return int(outcome.value)

    @rule(name=names, known_by=st.sampled_from([None, "x", "y"]))
    def somebody_sends(self, name: str, known_by: str | None) -> None:
        self.sent += 1
        value = self.sent
        if known_by in self.ids:
            name, value = self.ids[known_by]  # a repeat, with the same name and payload
        signal = Signal.make("k", name, value, known_by, float(self.sent))
        full = len(self.queue(name)) >= LIMIT
        try:
            new = send(self.tx, signal, lambda tx: None, LIMIT)
        except SignalsFull:
            assert full
            assert known_by not in self.ids, "a repeat is never too many"
            return
        assert new is (known_by not in self.ids)
        if new:
            assert not full
            self.kept[name].append(value)
            if known_by is not None:
                self.ids[known_by] = (name, value)

    @rule(key=groups, positions=st.sets(st.integers(0, 2), min_size=1))
    def waits_end(self, key: str, positions: set[int]) -> None:
        """One flush: the waits of one group whose runners saw a signal, or saw one before."""
        found = load(self.tx, key)
        assert found is not None
        row, children = found
        before = {name: self.queue(name) for name in NAMES}
        arrivals = [
            Arrival(0, p, Claim(OWNER, children[p].token), b"", SignalTake("k", GROUPS[key][p]))
            for p in sorted(positions)
            if p < len(children)
        ]
        _, ends = finalise_all(self.tx, key, arrivals, 1.0)
        for arrival, end in zip(arrivals, ends, strict=True):
            queue = before[GROUPS[key][arrival.position]]
            if isinstance(end, FenceMoved):
                assert children[arrival.position].settled
            elif end is None:
                assert not row.closed
                assert queue == [], "a wait goes on only where there is nothing to take"
            elif row.closed:
                assert decode_outcome(end.outcome) == Cancelled()
            else:
                assert decode_outcome(end.outcome) == Completed(queue.pop(0)), "the oldest"
        assert before == {name: self.queue(name) for name in NAMES}, "nothing else is taken"

    @rule(key=groups)
    def a_caller_closes(self, key: str) -> None:
        close_group(self.tx, key, 0, Disposition.RUN_TO_COMPLETION)

    @rule(key=groups, consumed=st.sets(st.integers(0, 2)))
    def a_durable_function_goes_past(self, key: str, consumed: set[int]) -> None:
        """It read some ranks; what the other waits took goes back to its place."""
        found = load(self.tx, key)
        assert found is not None
        row, children = found
        unread = [child for child in children if child.position not in consumed]
        back = [
            outcome.value
            for child in unread
            if child.settled
            and isinstance(outcome := decode_outcome(child.outcome), Completed)
            and not row.closed
        ]
        assert give_back(self.tx, key, [child.position for child in unread]) is bool(back)
        close_group(self.tx, key, 0, Disposition.RUN_TO_COMPLETION)
        self.given_back |= {(key, child.position) for child in unread} if back else set()

    @precondition(lambda self: self.sent)
    @invariant()
    def every_signal_is_in_one_place(self) -> None:
        for name in NAMES:
            queue = self.queue(name)
            assert queue == sorted(queue), "also what was given back is where it was"
            assert set(queue) <= set(self.kept[name])
            assert sorted([*queue, *self.taken(name)]) == self.kept[name]

    def taken(self, name: str) -> list[int]:
        values: list[int] = []
        for key, waited in GROUPS.items():
            found = load(self.tx, key)
            assert found is not None
            for child in found[1]:
                outcome = decode_outcome(child.outcome) if child.settled else None
                is_back = (key, child.position) in self.given_back
                if (
                    waited[child.position] == name
                    and isinstance(outcome, Completed)
                    and not is_back
                ):
                    values.append(int(outcome.value))
        return values


TestSignals = Signals.TestCase
TestSignals.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

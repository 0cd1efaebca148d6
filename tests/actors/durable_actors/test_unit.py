"""What `Units` promises, whatever comes between passes, flushes, failures and restarts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from trouper import Decision
from trouper._ids import Incarnation
from trouper.actors.durable_actors._recovery import recover
from trouper.actors.durable_actors._rules import Limits, Rules
from trouper.actors.durable_actors._unit import UNIT_RECORDS, Answer, Recovered, Unit, Units
from trouper.errors import (
    FenceMoved,
    MessageMismatch,
    Reject,
    TooLarge,
    ValueRefused,
)
from trouper.store import (
    HISTORY,
    Places,
    Sealed,
    SealedRow,
    read_head,
    read_records,
    read_rows,
    record,
)
from trouper.store._codec import MAX_BYTES
from trouper.store._records import from_frame, to_frame
from trouper.store._trail import BLOCK

T = TypeVar("T")
KEY = "alice"
OWNERS = count(1)
KEEP = 3


class Sealer:
    """What encodes and seals, as a store does."""

    max_value = MAX_BYTES

    def seal(self, key: bytes, value: object) -> SealedRow:
        return key, to_frame(key, value)


SEALER = Sealer()


def new_places() -> Places:
    """Return the places of an owner that nobody was before."""
    return Places(Incarnation(1, next(OWNERS)))


class Rows(dict[bytes, bytes]):
    """One table, as a store and as a transaction."""

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:  # type: ignore[override]
        assert table == HISTORY
        frame = dict.get(self, key)
        return None if frame is None else from_frame(table, key, frame, kind)

    def put(self, table: str, key: bytes, value: Sealed) -> None:
        self[key] = value.under(key)

    def delete(self, table: str, key: bytes) -> None:
        self.pop(key, None)

    def history(self) -> list[int]:
        head = read_head(self, KEY)
        return [] if head is None else [v.n for v in read_records(self, head, 1, head.records)]


def recovered(rows: Rows, rules: Rules, actor: Any) -> Recovered:
    reading = recover(rows, rules, actor, KEY)  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as done:
        reading.send(None)  # it never waits: the history is short
    result: Recovered = done.value.value
    return result


def rules_for(till: SimpleNamespace, **limits: Any) -> Rules:
    rules = till.Counting.__rules__
    return Rules(
        rules.name, rules.initial, rules.state, rules.table, rules.applies, Limits(**limits)
    )


class Machine(RuleBasedStateMachine):
    """Passes, flushes, failures and restarts in any order, against a list of numbers."""

    till: SimpleNamespace

    @initialize(every=st.sampled_from([None, 1, 3]), size=st.sampled_from([None, 200]))
    def begin(self, every: int | None, size: int | None) -> None:
        self.law = rules_for(
            self.till, snapshot_every=every, snapshot_bytes=size, keep_replies=KEEP
        )
        self.actor = self.till.Counting()
        self.rows = Rows()
        self.places = new_places()
        self.serial = 0
        # by asker: what it must be answered, and how long the history is when it may hear of it
        self.owed: dict[int, tuple[Any, int]] = {}
        self.decided: list[tuple[str, int, int]] = []  # ids, their answers, what those need
        self.start()

    def start(self) -> None:
        """Begin a new life from the journal."""
        start = recovered(self.rows, self.law, self.actor)
        self.units = Units(self.law, self.actor, KEY, start, self.places, SEALER)
        self.durable = self.rows.history()
        self.planned = list(self.durable)  # what is decided, committed or not
        assert self.units.committed.total == sum(self.durable)
        assert self.units.committed.count == len(self.durable)

    # --- messages ---------------------------------------------------------------------------------

    def take(self, message: Any, value: Any, added: list[int], needs: int | None = None) -> None:
        self.serial += 1
        self.planned += added
        self.owed[self.serial] = (value, len(self.planned) if needs is None else needs)
        decide = self.law.table[type(message)][2]
        answer = self.units.take(self.serial, message, decide)
        if answer is not None:
            self.hear([answer])

    @rule(n=st.integers(-5, 5))
    def add(self, n: int) -> None:
        self.take(self.till.Add(n), sum(self.planned) + n, [n])

    @rule(n=st.integers(0, 4))
    def many(self, n: int) -> None:
        self.take(self.till.Many(n), sum(self.planned) + n, [1] * n)

    @rule()
    def read(self) -> None:
        self.take(self.till.Read(), sum(self.planned), [])

    @rule()
    def deny(self) -> None:
        self.take(self.till.Deny(), Reject, [])

    @rule()
    def refused(self) -> None:
        self.take(self.till.Add(1, (1, 2)), ValueRefused, [])

    @rule()
    def bug(self) -> None:
        before = (self.units.records, self.units.state)
        with pytest.raises(ValueError, match="a bug"):
            self.units.take(0, self.till.Fail(), self.law.table[self.till.Fail][2])
        assert (self.units.records, self.units.state) == before

    def remembered(self) -> dict[str, tuple[int, int]]:
        """Return the answers that are to be remembered, oldest first."""
        found: dict[str, tuple[int, int]] = {}
        for ident, total, needs in self.decided:
            found.pop(ident, None)
            found[ident] = (total, needs)
        return dict(list(found.items())[-KEEP:])

    @rule(ident=st.sampled_from("abcde"))
    def once(self, ident: str) -> None:
        known = self.remembered().get(ident)
        if known is not None:
            self.take(self.till.Add(1, None, ident), known[0], [], known[1])
            return
        total, needs = sum(self.planned) + 1, len(self.planned) + 1
        self.decided.append((ident, total, needs))
        self.take(self.till.Add(1, None, ident), total, [1])

    @rule(ident=st.sampled_from("abcde"))
    def misused(self, ident: str) -> None:
        if ident in self.remembered():
            self.take(self.till.Add(2, None, ident), MessageMismatch, [])

    # --- units ------------------------------------------------------------------------------------

    @rule()
    def submit(self) -> None:
        was, opened = self.units.flight, self.units.open
        unit = self.units.submit()
        assert unit is (opened if was is None else None)

    @precondition(lambda self: self.units.flight is not None)
    @rule()
    def land(self) -> None:
        flight = self.units.flight
        assert flight is not None
        flight(self.rows)  # type: ignore[arg-type]
        self.durable = self.rows.history()
        self.hear(self.units.land())

    @rule(landed=st.booleans())
    def fail(self, landed: bool) -> None:
        """The disk fails: nobody knows whether the unit in flight landed."""
        if self.units.flight is not None and landed:
            self.units.flight(self.rows)  # type: ignore[arg-type]
        lost = {answer.asker for answer in self.units.lose()}
        assert lost == set(self.owed)  # every asker of both units, and nobody else, waits
        self.owed.clear()
        self.restart()

    @rule(landed=st.booleans(), moves=st.booleans())
    def crash(self, landed: bool, moves: bool) -> None:
        """kill -9: nobody is told anything; the next life may be that of another owner."""
        if moves:
            self.places = new_places()
        if self.units.flight is not None and landed:
            self.units.flight(self.rows)  # type: ignore[arg-type]
        self.owed.clear()
        self.restart()

    @rule()
    def kill(self) -> None:
        """The unit in flight is awaited, the open one dropped: its askers know that it is not."""
        if self.units.flight is not None:
            self.land()
        for answer in self.units.drop_open():
            del self.owed[answer.asker]
        assert self.owed == {}
        before = self.rows.history()
        self.restart()
        assert self.durable == before

    def restart(self) -> None:
        self.start()
        # an id that is not in the journal is new again
        self.decided = [known for known in self.decided if known[2] <= len(self.durable)]
        assert list(self.units._replies._known) == list(self.remembered())

    # --- what must hold ---------------------------------------------------------------------------

    def hear(self, answers: list[Answer]) -> None:
        for answer in answers:
            value, needs = self.owed.pop(answer.asker)
            assert len(self.durable) >= needs or not isinstance(value, int)
            if isinstance(value, type):
                assert isinstance(answer.error, value)
            else:
                assert (answer.value, answer.error) == (value, None)

    @invariant()
    def what_is_visible_is_durable(self) -> None:
        if hasattr(self, "units"):
            assert self.units.committed.total == sum(self.durable)
            assert self.units.committed.count == len(self.durable)

    @invariant()
    def decisions_see_what_was_decided_before_them(self) -> None:
        if hasattr(self, "units"):
            assert self.units.state.total == sum(self.planned)
            assert self.units.records == len(self.planned)


@pytest.mark.proves("Durable actors: decide and apply")
def test_replies_are_for_durable_records_and_state_is_their_fold(till: SimpleNamespace) -> None:
    cls = type("TillMachine", (Machine,), {"till": till})
    run_state_machine_as_test(
        cls, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )


def units_of(till: SimpleNamespace, rows: Rows | None = None, **limits: Any) -> Units:
    rules = rules_for(till, **limits)
    rows = Rows() if rows is None else rows
    actor = till.Counting()
    return Units(rules, actor, KEY, recovered(rows, rules, actor), new_places(), SEALER)


def take(till: SimpleNamespace, units: Units, message: Any, asker: Any = "asker") -> Any:
    return units.take(asker, message, till.Counting.__rules__.table[type(message)][2])


def flush(units: Units, rows: Rows) -> list[Answer]:
    unit = units.submit()
    assert unit is not None
    unit(rows)  # type: ignore[arg-type]
    return units.land()


@pytest.mark.proves("Durable actors: at most one unit in flight")
def test_a_unit_is_full_at_1024_records_and_the_next_waits_for_it(till: SimpleNamespace) -> None:
    units = units_of(till)
    for _ in range(UNIT_RECORDS):
        assert not units.is_full
        assert take(till, units, till.Add(1)) is None
    assert units.is_full
    first = units.submit()
    assert first is not None
    assert not units.is_full
    take(till, units, till.Add(1))
    assert units.submit() is None  # one in flight
    assert units.open is not None
    units.land()
    assert isinstance(units.submit(), Unit)


def test_a_unit_is_full_when_as_many_answers_wait_for_it(till: SimpleNamespace) -> None:
    units = units_of(till)
    take(till, units, till.Add(1))
    for _ in range(UNIT_RECORDS):
        take(till, units, till.Read())
    assert units.is_full


def test_one_decision_larger_than_a_unit_is_refused_and_the_others_go_on(
    till: SimpleNamespace,
) -> None:
    units, rows = units_of(till), Rows()
    take(till, units, till.Add(1))
    assert take(till, units, till.Many(UNIT_RECORDS + 1)) is None  # it waits, having seen the 1
    first, second = flush(units, rows)
    assert first.error is None
    assert isinstance(second.error, TooLarge)
    assert rows.history() == [1]


def test_a_read_of_committed_state_is_answered_at_once_and_another_waits(
    till: SimpleNamespace,
) -> None:
    units, rows = units_of(till), Rows()
    assert take(till, units, till.Read()).value == 0
    take(till, units, till.Add(7))
    assert take(till, units, till.Read()) is None
    unit = units.submit()
    assert unit is not None
    assert take(till, units, till.Read()) is None  # rides with the unit in flight
    assert units.open is None
    assert [answer.value for answer in units.land()] == [7, 7, 7]
    assert rows.history() == []


@pytest.mark.proves("Durable actors: FenceMoved")
def test_a_unit_that_does_not_know_the_head_writes_nothing(till: SimpleNamespace) -> None:
    rows = Rows()
    one, two = units_of(till, rows), units_of(till, rows)
    take(till, one, till.Add(1))
    take(till, two, till.Add(2))
    flush(one, rows)
    late = two.submit()
    assert late is not None
    before = dict(rows)
    with pytest.raises(FenceMoved, match="another system"):
        late(rows)  # type: ignore[arg-type]
    assert dict(rows) == before


def test_a_refusal_under_an_id_moves_the_fence_though_it_records_nothing(
    till: SimpleNamespace,
) -> None:
    rows = Rows()
    one, two = units_of(till, rows), units_of(till, rows)
    take(till, one, till.Deny("x"))
    take(till, two, till.Deny("x"))
    flush(one, rows)
    late = two.submit()
    assert late is not None
    with pytest.raises(FenceMoved):
        late(rows)  # type: ignore[arg-type]


@pytest.mark.proves("Durable actors: idempotency id")
def test_a_recorded_refusal_comes_back_as_itself_also_after_recovery(
    till: SimpleNamespace,
) -> None:
    rows = Rows()
    units = units_of(till, rows)
    take(till, units, till.Deny("x"))
    take(till, units, till.Add(5))
    flush(units, rows)
    again = take(till, units_of(till, rows), till.Deny("x")).error
    assert type(again) is Reject
    assert (str(again), again.facts) == ("not with 0", {"total": 0})


@pytest.mark.proves("Durable actors: idempotency id")
def test_beyond_keep_replies_the_oldest_is_forgotten_with_its_row(till: SimpleNamespace) -> None:
    rows = Rows()
    units = units_of(till, rows, keep_replies=2)
    for ident in "abc":
        take(till, units, till.Add(1, None, ident))
        flush(units, rows)
    assert take(till, units, till.Add(1, None, "b")).value == 2
    assert take(till, units, till.Add(1, None, "a")) is None  # counts as new
    size = len(rows)
    flush(units, rows)
    assert len(rows) == size  # a reply came, a reply went; the record lies in the head
    assert len(rows) == size  # a reply came, a reply went; the record lies in the head


def test_an_id_that_came_again_after_it_was_forgotten_counts_from_then_on(
    till: SimpleNamespace,
) -> None:
    """With a smaller window in between, two rows may hold the same id: the later one counts."""
    rows = Rows()
    for keep, idents in ((3, "a"), (1, "bca"), (3, "de")):
        units = units_of(till, rows, keep_replies=keep)
        for ident in idents:
            take(till, units, till.Add(1, None, ident))
            flush(units, rows)
    assert rows.history() == [1] * 6
    units = units_of(till, rows, keep_replies=3)
    assert list(units._replies._known) == ["a", "d", "e"]
    take(till, units, till.Add(1, None, "a"))
    assert units.is_idle  # it was answered before, and decides nothing


@pytest.mark.proves("Durable actors: idempotency id")
def test_a_message_that_comes_again_before_it_is_durable_waits_with_the_first(
    till: SimpleNamespace,
) -> None:
    rows = Rows()
    units = units_of(till, rows)
    assert take(till, units, till.Add(1, None, "x"), "first") is None
    assert take(till, units, till.Add(1, None, "x"), "second") is None
    answers = flush(units, rows)
    assert [(answer.asker, answer.value) for answer in answers] == [("first", 1), ("second", 1)]
    assert rows.history() == [1]


def test_an_id_that_is_none_is_refused_and_so_is_a_message_without_a_fingerprint(
    till: SimpleNamespace,
) -> None:
    units = units_of(till)
    for message in (
        till.Add(1, None, ""),
        till.Add(1, None, "x" * 2000),
        till.Add(1, object(), "x"),
    ):
        assert isinstance(take(till, units, message).error, ValueRefused)


def test_a_refused_value_is_named_by_what_it_is_in(till: SimpleNamespace) -> None:
    units = units_of(till)
    message = take(till, units, till.Add(1, {"a": [object()]}, "x")).error
    assert message.path == "Add['note']['a'][0]"
    reply = units.take("asker", till.Add(1, None, "y"), lambda *_: Decision(reply=[0, object()]))
    assert reply is not None
    assert isinstance(reply.error, ValueRefused)
    assert reply.error.path == "reply[1]"
    assert str(reply.error).startswith("value refused at reply[1]: a builtins.object would not")


@pytest.mark.proves("Durable actors: upcasters and snapshots")
@pytest.mark.parametrize("limits", [{"snapshot_every": 5}, {"snapshot_bytes": 300}])
def test_recovery_reads_the_latest_snapshot_and_only_what_follows(
    till: SimpleNamespace, limits: dict[str, int]
) -> None:
    limits = {"snapshot_every": None, "snapshot_bytes": None, **limits}  # type: ignore[dict-item]
    rows = Rows()
    units = units_of(till, rows, **limits)
    for _ in range(603):
        take(till, units, till.Add(1))
        flush(units, rows)
    head = read_head(rows, KEY)
    assert head is not None
    assert 580 < head.snapshot <= 603
    before = (head.blocks - 1) * BLOCK
    assert before > 50
    for key, _ in list(read_rows(rows, head, 1))[:before]:  # nobody needs them to recover
        rows.pop(key)
    assert units_of(till, rows, **limits).committed == till.Till(603, 603)


def test_a_state_that_no_snapshot_can_hold_costs_the_snapshot_only(till: SimpleNamespace) -> None:
    rules = rules_for(till, snapshot_every=1)

    class Odd(till.Counting):  # type: ignore[misc, name-defined]
        def put(self, state: Any, record: Any) -> Any:
            return till.Till(state.total + record.n, (1,))

    rows = Rows()
    apply: dict[type[Any], Any] = {till.Put: Odd.put}
    odd = Rules(rules.name, rules.initial, rules.state, rules.table, apply, rules.limits)
    units = Units(odd, Odd(), KEY, Recovered(rules.initial), new_places(), SEALER)
    take(till, units, till.Add(1))
    assert flush(units, rows)[0].value == 1
    assert isinstance(units.snapshot_error, ValueRefused)
    assert rows.history() == [1]


@record("test.basket")
@dataclass(frozen=True, slots=True)
class Basket:
    lines: tuple[str, ...]
    notes: list[str]


@pytest.mark.proves("Durable actors: decide and apply")
def test_what_is_applied_is_what_recovery_will_apply(till: SimpleNamespace) -> None:
    applied: list[Basket] = []

    def keep(actor: Any, state: Any, record: Any) -> Any:
        applied.append(record)
        return state

    def decide(actor: Any, state: Any, message: Any) -> Any:
        return Decision([Basket(["tea"], notes)])  # type: ignore[arg-type]  # no tuple

    base, notes = till.Counting.__rules__, ["mine"]
    rules = Rules("test", base.initial, base.state, {}, {Basket: keep}, base.limits)
    rows = Rows()
    units = Units(rules, None, KEY, Recovered(base.initial), new_places(), SEALER)
    assert units.take("asker", object(), decide) is None
    notes.append("changed later")
    flush(units, rows)
    assert applied == [Basket(("tea",), ["mine"])]
    recovered(rows, rules, None)
    assert applied[1] == applied[0]


def test_an_answer_under_an_id_is_what_it_will_be_when_it_comes_again(
    till: SimpleNamespace,
) -> None:
    class Odd(str):
        pass

    def decide(actor: Any, state: Any, message: Any) -> Any:
        return Decision([till.Put(1)], reply=reply)

    units, rows, reply = units_of(till), Rows(), [1, 2]
    assert units.take("asker", till.Add(1, None, "x"), decide) is None
    reply.append(3)
    assert flush(units, rows)[0].value == [1, 2]
    assert take(till, units, till.Add(1, None, "x")).value == [1, 2]
    refused = units.take("asker", till.Add(1, None, "y"), lambda *_: Decision(reply=Odd()))
    assert refused is not None
    assert isinstance(refused.error, ValueRefused)

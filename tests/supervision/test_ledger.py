"""The ledger: what is carved, charged and given back, and by whom. Pure, so no test waits."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.errors import BudgetExhausted, OwnershipError, ShuttingDown, TrouperError
from trouper.supervision import (
    Accepted,
    Budget,
    Carried,
    Entry,
    Grant,
    Ledger,
    LedgerClosed,
    LedgerEnded,
    Reservation,
    Reserved,
    Settled,
    Spent,
    Usage,
    admit,
)

SMALL = Budget(
    deadline=100.0, fuel=1000, calls=100, io_bytes=400, memory=80, live_descendants=20
).grant()


def ledger(**named: Any) -> Ledger:
    return Ledger("p", replace(SMALL, **named))


def reserved(book: Ledger, child: str = "c", **named: Any) -> tuple[Ledger, Reservation]:
    book = book.apply(book.reserve(child, Budget(**named)))
    held = book.reservation(child)
    assert held is not None
    return book, held


def accepted(book: Ledger, child: str = "c", **named: Any) -> tuple[Ledger, Reservation]:
    book, held = reserved(book, child, **named)
    return book.apply(book.accept(held)), held


def exhausted(decide: Callable[[], object]) -> tuple[str, float, float]:
    with pytest.raises(BudgetExhausted) as caught:
        decide()
    assert str(caught.value).count(" ") > 5  # says what, where and what to do
    return caught.value.field, caught.value.asked, caught.value.left


def refused(decide: Callable[[], object]) -> str:
    with pytest.raises(OwnershipError) as caught:
        decide()
    return caught.value.kind


# --- budgets ------------------------------------------------------------------------------------


def test_a_root_gets_what_it_names_and_defaults_for_the_rest() -> None:
    grant = Budget(fuel=5).grant()
    assert grant.fuel == 5
    assert (grant.depth, grant.live_children, grant.live_descendants) == (8, 8, 64)
    assert grant.deadline == math.inf


@pytest.mark.parametrize("kind", [Budget, Grant])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("depth", 17),
        ("live_children", 33),
        ("live_descendants", 257),
        ("fuel", -1),
        ("fuel", 2**63),
        ("calls", True),
        ("io_bytes", 1.5),
        ("memory", "1"),
        ("deadline", math.nan),
        ("deadline", True),
    ],
)
def test_what_is_beyond_a_cap_is_refused_where_it_is_written(
    kind: type, field: str, value: object
) -> None:
    with pytest.raises(ValueError, match=field):
        kind(**{field: value})


def test_the_caps_themselves_are_fine() -> None:
    caps = Budget(depth=16, live_children=32, live_descendants=256, fuel=2**63 - 1)
    assert (caps.depth, caps.live_children, caps.live_descendants) == (16, 32, 256)
    assert caps.fuel == 2**63 - 1


# --- carving ------------------------------------------------------------------------------------


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_child_that_names_nothing_gets_half_of_what_is_not_reserved() -> None:
    book, first = reserved(ledger(), "a")
    assert (first.grant.fuel, first.grant.io_bytes, first.grant.memory) == (500, 200, 40)
    assert first.grant.calls == 49  # half of what is left beside its own call
    assert first.grant.live_descendants == 9  # half of what is left beside its own place
    _, second = reserved(book, "b")
    assert (second.grant.fuel, second.grant.memory) == (250, 20)


def test_a_child_gets_the_deadline_of_its_parent_and_one_level_less() -> None:
    _, held = reserved(ledger())
    assert (held.grant.deadline, held.grant.depth, held.grant.live_children) == (100.0, 7, 8)


@pytest.mark.parametrize(
    ("named", "shortfall"),
    [
        ({"fuel": 1001}, ("fuel", 1001, 1000)),
        ({"calls": 100}, ("calls", 100, 99)),  # the child itself costs one
        ({"io_bytes": 401}, ("io_bytes", 401, 400)),
        ({"memory": 81}, ("memory", 81, 80)),
        ({"deadline": 100.5}, ("deadline", 100.5, 100.0)),
        ({"depth": 8}, ("depth", 8, 7)),
        ({"live_children": 9}, ("live_children", 9, 8)),
        ({"live_descendants": 20}, ("live_descendants", 20, 19)),  # it takes a place itself
    ],
)
def test_what_the_parent_cannot_carry_is_refused_with_field_asked_and_left(
    named: dict[str, Any], shortfall: tuple[str, float, float]
) -> None:
    assert exhausted(lambda: ledger().reserve("c", Budget(**named))) == shortfall


def test_what_is_named_is_granted_as_named_up_to_all_that_is_left() -> None:
    _, held = reserved(ledger(), fuel=1000, calls=99, memory=80, live_descendants=19, deadline=1.0)
    assert (held.grant.fuel, held.grant.calls, held.grant.memory) == (1000, 99, 80)
    assert (held.grant.live_descendants, held.grant.deadline) == (19, 1.0)


@pytest.mark.parametrize("field", ["depth", "live_children", "live_descendants", "calls"])
def test_a_parent_without_room_for_one_child_refuses_it_at_once(field: str) -> None:
    assert exhausted(lambda: ledger(**{field: 0}).reserve("c")) == (field, 1, 0)


def test_a_single_child_over_the_live_limit_is_refused_at_once() -> None:
    book, _ = accepted(ledger(live_children=1))
    assert exhausted(lambda: book.reserve("d")) == ("live_children", 1, 0)


def test_depth_ends_a_chain_of_children() -> None:
    book = ledger(depth=2)
    for child in ("a", "b"):
        _, held = accepted(book, child)
        book = Ledger(child, held.grant)
    assert exhausted(lambda: book.reserve("c")) == ("depth", 1, 0)


# --- spending -----------------------------------------------------------------------------------


def test_fuel_calls_and_bytes_add_up_and_memory_is_the_peak() -> None:
    book = ledger()
    for level in (30, 50, 20):
        book = book.apply(book.spend(fuel=10, calls=2, io_bytes=5, memory=level))
    assert book.used == Usage(fuel=30, calls=6, io_bytes=15, memory=50)
    assert book.left.memory == 30


def test_memory_is_own_peak_plus_the_grants_that_live() -> None:
    book, held = accepted(ledger(), memory=60)
    assert exhausted(lambda: book.spend(memory=21)) == ("memory", 21, 20)
    book = book.apply(book.settle(held, Usage(memory=60)))
    assert book.spend(memory=80) == Spent(memory=80)


@pytest.mark.parametrize("field", ["fuel", "calls", "io_bytes"])
def test_nobody_spends_what_is_reserved_for_a_child(field: str) -> None:
    book, _ = accepted(ledger())
    left = getattr(book.left, field)
    assert exhausted(lambda: book.spend(**{field: left + 1})) == (field, left + 1, left)
    assert getattr(book.apply(book.spend(**{field: left})).left, field) == 0


def test_an_amount_below_zero_is_no_refund() -> None:
    with pytest.raises(ValueError, match="fuel"):
        ledger().spend(fuel=-1)


# --- admission and retirement -------------------------------------------------------------------


def test_an_accepted_child_costs_one_call_even_if_it_does_nothing() -> None:
    book, held = accepted(ledger())
    book = book.apply(book.settle(held, Usage()))
    assert book.used == Usage(calls=1)
    assert book.left == replace(SMALL, calls=99)


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_failed_admission_gives_back_what_it_did_not_use_once() -> None:
    book, held = reserved(ledger())
    book = book.apply(book.decline(held, Usage(fuel=7)))
    assert book.left == replace(SMALL, fuel=993)
    assert refused(lambda: book.decline(held)) == "settled"


def test_an_end_without_a_proper_account_spends_the_whole_grant() -> None:
    book, held = accepted(ledger(), fuel=600, calls=9, io_bytes=300, memory=50)
    book = book.apply(book.settle(held, None))
    assert book.used == Usage(fuel=600, calls=10, io_bytes=300, lost=50)
    assert book.left.memory == 30
    assert book.left.live_descendants == 20  # nothing of it lives


@pytest.mark.parametrize("field", ["fuel", "calls", "io_bytes", "memory", "lost"])
def test_an_account_beyond_the_grant_is_no_proper_one(field: str) -> None:
    book, held = accepted(ledger())
    granted = getattr(held.grant, "memory" if field == "lost" else field)
    assert refused(lambda: book.settle(held, Usage(**{field: granted + 1}))) == "account"
    assert book.settle(held, None).fuel == 500


def test_memory_that_a_grandchild_lost_does_not_come_back_further_up() -> None:
    book, held = accepted(ledger(), memory=50)
    child, grand = accepted(Ledger("c", held.grant), "d", memory=30)
    child = child.apply(child.settle(grand, None))
    child = child.apply(child.end())
    book = book.apply(book.settle(held, child.account))
    assert book.used.lost == 30
    assert book.left.memory == 50


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_finished_parent_refunds_nothing_and_still_settles_its_children() -> None:
    book, held = accepted(ledger(), fuel=600)
    book = book.apply(book.close())
    assert book.left.fuel == 400
    with pytest.raises(ShuttingDown, match="was not started"):
        book.reserve("d")
    assert refused(book.end) == "live"
    book = book.apply(book.settle(held, Usage(fuel=1)))
    book = book.apply(book.end())
    assert book.account == Usage(fuel=1, calls=1)


def test_nothing_enters_an_account_after_its_end() -> None:
    book = ledger()
    assert refused(lambda: book.account) == "live"
    book = book.apply(book.end())
    assert refused(lambda: book.spend(fuel=1)) == "ended"
    assert refused(book.end) == "ended"


def test_admission_comes_before_settling_and_declining_before_admission() -> None:
    book, held = reserved(ledger())
    assert refused(lambda: book.settle(held, Usage())) == "admission"
    book = book.apply(book.accept(held))
    assert refused(lambda: book.accept(held)) == "admission"
    assert refused(lambda: book.decline(held)) == "admission"


# --- the reservation ----------------------------------------------------------------------------


def forged(held: Reservation) -> Reservation:
    """Everything right about it, but it is another object."""
    made = object.__new__(Reservation)
    for name in Reservation.__slots__:
        object.__setattr__(made, name, getattr(held, name))
    return made


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_reservation_settles_once() -> None:
    book, held = accepted(ledger())
    after = book.apply(book.settle(held, Usage()))
    assert refused(lambda: after.settle(held, Usage())) == "settled"
    assert refused(lambda: after.apply(book.settle(held, Usage()))) == "entry"


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_an_equal_object_is_not_the_reservation() -> None:
    book, held = accepted(ledger())
    twin = forged(held)
    assert twin == held
    assert hash(twin) == hash(held)
    assert refused(lambda: book.settle(twin, Usage())) == "forged"


def test_another_ledger_does_not_settle_it_not_even_one_with_equal_books() -> None:
    book, held = accepted(ledger())
    twin, _ = accepted(ledger())
    assert twin == book
    assert refused(lambda: twin.settle(held, Usage())) == "forged"
    stranger, _ = accepted(Ledger("q", SMALL))
    assert refused(lambda: stranger.settle(held, Usage())) == "foreign"


def test_a_number_that_was_never_issued_is_forged() -> None:
    book, held = accepted(ledger())
    later, _ = accepted(book, "d")
    ahead = later.reservation("d")
    assert ahead is not None
    assert refused(lambda: book.settle(ahead, Usage())) == "forged"
    assert held.number == 0


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_not_copied(how: Callable[[object], object]) -> None:
    _, held = reserved(ledger())
    assert refused(lambda: how(held)) == "copied"


def test_it_is_not_made_by_hand_nor_changed() -> None:
    _, held = reserved(ledger())
    with pytest.raises(TypeError, match="issued by its ledger"):
        Reservation()
    with pytest.raises(AttributeError, match="does not change"):
        held.grant = SMALL
    with pytest.raises(AttributeError, match="does not change"):
        del held.grant
    assert held != 0
    assert "'c'" in repr(held)


def test_a_child_has_one_reservation_and_a_re_run_uses_it() -> None:
    book, held = reserved(ledger())
    assert refused(lambda: book.reserve("c")) == "taken"
    assert book.reservation("c") is held
    assert book.reservation("x") is None


# --- groups -------------------------------------------------------------------------------------


def names(rows: tuple[Reserved, ...]) -> list[str]:
    return [row.child for row in rows]


@pytest.mark.proves("Supervision: budgets and the cancellation tree")
def test_a_group_over_the_live_limit_is_admitted_in_position_order_as_siblings_retire() -> None:
    book, waiting = ledger(live_children=2), [(child, Budget()) for child in "abcde"]
    order: list[str] = []
    while waiting:
        admission = admit(book, waiting)
        assert admission.refused == ()
        book = book.replay(admission.reserved)
        order += names(admission.reserved)
        waiting = waiting[len(waiting) - admission.held :] if admission.held else []
        assert [held.child for held in book.live.values()] == order[-2:]  # the rest hold nothing
        first = next(iter(book.live.values()))
        book = book.apply(book.accept(first))
        book = book.apply(book.settle(first, Usage()))
    assert order == list("abcde")


def test_children_that_are_admitted_together_get_equal_parts() -> None:
    rows = admit(ledger(), [(child, Budget()) for child in "abc"]).reserved
    assert [row.fuel for row in rows] == [250, 250, 250]
    assert [row.live_descendants for row in rows] == [4, 4, 4]


def test_no_member_overtakes_one_that_waits() -> None:
    book, held = accepted(ledger(), memory=60)
    row = [("big", Budget(memory=50)), ("small", Budget(memory=1))]
    assert admit(book, row).held == 2
    book = book.apply(book.settle(held, Usage()))
    assert names(admit(book, row).reserved) == ["big", "small"]


def test_a_member_that_could_never_be_carried_is_refused_and_the_rest_go_on() -> None:
    row = [("a", Budget(fuel=2000)), ("b", Budget(memory=81)), ("c", Budget())]
    admission = admit(accepted(ledger(), "x")[0], row)
    assert [(place, error.field) for place, error in admission.refused] == [
        (0, "fuel"),
        (1, "memory"),
    ]
    assert names(admission.reserved) == ["c"]


def test_a_group_waits_for_a_place_among_all_descendants_too() -> None:
    book, held = accepted(ledger(live_descendants=3), live_descendants=2)
    assert admit(book, [("b", Budget())]).held == 1
    book = book.apply(book.settle(held, Usage()))
    assert names(admit(book, [("b", Budget())]).reserved) == ["b"]


def test_where_no_child_may_live_nobody_waits_for_a_place() -> None:
    admission = admit(ledger(live_children=0), [("a", Budget())])
    assert (admission.held, admission.refused[0][1].field) == (0, "live_children")


# --- the journal --------------------------------------------------------------------------------


def test_a_ledger_comes_back_from_its_entries_with_new_reservations() -> None:
    entries: list[Entry] = []
    book = ledger()

    def note(entry: Entry) -> None:
        nonlocal book
        entries.append(entry)
        book = book.apply(entry)

    note(book.spend(fuel=10, memory=5))
    note(book.reserve("a"))
    held = book.reservation("a")
    assert held is not None
    note(book.accept(held))
    note(book.reserve("b"))
    note(book.close())
    again = ledger().replay(entries)
    assert again == book == ledger().replay(book.compact())
    assert refused(lambda: again.settle(held, Usage())) == "forged"  # of the former process
    fresh = again.reservation("a")
    assert fresh is not None
    assert again.settle(fresh, Usage(fuel=3)) == Settled(0, 3, 0, 0, 0)


def test_entries_are_flat_rows_of_plain_values() -> None:
    book, held = accepted(ledger())
    rows: list[Entry] = [
        book.spend(fuel=1),
        book.settle(held, None),
        book.close(),
        *book.compact(),
    ]
    for row in rows:
        for field in fields(row):
            assert type(getattr(row, field.name)) in (int, float, str)
        assert type(row)(**asdict(row)) == row


BAD: list[Entry] = [
    Reserved.of("p", 0, "again", Grant(fuel=0, calls=0, io_bytes=0, memory=0, live_descendants=0)),
    Reserved.of("q", 5, "alien", Grant(fuel=0, calls=0, io_bytes=0, memory=0, live_descendants=0)),
    Reserved.of("p", 5, "huge", Grant()),
    Accepted(0),
    Accepted(7),
    Settled(7, 0, 0, 0, 0),
    Settled(0, 5000, 0, 0, 0),
    Spent(fuel=501),
    Carried(9, 0, 0, 0, 0, 0),
    Carried(0, 0, 1, 0, 0, 0),
    LedgerEnded(),
]


@pytest.mark.parametrize("entry", BAD, ids=repr)
def test_an_entry_that_contradicts_the_books_is_refused_and_not_repaired(entry: Entry) -> None:
    book, _ = accepted(ledger())
    if isinstance(entry, Carried) and entry.issued == 9:
        book = book.apply(book.spend(fuel=1))
    assert refused(lambda: book.apply(entry)) == "entry"


def test_no_entry_comes_after_the_end() -> None:
    book = ledger()
    book = book.apply(book.end())
    assert refused(lambda: book.apply(LedgerClosed())) == "entry"


def test_nothing_is_reserved_after_a_close() -> None:
    book = ledger()
    late = book.reserve("c")
    assert refused(lambda: book.apply(book.close()).apply(late)) == "entry"


# --- bounds of a carve --------------------------------------------------------------------------

amounts = st.integers(0, 60)


@given(
    given_=st.builds(
        Grant,
        deadline=st.floats(0, 9),
        fuel=amounts,
        calls=amounts,
        io_bytes=amounts,
        memory=amounts,
        depth=st.integers(0, 16),
        live_children=st.integers(0, 32),
        live_descendants=amounts,
    ),
    row=st.lists(
        st.builds(
            Budget,
            deadline=st.none() | st.floats(0, 9),
            fuel=st.none() | amounts,
            calls=st.none() | amounts,
            memory=st.none() | amounts,
            depth=st.none() | st.integers(0, 16),
            live_children=st.none() | st.integers(0, 32),
            live_descendants=st.none() | amounts,
        ),
        max_size=9,
    ),
)
def test_no_row_of_children_gets_more_than_its_parent_has(given_: Grant, row: list[Budget]) -> None:
    book = Ledger("p", given_)
    admission = admit(book, [(str(place), asked) for place, asked in enumerate(row)])
    assert len(admission.reserved) + len(admission.refused) + admission.held == len(row)
    before = book.left
    for made in admission.reserved:
        asked = row[int(made.child)]
        for field in ("fuel", "io_bytes", "memory", "calls", "live_descendants"):
            named = getattr(asked, field)
            if named is None:
                assert getattr(made, field) * 2 <= getattr(before, field)
            else:
                assert getattr(made, field) == named
        assert made.deadline <= given_.deadline
        assert made.depth < given_.depth
        assert made.live_children <= given_.live_children
        book = book.apply(made)
        before = book.left
    assert len(book.live) <= given_.live_children
    assert sum(1 + held.grant.live_descendants for held in book.live.values()) <= (
        given_.live_descendants
    )
    for field in ("fuel", "io_bytes", "memory", "calls"):
        assert sum(getattr(h.grant, field) for h in book.live.values()) <= getattr(given_, field)


def test_the_errors_come_back_from_a_journal_as_themselves() -> None:
    for decide in (lambda: ledger().reserve("c", Budget(fuel=9999)), lambda: ledger().account):
        with pytest.raises(TrouperError) as caught:
            decide()
        again = type(caught.value).revive(str(caught.value), caught.value.facts)
        assert again.facts == caught.value.facts
        assert str(again) == str(caught.value)

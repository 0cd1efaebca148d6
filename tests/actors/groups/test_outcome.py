"""Outcomes travel through the journal and come back equal (ruling 13)."""

from __future__ import annotations

import datetime as dt
import traceback
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.actors.groups import (
    Cancelled,
    Completed,
    ErrorRecord,
    Failed,
    Outcome,
    decode_outcome,
    encode_outcome,
)
from trouper.actors.groups._outcome import timed_out
from trouper.errors import (
    EffectFailed,
    GroupShapeError,
    OutcomeUnknown,
    Reject,
    TooLarge,
    TrouperError,
    ValueRefused,
)
from trouper.store import encode


class Declined(Reject):
    """Takes other arguments than its message."""

    def __init__(self, amount: float, *, tries: int = 1) -> None:
        super().__init__(f"declined {amount}", amount=amount, tries=tries)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def through(outcome: Outcome) -> Outcome:
    return decode_outcome(encode_outcome(outcome))


def failure(error: BaseException) -> TrouperError:
    outcome = through(Failed(ErrorRecord.of(error)))
    assert isinstance(outcome, Failed)
    return outcome.exception()


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(codec="utf-8")),
        st.binary(),
        st.lists(st.integers(0, 3)),
        st.dictionaries(st.text("abc"), st.lists(st.none())),
    )
)
def test_a_value_comes_back_equal_in_type_and_content(value: Any) -> None:
    again = through(Completed(value))
    assert isinstance(again, Completed)
    assert type(again.value) is type(value)
    assert again.value == value


def test_cancelled_comes_back() -> None:
    assert through(Cancelled()) == Cancelled()


@pytest.mark.parametrize(
    "error",
    [
        Reject("no"),
        Declined(0.5, tries=3),
        GroupShapeError("drift", key="g", position=1, recorded=[1], offered=None),
        EffectFailed("KeyError: 'x'", type="builtins.KeyError", text="'x'"),
        TrouperError(),
    ],
)
def test_a_registered_error_comes_back_as_itself(error: TrouperError) -> None:
    again = failure(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.facts == error.facts
    for name, value in error.facts.items():
        assert getattr(again, name) == value
    assert ErrorRecord.of(again) == ErrorRecord.of(error), "equal on the first run and on replay"


def test_an_error_of_another_type_comes_back_as_effect_failed() -> None:
    again = failure(KeyError("seven"))
    assert isinstance(again, EffectFailed)
    assert again.type == "builtins.KeyError"
    assert "KeyError" in str(again)
    assert "seven" in str(again)


def test_an_error_of_another_type_keeps_the_line_that_raised_it() -> None:
    nothing: dict[str, int] = {}
    try:
        nothing["no key"]  # here
    except KeyError as error:
        outcome = through(Failed(ErrorRecord.of(error)))
    assert isinstance(outcome, Failed)
    again = outcome.exception()
    where = again.facts["where"]
    lines = Path(__file__).read_text().splitlines()
    assert where.endswith(" in test_an_error_of_another_type_keeps_the_line_that_raised_it")
    assert where.startswith("test_outcome.py:")
    assert lines[int(where.split(":")[1].split()[0]) - 1].endswith("# here")
    assert f"raised at {where}" in "".join(traceback.format_exception(again))
    assert "raised at" not in str(again)


@pytest.mark.parametrize(("value", "place"), [({1}, "result"), ([[(1,)]], "result[0][0]")])
def test_a_refused_result_is_named_as_the_caller_knows_it(value: Any, place: str) -> None:
    outcome = through(Completed(value))
    assert isinstance(outcome, Failed)
    refused = outcome.exception()
    assert isinstance(refused, ValueRefused)
    assert refused.path == place
    assert str(refused).startswith(f"value refused at {place}: ")


def test_a_registered_type_that_this_program_lacks_comes_back_as_effect_failed() -> None:
    again = decode_outcome(encode(["failed", "gone.Error", "it was so", {"n": 1}, False]))
    assert isinstance(again, Failed)
    error = again.exception()
    assert isinstance(error, EffectFailed)
    assert (error.type, str(error)) == ("gone.Error", "it was so")


def test_a_group_of_one_is_its_error() -> None:
    wrapped = ExceptionGroup("outer", [ExceptionGroup("inner", [Declined(1.0)])])
    assert type(failure(wrapped)) is Declined
    several = ExceptionGroup("two", [Declined(1.0), KeyError()])
    assert isinstance(failure(several), EffectFailed)


class SoldOut(Reject):
    """Its annotations say what its facts come back as."""

    left: Decimal
    since: dt.date | None
    sizes: tuple[str, ...]


def test_facts_come_back_as_the_class_annotates_them() -> None:
    error = SoldOut("no tea", left=Decimal("0.50"), since=dt.date(2026, 11, 30), sizes=("s", "m"))
    again = failure(failure(error))
    assert isinstance(again, SoldOut)
    assert again.facts == error.facts
    assert again.left == Decimal("0.50")


def test_a_fact_of_another_type_than_annotated_is_kept_as_it_can_be() -> None:
    error = SoldOut("no tea", left=1, since="yesterday", sizes={1})
    assert failure(error).facts == {"left": 1, "since": "yesterday", "sizes": "{1}"}


def test_facts_that_a_journal_cannot_carry_keep_their_text() -> None:
    again = failure(Reject("no", fine=1, odd={1}, big=bytes(17 * 2**20)))
    assert again.facts["fine"] == 1
    assert again.facts["odd"] == "{1}"
    assert len(again.facts["big"]) < 10_000


@pytest.mark.parametrize("error", [OSError("no \udcff"), Reject("no \ud800"), Silent()])
def test_any_text_of_an_error_can_be_journaled(error: Exception) -> None:
    assert str(failure(error))


@pytest.mark.parametrize("error", [ValueError("x" * 17 * 2**20), Reject("x" * 17 * 2**20)])
def test_an_error_too_large_for_the_journal_keeps_its_head(error: Exception) -> None:
    again = failure(error)
    assert type(again) is Reject or isinstance(again, EffectFailed)
    assert "xxxx" in str(again)
    assert f"[cut: {len(ErrorRecord.of(error).message)} characters]" in str(again)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1, 2}, ValueRefused),
        ((1,), ValueRefused),
        ({1: 2}, ValueRefused),
        ("\ud800", ValueRefused),
        (2**64, ValueRefused),
        (object(), ValueRefused),
        (bytes(16 * 2**20), TooLarge),
    ],
)
def test_a_value_that_the_journal_cannot_carry_is_a_failure_that_says_so(
    value: Any, kind: type[TrouperError]
) -> None:
    outcome = through(Completed(value))
    assert isinstance(outcome, Failed)
    assert type(outcome.exception()) is kind
    assert not outcome.unknown


def test_out_of_time_means_outcome_unknown_and_names_the_key() -> None:
    outcome = through(timed_out("shop.charge", "order-7/3", 2.5))
    assert isinstance(outcome, Failed)
    assert outcome.unknown
    error = outcome.exception()
    assert type(error) is OutcomeUnknown
    assert "order-7/3" in str(error)
    assert "never under a new one" in str(error)


@pytest.mark.parametrize(
    "foreign",
    [
        ["done", 1],
        ["failed", "x"],
        ["cancelled", 1],
        "completed",
        None,
        ["failed", 1, "", {}, True],
    ],
)
def test_bytes_that_hold_no_outcome_are_refused(foreign: Any) -> None:
    with pytest.raises(ValueRefused, match="not a journaled outcome"):
        decode_outcome(encode(foreign))

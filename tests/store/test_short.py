"""The short cut for short values gives what the encoder gives, or leaves it to the encoder."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trouper.errors import TooLarge, ValueRefused
from trouper.store import Coded, MapCode, MemoryStore
from trouper.store._codec import INT_MAX, INT_MIN
from trouper.store._short import short_row, short_value

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(INT_MIN, INT_MAX)
    | st.integers(-300, 300)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
    | st.binary(max_size=300)
    | st.floats()
)
VALUES = st.recursive(
    LEAVES,
    lambda below: (
        st.lists(below, max_size=5)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=30), below, max_size=3
        )
    ),
)


@given(st.lists(LEAVES, max_size=30))
@example([INT_MIN, INT_MAX, -1, 0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
@example([1023, 1024, -1024, -1025])
@example([-24, -25, -256, -257, -65536, -65537, -(2**32), -(2**32) - 1])
@example(["", "x" * 23, "x" * 24, "x" * 255, "x" * 256])
@example(["\u00e9" * 127, "\u00e9" * 128, b"x" * 255, b"x" * 256])
@example([0] * 23)
@example([0] * 24)
@example([0.0, -0.0, 1.5, 5e-324, 1e308, float("inf"), float("-inf"), float("nan")])
@example([b"x" * 65535, b"x" * 65536, "x" * 65535, "x" * 65536])
def test_it_writes_what_the_encoder_writes(row: list[Any]) -> None:
    assert short_row(row) in (None, cbor2.dumps(row))


@given(VALUES)
@example([[1], {}])
@example({"b": 1, "a": 2})
@example([0] * 24)
@example({str(n): n for n in range(24)})
@example([[[[[]]]]])
@example([-0.0, 1.5, float("nan")])
def test_a_value_is_written_as_the_encoder_writes_it(value: Any) -> None:
    assert short_value(value, is_canonical=False) in (None, cbor2.dumps(value))
    assert short_value(value, is_canonical=True) in (None, cbor2.dumps(value, canonical=True))


@pytest.mark.parametrize("value", [7, "text", [], {}, [[1, "a"], {}], [[], {"key": b"x"}]])
def test_arguments_and_outcomes_take_the_short_cut(value: Any) -> None:
    assert short_value(value, is_canonical=True) == cbor2.dumps(value, canonical=True)
    assert short_value(["completed", value], is_canonical=False) is not None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(TEXTS, st.binary(max_size=300), st.integers(-(2**64), 2**64))
@example("x" * 65536, b"", 0)
def test_maps_of_the_same_keys_are_written_as_the_encoder_writes_them(
    text: str, data: bytes, number: int
) -> None:
    inner = MapCode("a", "bb").encode(text, data)
    mine = None if inner is None else MapCode("n", "in").encode(number, Coded(inner))
    whole = {"n": number, "in": {"a": text, "bb": data}}
    if mine is None:
        assert len(text.encode()) > 65535 or not INT_MIN <= number <= INT_MAX
    else:
        assert mine == cbor2.dumps(whole) == cbor2.dumps(whole, canonical=True)


@pytest.mark.parametrize(
    "row", [["k", 1, 5], ["k", 1, "text", b"bytes", None, True, False, -7, 1.5, b"x" * 300]]
)
def test_short_rows_take_the_short_cut(row: list[Any]) -> None:
    assert short_row(row) == cbor2.dumps(row)


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    ONE = "one"


@pytest.mark.parametrize(
    "item", [[1], {"a": 1}, (1,), 2**63, -(2**63) - 1, Number.ONE, Word.ONE, bytearray(b"x")]
)
def test_anything_else_is_left_to_the_encoder(item: Any) -> None:
    assert short_row(["k", 1, item]) is None


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        short_row(["\ud800"])


def test_half_a_surrogate_pair_in_a_record_is_refused_with_its_place(row: Any) -> None:
    with pytest.raises(ValueRefused, match=r"tests\.store\.row\.name"):
        MemoryStore().seal(b"k", row("\ud800"))


def test_a_small_limit_holds_for_short_rows_too(row: Any) -> None:
    with pytest.raises(TooLarge):
        MemoryStore(max_value=10).seal(b"k", row("more than that"))

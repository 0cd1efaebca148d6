"""Classes of msgspec and pydantic are carried as dataclasses are; neither is imported for it."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

import pytest

from trouper.errors import ValueRefused
from trouper.store import decode, encode, shape_of

pytest.importorskip("msgspec")
pytest.importorskip("pydantic")

import msgspec
import pydantic

T = TypeVar("T")
NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5


class Parcel(msgspec.Struct):
    weight: Decimal
    to: Point


class Crate(msgspec.Struct, Generic[T], tag="crate", kw_only=True):
    item: T
    count: int = 1


class Order(pydantic.BaseModel):
    at: dt.datetime = pydantic.Field(alias="AT")
    lines: list[Point]
    nested: list[Order] = pydantic.Field(default_factory=list)


class Numbers(pydantic.RootModel[list[Decimal]]):
    pass


class Loosely(pydantic.BaseModel):
    x: float


class Open(pydantic.BaseModel, extra="allow"):
    x: int


class Strict(pydantic.BaseModel, strict=True):
    at: dt.datetime
    to: Point


TEXT = "2026-11-30T12:00:00+00:00"
CARRIED: list[tuple[Any, Any, Any]] = [
    (Parcel, Parcel(Decimal("1.50"), Point(1)), {"weight": "1.50", "to": {"x": 1, "y": 0.5}}),
    (Crate[Point], Crate(item=Point(1)), {"item": {"x": 1, "y": 0.5}, "count": 1}),
    (
        Order,
        Order(AT=NOON, lines=[Point(1)], nested=[Order(AT=NOON, lines=[])]),
        {
            "at": TEXT,
            "lines": [{"x": 1, "y": 0.5}],
            "nested": [{"at": TEXT, "lines": [], "nested": []}],
        },
    ),
    (
        Order,
        Order.model_validate({"AT": TEXT, "lines": []}),
        {"at": TEXT, "lines": [], "nested": []},
    ),
    (Numbers, Numbers([Decimal(1)]), {"root": ["1"]}),
    (Strict, Strict(at=NOON, to=Point(1)), {"at": TEXT, "to": {"x": 1, "y": 0.5}}),
]


@pytest.mark.parametrize(("hint", "value", "plain"), CARRIED)
def test_it_comes_back_as_itself(hint: Any, value: Any, plain: Any) -> None:
    shape = shape_of(hint)
    assert shape.to_plain(value) == plain
    back = shape.to_value(decode(encode(plain)))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "place", "words"),
    [
        (Parcel, Parcel(1.5, Point(1)), "$.weight", "a float where"),  # type: ignore[arg-type]
        (Parcel, Parcel(Decimal(1), Point((1,))), "$.to.x", "tuple"),  # type: ignore[arg-type]
        (Loosely, Loosely.model_construct(x=1), "$", "something else"),
        (Loosely, Loosely.model_construct(x="one"), "$", "validation error"),
        (Open, Open(x=1, z=2), "$", "extra fields"),  # type: ignore[call-arg]
    ],
)
def test_what_would_not_come_back_is_refused(hint: Any, value: Any, place: str, words: str) -> None:
    with pytest.raises(ValueRefused, match=words) as caught:
        shape_of(hint).to_plain(value)
    assert caught.value.path == place


@pytest.mark.parametrize(
    ("hint", "plain", "place", "words"),
    [
        (Parcel, {"weight": "1", "to": {}}, "$.to.x", "'x' is missing"),
        (Parcel, {"weight": "1", "from": 1}, "$", "no field from"),
        (Parcel, {"weight": "1"}, "$", "Missing required argument"),
        (Order, {"at": "x", "lines": []}, "$.at", "not a datetime"),
        (Order, {"lines": []}, "$", "validation error"),
        (Order, {"at": TEXT, "lines": [], "nested": [{"at": 1}]}, "$.nested[0].at", "a text"),
    ],
)
def test_what_does_not_fit_any_more_is_refused_with_its_place(
    hint: Any, plain: Any, place: str, words: str
) -> None:
    with pytest.raises(ValueRefused, match=words) as caught:
        shape_of(hint).to_value(plain)
    assert caught.value.path == place


def test_neither_library_is_loaded_by_a_structured_value() -> None:
    code = """
import sys, datetime as dt
from trouper.store import shape_of
shape_of(dt.date).to_plain(dt.date(2026, 1, 1))
assert not {"msgspec", "pydantic"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)

"""Row types: registered once, read through upcasters, never half-read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from trouper.errors import CorruptRecord, FormatTooNew, ValueRefused
from trouper.store import _records as records
from trouper.store import record
from trouper.store._codec import encode
from trouper.store._frame import pack, unpack
from trouper.store._records import from_frame, to_frame


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_BY_KIND", dict(records._BY_KIND))
    monkeypatch.setattr(records, "_BY_CLASS", dict(records._BY_CLASS))


@record("test.point")
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 7

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@record("test.empty")
@dataclass(frozen=True)
class Empty:
    pass


@record("test.one")
@dataclass(frozen=True)
class One:
    value: Any


def frame_of(row: list[Any]) -> bytes:
    return pack(b"k", encode(row))


def read(row: list[Any], kind: type[Any] = object) -> Any:
    return from_frame("record", b"k", frame_of(row), kind)


@pytest.mark.parametrize("value", [Point(1, 2), Empty(), One([1, {"a": None}])])
def test_a_record_comes_back_equal(value: Any) -> None:
    assert from_frame("record", b"k", to_frame(b"k", value), type(value)) == value


def test_a_row_is_kind_version_and_fields_in_order() -> None:
    assert unpack("record", b"k", to_frame(b"k", Point(1, 2))) == encode(["test.point", 1, 1, 2])


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (["test.one", 1, 5], "where Point belongs"),
        (["test.point", 1, 1, 2, 3], "not valid"),
        (["test.point", 1], "not valid"),
        (["test.point", 1, -1], "x is negative"),
        (["test.point"], "not an array"),
        ([1, "test.point"], "not an array"),
    ],
)
def test_a_row_that_is_no_such_record_is_corrupt(row: list[Any], word: str) -> None:
    with pytest.raises(CorruptRecord, match=word) as caught:
        read(row, Point)
    assert (caught.value.table, caught.value.key) == ("record", "6b")


def test_a_body_that_is_no_cbor_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="not valid CBOR"):
        from_frame("record", b"k", pack(b"k", b"\xff"), Point)


@pytest.mark.parametrize("row", [["test.point", 2, 1, 2], ["test.unheard", 1, 1]])
def test_a_newer_version_or_an_unknown_kind_is_too_new(row: list[Any]) -> None:
    with pytest.raises(FormatTooNew, match=str(row[0])):
        read(row)


def test_an_old_row_is_read_through_every_upcaster_in_turn() -> None:
    @record(
        "test.grown",
        version=3,
        upcast={1: lambda fields: [*fields, "added in 2"], 2: lambda fields: fields[::-1]},
    )
    @dataclass(frozen=True)
    class Grown:
        note: str
        number: int

    assert read(["test.grown", 1, 5]) == Grown("added in 2", 5)
    assert read(["test.grown", 2, 5, "two"]) == Grown("two", 5)
    assert read(["test.grown", 3, "three", 5]) == Grown("three", 5)


@pytest.mark.parametrize("steps", [{}, {1: list}, {1: list, 2: list, 3: list}])
def test_a_gap_in_the_upcasters_is_refused_at_definition(steps: dict[int, Any]) -> None:
    with pytest.raises(ValueError, match="one upcaster for each"):
        record("test.gap", version=3, upcast=steps)


def test_a_kind_belongs_to_one_class() -> None:
    @dataclass(frozen=True)
    class Thief:
        x: int

    with pytest.raises(ValueError, match="belongs to"):
        record("test.point")(Thief)


def test_only_frozen_dataclasses_are_row_types() -> None:
    @dataclass
    class Loose:
        x: int

    for cls in (Loose, int):
        with pytest.raises(ValueError, match="frozen dataclass"):
            record("test.loose")(cls)


def test_an_unregistered_value_cannot_be_written() -> None:
    for value in ({"a": 1}, Point):
        with pytest.raises(ValueRefused, match="@record"):
            to_frame(b"k", value)

"""Structured values come back as themselves, or are refused with their place before anything is
written; and what a journal holds is rebuilt as it is, or refused with its place."""

from __future__ import annotations

import datetime as dt
import enum
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given

from trouper._gathered import Gathered, GatheredTuple
from trouper.errors import ValueRefused
from trouper.store import decode, encode, register_type, shape_of
from trouper.store._forms import FORMS
from trouper.store._hints import forget_hints
from trouper.store._shape import PLAIN

T = TypeVar("T")
ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
NOON = dt.datetime(2026, 11, 30, 12, 0, 0, 1, tzinfo=dt.UTC)
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = enum.auto()
    GREEN = (1, 2)  # a value that no journal carries
    CRIMSON = RED  # an alias


class Word(enum.StrEnum):
    YES = "y"


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5


@dataclass(frozen=True)
class Point3(Point):
    z: int = 0


@dataclass
class Node:
    value: Any
    next: Node | None = None


@dataclass(frozen=True, slots=True)
class Box(Generic[T]):
    item: T


@dataclass(frozen=True)
class Area:
    width: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.width**2)


@attrs.frozen
class Money:
    _cents: int
    currency: Colour = Colour.RED


@dataclass
class Marked:
    point: Annotated[Point, {}]
    maybe: Annotated[Point | None, {}] = None


class Pair(NamedTuple):
    left: Point
    right: int = 0


class Options(TypedDict):
    colour: Colour
    at: NotRequired[dt.date]


class Words(TypedDict):
    name: str
    within: NotRequired[list[Words]]


Cents = NewType("Cents", int)
When = NewType("When", dt.datetime)

CARRIED: list[tuple[Any, Any, Any]] = [
    # hint, value, plain form
    (Point, Point(1), {"x": 1, "y": 0.5}),
    (Point, Point(1, float("inf")), {"x": 1, "y": float("inf")}),
    (Node, Node([1], Node(None)), {"value": [1], "next": {"value": None, "next": None}}),
    (Box[Point], Box(Point(1)), {"item": {"x": 1, "y": 0.5}}),
    (Box, Box(1), {"item": 1}),
    (Area, Area(3), {"width": 3}),
    (Money, Money(5), {"_cents": 5, "currency": "RED"}),
    (Pair, Pair(Point(1), 2), [{"x": 1, "y": 0.5}, 2]),
    (Options, {"colour": Colour.RED}, {"colour": "RED"}),
    (
        Options,
        {"colour": Colour.RED, "at": dt.date(2026, 1, 2)},
        {"colour": "RED", "at": "2026-01-02"},
    ),
    (Colour, Colour.GREEN, "GREEN"),
    (Colour, Colour.CRIMSON, "RED"),
    (Word, Word.YES, "YES"),
    (Level, Level.LOW, "LOW"),
    (Rights, Rights.READ | Rights.WRITE, 3),
    (Rights, Rights(0), 0),
    (dt.datetime, NOON, "2026-11-30T12:00:00.000001+00:00"),
    (
        dt.datetime,
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        "2026-10-25T02:30:00+01:00[Europe/Berlin]",
    ),
    (
        dt.datetime,
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=-1))),
        "2026-01-01T00:00:00-00:00:01",
    ),
    (When, NOON, "2026-11-30T12:00:00.000001+00:00"),
    (dt.date, dt.date(2026, 1, 2), "2026-01-02"),
    (dt.time, dt.time(1, 2, 3, 4), "01:02:03.000004"),
    (dt.timedelta, dt.timedelta.min, [-999999999, 0, 0]),
    (dt.timedelta, dt.timedelta.max, [999999999, 86399, 999999]),
    (UUID, ID, "01234567-89ab-cdef-0123-456789abcdef"),
    (Decimal, Decimal("-0.00"), "-0.00"),
    (Decimal, Decimal("1E+999999"), "1E+999999"),
    (Fraction, Fraction(-1, 3), "-1/3"),
    (Path, Path("/var/lib"), "/var/lib"),
    (tuple[int, Point], (1, Point(1)), [1, {"x": 1, "y": 0.5}]),
    (tuple[int, ...], (1, 2), [1, 2]),
    (tuple[()], (), []),
    (tuple, (1, "a"), [1, "a"]),
    (set[str], {"b", "a", "aa"}, ["a", "b", "aa"]),
    (frozenset[Point], frozenset({Point(2), Point(1)}), [{"x": 1, "y": 0.5}, {"x": 2, "y": 0.5}]),
    (list[Point], [Point(1)], [{"x": 1, "y": 0.5}]),
    (Sequence[UUID], [ID], [str(ID)]),
    (dict[str, Point], {"a": Point(1)}, {"a": {"x": 1, "y": 0.5}}),
    (Mapping[Colour, int], {Colour.RED: 1}, {"RED": 1}),
    (dict[int, str], {-5: "a", 7: "b"}, {"-5": "a", "7": "b"}),
    (dict[UUID, Any], {ID: [1]}, {str(ID): [1]}),
    (Optional[Point], None, None),  # noqa: UP045 - both spellings
    (Point | None, Point(1), {"x": 1, "y": 0.5}),
    (Point | Colour, Colour.RED, ["Colour", "RED"]),
    (Point | Colour | int | str, "RED", ["", "RED"]),
    (Point | list[Point], [Point(1)], ["list", [{"x": 1, "y": 0.5}]]),
    (Literal[Colour.RED, Colour.GREEN], Colour.RED, "RED"),
    (Annotated[Point, ["no hash"]], Point(1), {"x": 1, "y": 0.5}),
    (Marked, Marked(Point(1)), {"point": {"x": 1, "y": 0.5}, "maybe": None}),
    (tuple[Annotated[Point, {}], int], (Point(1), 1), [{"x": 1, "y": 0.5}, 1]),
    (list[Annotated[Point, {}]], [Point(1)], [{"x": 1, "y": 0.5}]),
]


@pytest.mark.parametrize(("hint", "value", "plain"), CARRIED)
def test_a_structured_value_comes_back_as_itself(hint: Any, value: Any, plain: Any) -> None:
    shape = shape_of(hint)
    assert shape.to_plain(value) == plain
    back = shape.to_value(decode(encode(plain)))
    assert back == value
    assert type(back) is type(value)


def test_a_zone_comes_back_with_its_rules() -> None:
    shape = shape_of(dt.datetime)
    back = shape.to_value(shape.to_plain(dt.datetime(2026, 7, 1, tzinfo=BERLIN)))
    assert back.tzinfo is BERLIN


def test_a_list_where_a_tuple_is_declared_comes_back_as_declared() -> None:
    """`act.all_of` gives a list under a tuple's type (ADR 0002)."""
    for hint in (tuple[int, int], tuple[int, ...]):
        shape = shape_of(hint)
        assert shape.to_value(shape.to_plain([1, 2])) == (1, 2)


@pytest.mark.parametrize(
    ("hint", "value", "back"),
    [
        (list[Point], Gathered([Point(1, 2)], (0,)), [Point(1, 2)]),
        (tuple[int, Point], Gathered([1, Point(1, 2)], (1, 0)), (1, Point(1, 2))),
        (tuple[int, ...], Gathered([1, 2], (1, 0)), (1, 2)),
        (tuple[int, int], GatheredTuple((1, 2), (1, 0)), (1, 2)),
        (list[Point] | int, Gathered([Point(1, 2)], (0,)), [Point(1, 2)]),
        (dict[str, list[Point]], {"a": Gathered([Point(1, 2)], (0,))}, {"a": [Point(1, 2)]}),
    ],
)
def test_what_an_aggregate_gave_is_carried_as_what_it_equals(
    hint: Any, value: Any, back: Any
) -> None:
    shape = shape_of(hint)
    found = shape.to_value(decode(encode(shape.to_plain(value))))
    assert found == back
    assert type(found) is type(back)


@pytest.mark.parametrize(
    ("hint", "equal"), [(Gathered[int], "list"), (Gathered, "list"), (GatheredTuple, "tuple")]
)
def test_an_annotation_that_promises_an_order_is_refused(hint: Any, equal: str) -> None:
    for within, value in ((hint, Gathered([1], (0,))), (list[hint], [Gathered([1], (0,))])):
        with pytest.raises(ValueRefused, match=rf"without its order; say {equal}\[\.\.\.\]"):
            shape_of(within).to_plain(value)


@pytest.mark.parametrize(
    "hint",
    [
        *(int, float, bool, str, bytes, None, Any, object, list, dict, Cents, T),
        *(list[int], dict[str, list[Any]], Sequence[str], int | None, Literal["a", 1]),
        *(Words, list[Words], Annotated[int, "positive"], type[Point], complex, memoryview),
    ],
)
def test_plain_hints_and_unknown_types_cost_nothing(hint: Any) -> None:
    assert shape_of(hint) is PLAIN


class Loose:
    pass


def cyclic() -> Node:
    node = Node(1)
    node.next = node
    return node


def chain(length: int) -> Node:
    node = Node(0)
    for _ in range(length):
        node = Node(0, node)
    return node


@dataclass
class Moody:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@dataclass
class Rising:
    x: int

    def __post_init__(self) -> None:
        self.x += 1


@dataclass
class Hidden:
    x: int
    scale: InitVar[int]

    def __post_init__(self, scale: int) -> None:
        self.x *= scale


def grown(moody: Moody) -> Moody:
    moody.x = -1
    return moody


REFUSED: list[tuple[Any, Any, str, str]] = [
    # hint, value, place, words
    (Point, {"x": 1}, "$", "a dict where a .*Point is expected"),
    (Point, Point3(1), "$", "would come back as a .*Point"),
    (Point, None, "$", "None where"),
    (Point, Point((1,)), "$.x", "tuple"),  # type: ignore[arg-type]
    (Point, Point(Level.LOW), "$.x", "Level"),
    (Point, Point("\ud800"), "$.x", "surrogate"),  # type: ignore[arg-type]
    (Point, Point(2**63), "$.x", "64 bits"),
    (list[Point], [Point(1), Point([{"a": {1}}])], "$[1].x[0]['a']", "set"),  # type: ignore[arg-type]
    (list[Point], (Point(1),), "$", "a tuple where a list is expected"),
    (dict[str, Point], {"a": 1}, "$['a']", "an int where"),
    (dict[int, int], {True: 1}, "$[True]", "a bool as a key"),
    (dict[Any, Point], {1: Point(1)}, "$[1]", "an int as a key"),
    (dict[int | str, int], {1: 1}, "$[1]", "an int as a key"),
    (dict[tuple[int, int], int], {(1, 2): 3}, "$[(1, 2)]", "a tuple as a key"),
    (dict[str, Point], {"\ud800": Point(1)}, "$['\\ud800']", "surrogate"),
    (tuple[int, Point], (1,), "$", "1 places where 2 are expected"),
    (tuple[int, Point], (1, 2), "$[1]", "an int where"),
    (tuple[Point, ...], (1,), "$[0]", "an int where"),
    (set[Point], {1}, "$[0]", "an int where"),
    (Pair, (Point(1), 2), "$", "a tuple where"),
    (Pair, Pair(Point(1), {1}), "$.right", "set"),  # type: ignore[arg-type]
    (Options, {"colour": 1}, "$['colour']", "an int where"),
    (Options, {"colour": Colour.RED, "size": 1}, "$['size']", "no such key"),
    (Options, {}, "$", "'colour' is missing"),
    (Box, Box(Point(1)), "$.item", "would not come back"),
    (Point | Colour, 5, "$", "an int is none of Point | Colour"),
    (list[int] | list[Point] | Box[list[Point]] | Box[int], [], "$", "cannot be told apart"),
    (Colour, 1, "$", "an int where"),
    (dt.datetime, NOON.replace(tzinfo=None), "$", "without a zone"),
    (dt.datetime, dt.datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN), "$", "something else"),
    (dt.time, dt.time(1, tzinfo=BERLIN), "$", "fixed offset"),
    (dt.time, dt.time(1, fold=1), "$", "no fold"),
    (dt.date, NOON, "$", "would come back as a datetime.date"),
    (Node, cyclic(), "$" + ".next" * 64, "a cycle"),
    (Node, chain(100_000), "$" + ".next" * 64, "deeper than 64"),
    (Moody, grown(Moody(1)), "$", "x is negative"),
    (Rising, Rising(1), "$", "something else"),
    (Hidden, Hidden(1, 2), "$", "scale"),
    (list[Node], [chain(70)] * 2, "$[0]" + ".next" * 63, "deeper than 64"),
    (tuple[Any, ...], (Loose(),), "$[0]", "Loose"),
]


@pytest.mark.parametrize(("hint", "value", "place", "words"), REFUSED)
def test_what_would_not_come_back_is_refused_with_its_place(
    hint: Any, value: Any, place: str, words: str
) -> None:
    with pytest.raises(ValueRefused, match=words) as caught:
        shape_of(hint).to_plain(value)
    assert caught.value.path == place


def test_a_path_begins_where_the_caller_says() -> None:
    with pytest.raises(ValueRefused) as caught:
        shape_of(list[Point]).to_plain([1], "args[2]")
    assert caught.value.path == "args[2][0]"
    with pytest.raises(ValueRefused) as caught:
        shape_of(list[Point]).to_value([1], "result")
    assert caught.value.path == "result[0]"


CHANGED: list[tuple[Any, Any, str, str]] = [
    # hint, what the journal holds, place, words
    (Point, {"x": 1, "z": 2}, "$", "Point has no field z"),
    (Point, {"y": 1.0}, "$.x", "'x' is missing"),
    (Point, [1, 2.0], "$", "a list where Point is expected"),
    (list[Decimal], "123", "$", "a str where list"),
    (list[Point], [{"x": 1}, {"x": 1, "q": 1}], "$[1]", "no field q"),
    (dict[str, list[Point]], {"a": [{}]}, "$['a'][0].x", "'x' is missing"),
    (dict[int, int], {"01": 1}, "$['01']", "no int"),
    (dict[UUID, Any], {"a": 1}, "$['a']", "not a UUID"),
    (tuple[Colour, int], ["RED"], "$", "Not enough values"),
    (tuple[Colour, int], ["BLUE", 1], "$[0]", "no member 'BLUE'"),
    (Colour, 1, "$", "a text is expected"),
    (Rights, 8, "$", "8"),
    (Rights, "READ", "$", "as a number"),
    (Point | Colour, ["Circle", 1], "$", "where Point | Colour is expected"),
    (Point | Colour, ["", 1], "$", "where Point | Colour is expected"),
    (dt.datetime, "2026-11-30T12:00:00", "$", "without an offset"),
    (dt.datetime, "2026-11-30T12:00:00+00:00[Atlantis/City]", "$", "Atlantis"),
    (dt.timedelta, [1, 2], "$", "not days"),
    (Decimal, "one", "$", "not a Decimal"),
    (Fraction, "1/0", "$", "not a Fraction"),
    (Moody, {"x": -1}, "$", "x is negative"),
    (Options, {"at": "2026-01-01"}, "$", "'colour' is missing"),
]


@pytest.mark.parametrize(("hint", "plain", "place", "words"), CHANGED)
def test_what_does_not_fit_the_code_any_more_is_refused_with_its_place(
    hint: Any, plain: Any, place: str, words: str
) -> None:
    with pytest.raises(ValueRefused, match=words) as caught:
        shape_of(hint).to_value(plain)
    assert caught.value.path == place


def test_a_new_field_with_a_default_reads_what_was_written_without_it() -> None:
    assert shape_of(Point).to_value({"x": 1}) == Point(1, 0.5)


def test_a_registered_type_is_carried_where_a_hint_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trouper.store._shape.FORMS", FORMS)
    assert shape_of(list[complex]) is PLAIN
    try:
        register_type(complex, lambda c: [c.real, c.imag], lambda plain: complex(*plain))
        shape = shape_of(list[complex])
        assert shape.to_value(shape.to_plain([1j])) == [1j]
        with pytest.raises(ValueError, match="has a form"):
            register_type(complex, str, complex)
    finally:
        del FORMS[complex]
        forget_hints()


@pytest.mark.parametrize(
    ("to_plain", "words"),
    [
        (lambda _: 1 // 0, "ZeroDivisionError"),
        (lambda _: (1,), "tuple"),
        (lambda _: [5], "something else"),
        (lambda _: [0, 1], "something else"),
        (lambda _: 5, "TypeError"),
    ],
)
def test_a_form_that_does_not_hold_is_refused_before_anything_is_written(
    to_plain: Any, words: str
) -> None:
    calls = iter([to_plain, lambda c: [c.real, c.imag]])
    try:
        register_type(complex, lambda c: next(calls)(c), lambda plain: complex(*plain))
        with pytest.raises(ValueRefused, match=words) as caught:
            shape_of(dict[str, complex]).to_plain({"a": 1j})
        assert caught.value.path.startswith("$")
    finally:
        del FORMS[complex]
        forget_hints()


# --- properties -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Everything:
    """One of each, in each other."""

    plain: Any
    colour: Colour
    when: dt.datetime | None
    price: Decimal
    ids: frozenset[UUID]
    spans: dict[int, dt.timedelta]
    either: Point | Colour | int | None
    parts: tuple[Everything, ...] = ()


PLAINS = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
ZONES = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(minutes=-90)), BERLIN])
INSTANTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(
    lambda naive: naive.replace(tzinfo=dt.UTC)
)
EVERYTHING: st.SearchStrategy[Everything] = st.deferred(
    lambda: st.builds(
        Everything,
        PLAINS,
        st.sampled_from(Colour),
        st.none() | st.builds(dt.datetime.astimezone, INSTANTS, ZONES),
        st.decimals(allow_nan=False),
        st.frozensets(st.uuids(), max_size=3),
        st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.timedeltas(), max_size=2),
        st.none() | st.integers(-9, 9) | st.sampled_from(Colour) | st.builds(Point, st.just(1)),
        st.lists(EVERYTHING, max_size=1).map(tuple),
    )
)


@given(EVERYTHING)
def test_any_tree_of_structured_values_comes_back_equal(value: Everything) -> None:
    shape = shape_of(Everything)
    plain = shape.to_plain(value)
    back = shape.to_value(decode(encode(plain)))
    assert back == value
    assert encode(shape.to_plain(back)) == encode(plain)


@given(PLAINS, st.sampled_from([hint for hint, _, _ in CARRIED]))
def test_whatever_a_journal_holds_is_rebuilt_or_refused(plain: Any, hint: Any) -> None:
    shape = shape_of(hint)
    try:
        value = shape.to_value(plain)
    except ValueRefused:
        return
    assert shape.to_value(shape.to_plain(value)) == value, "what was rebuilt is carried again"


def test_import_of_the_package_does_not_load_cattrs_and_a_plain_value_does_not_either() -> None:
    code = """
import sys
from trouper.store import shape_of
shape_of(list[int]).to_plain([1])
assert "cattrs" not in sys.modules
import datetime as dt
shape_of(dt.date).to_plain(dt.date(2026, 1, 1))
assert "cattrs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)

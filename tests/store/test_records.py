"""Row types: registered once, read through upcasters, never half-read."""

from __future__ import annotations

import datetime as dt
import importlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from trouper.errors import CorruptRecord, FormatTooNew, UpcastFailed, ValueRefused
from trouper.store import (
    LmdbStore,
    MemoryStore,
    decode_record,
    encode,
    encode_record,
    record,
    revised,
    row_key,
    upcaster,
)
from trouper.store import _records as records
from trouper.store._frame import pack, unpack
from trouper.store._records import from_frame, require_upcasters, to_frame


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_BY_KIND", dict(records._BY_KIND))
    monkeypatch.setattr(records, "_BY_CLASS", dict(records._BY_CLASS))
    monkeypatch.setattr(records, "_UPCASTERS", dict(records._UPCASTERS))


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


def test_a_revised_record_is_a_replaced_one() -> None:
    point = Point(1)
    assert revised(point, y=3) == replace(point, y=3)
    assert revised(point, y=3, x=2) == Point(2, 3)
    assert revised(Empty()) == Empty()
    assert revised(One(1), value="other") == One("other")


def test_a_revised_record_passes_the_checks_of_its_constructor() -> None:
    with pytest.raises(ValueError, match="x is negative"):
        revised(Point(1), x=-1)
    with pytest.raises(KeyError, match="z"):
        revised(Point(1), z=1)


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
        (["test.point", 1, 1, 2, 3], "a new version"),
        (["test.point", 1, 1], "1 fields, Point has 2"),
        (["test.point", 1, -1, 0], "x is negative"),
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
    with pytest.raises(FormatTooNew, match=str(row[0])) as caught:
        read(row)
    assert caught.value.facts == {
        "kind": row[0],
        "version": row[1],
        "table": "record",
        "key": "6b",
    }


def grown() -> type[Any]:
    """Register version 3 of a record, and its upcasters."""

    @record("test.grown", version=3)
    @dataclass(frozen=True)
    class Grown:
        note: str
        number: int

    @upcaster("test.grown", 1)
    def note_added(number: int) -> list[Any]:
        return [number, "added in 2"]

    @upcaster("test.grown", 2)
    def turned_round(number: int, note: str) -> list[Any]:
        return [note, number]

    return Grown


def test_an_old_row_is_read_through_every_upcaster_in_turn() -> None:
    cls = grown()
    require_upcasters()
    assert read(["test.grown", 1, 5]) == cls("added in 2", 5)
    assert read(["test.grown", 2, 5, "two"]) == cls("two", 5)
    assert read(["test.grown", 3, "three", 5]) == cls("three", 5)


async def test_a_read_through_upcasters_rewrites_nothing() -> None:
    @record("test.kept")
    @dataclass(frozen=True)
    class Kept:
        number: int

    key = row_key(b"x", "kept")
    store = MemoryStore()
    async with store:
        await store.commit(lambda tx: tx.put("record", key, Kept(5)))
    before = store._state.read("record", key)
    del records._BY_KIND["test.kept"]  # as in the next process

    @record("test.kept", version=2)
    @dataclass(frozen=True)
    class Kept2:
        number: int
        note: str

    @upcaster("test.kept", 1)
    def note_added(number: int) -> list[Any]:
        return [number, "new"]

    async with store:
        assert store.get("record", key, Kept2) == Kept2(5, "new")
        assert store._state.read("record", key) == before


@pytest.mark.parametrize("kind", ["memory", "lmdb"])
async def test_no_store_opens_while_an_upcaster_is_missing(kind: str, tmp_path: Path) -> None:
    @record("test.gap", version=3)
    @dataclass(frozen=True)
    class Gap:
        number: int

    upcaster("test.gap", 2)(lambda number: [number])
    where = tmp_path / "store"
    store = MemoryStore() if kind == "memory" else LmdbStore(where)
    with pytest.raises(UpcastFailed, match=r"@upcaster\('test.gap', 1\)") as caught:
        async with store:
            pass
    assert (caught.value.kind, caught.value.version) == ("test.gap", 1)
    assert not where.exists()


def test_an_upcaster_past_the_version_of_its_record_is_refused_at_open() -> None:
    upcaster("test.point", 1)(lambda x, y: [x, y])
    with pytest.raises(UpcastFailed, match="from 1 to 2"):
        require_upcasters()


def test_a_missing_upcaster_met_by_a_read_leaves_the_row_as_it_is() -> None:
    @record("test.gap", version=2)
    @dataclass(frozen=True)
    class Gap:
        number: int

    with pytest.raises(UpcastFailed, match=r"row 6b of table 'record'.*no upcaster"):
        read(["test.gap", 1, 5])


@pytest.mark.parametrize(
    ("up", "word"),
    [
        (lambda number: [1 // number], "ZeroDivisionError"),
        (lambda number: None, "TypeError"),
        (sorted, "TypeError"),
        (lambda number: [number], "1 fields"),
        (lambda number: [number, 2, 3], "3 fields"),
        (lambda number: [-1, 0], "x is negative"),
    ],
)
def test_an_upcaster_that_fails_is_a_fault_of_the_code_not_of_the_row(up: Any, word: str) -> None:
    record("test.point", version=2)(Point)
    upcaster("test.point", 1)(up)
    with pytest.raises(UpcastFailed, match=word) as caught:
        read(["test.point", 1, 0])
    assert caught.value.version == 1


def test_a_version_has_one_upcaster() -> None:
    grown()
    grown()  # a module that is imported twice registers the same function again
    with pytest.raises(ValueError, match="note_added"):
        upcaster("test.grown", 1)(lambda number: [number])


def test_versions_count_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1"):
        record("test.zero", version=0)
    with pytest.raises(ValueError, match="count from 1"):
        upcaster("test.zero", 0)


def test_a_record_inside_a_row_is_read_through_upcasters_too() -> None:
    cls = grown()
    assert decode_record(encode(["test.grown", 1, 5]), cls) == cls("added in 2", 5)
    assert decode_record(encode_record(cls("three", 5)), object) == cls("three", 5)


@pytest.mark.parametrize("data", [b"", encode([1]), encode(["test.one", 1, 5])])
def test_bytes_that_are_no_such_record_are_refused(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        decode_record(data, Point)


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


# --- structured fields ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    street: str
    since: dt.date | None = None


@record("test.customer", version=2)
@dataclass(frozen=True, slots=True)
class Customer:
    name: str
    address: Address
    colours: tuple[str, ...] = ()


@upcaster("test.customer", 1)
def address_became_a_class(name: str, street: str) -> list[Any]:
    return [name, {"street": street, "since": None}, []]


@record("test.order", version=1)
@dataclass(frozen=True)
class Order:
    buyer: Customer
    others: dict[str, Customer]
    at: dt.datetime


CUSTOMER = Customer("ann", Address("Elm St", dt.date(2020, 1, 2)), ("red",))


def test_structured_fields_come_back_as_themselves() -> None:
    row = ["test.customer", 2, "ann", {"street": "Elm St", "since": "2020-01-02"}, ["red"]]
    assert unpack("record", b"k", to_frame(b"k", CUSTOMER)) == encode(row)
    assert read(row) == CUSTOMER


def test_a_record_inside_a_record_ages_by_itself() -> None:
    at = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    order = Order(CUSTOMER, {"b": CUSTOMER}, at)
    assert decode_record(encode_record(order), Order) == order
    old = ["test.customer", 1, "bob", "Oak St"]
    new = ["test.customer", 2, "ann", {"street": "Elm St", "since": "2020-01-02"}, ["red"]]
    text = at.isoformat()
    bob = Customer("bob", Address("Oak St"))
    assert read(["test.order", 1, old, {"b": new}, text]) == Order(bob, {"b": CUSTOMER}, at)


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        (Customer("ann", "Elm St"), "test.customer.address", "a str where"),  # type: ignore[arg-type]
        (Customer("ann", Address((1,))), "test.customer.address.street", "tuple"),  # type: ignore[arg-type]
        (
            Order(CUSTOMER, {"b": Customer("x", None)}, dt.datetime(1, 1, 1)),  # type: ignore[arg-type]
            "test.order.others['b'].address",
            "None where",
        ),
        (Order(CUSTOMER, {}, dt.datetime(1, 1, 1)), "test.order.at", "zone"),
    ],
)
def test_a_field_that_is_not_what_it_says_is_refused_with_its_place(
    value: Any, path: str, words: str
) -> None:
    with pytest.raises(ValueRefused, match=words) as caught:
        to_frame(b"k", value)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        (["test.customer", 2, "ann", {"road": 1}, []], CorruptRecord, r"address\.street.*missing"),
        (["test.customer", 1, "ann", 5, []], UpcastFailed, "TypeError"),
        (["test.order", 1, 5, {}, ""], CorruptRecord, "'test.customer' record is expected"),
        (["test.order", 1, ["test.point", 1, 2, 3], {}, ""], CorruptRecord, "Customer belongs"),
        (["test.order", 1, ["test.customer", 3], {}, ""], FormatTooNew, "of version 3"),
        (["test.order", 1, ["test.customer", 1], {}, ""], UpcastFailed, "missing 2 required"),
    ],
)
def test_what_is_wrong_inside_a_row_is_told_apart(row: list[Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        read(row)
    assert (caught.value.table, caught.value.key) == ("record", "6b")


def test_a_record_of_a_local_type_carries_its_plain_fields() -> None:
    class Local:
        pass

    @record("test.local")
    @dataclass(frozen=True)
    class Held:
        number: int
        when: dt.date
        thing: Local

    day = dt.date(2026, 1, 2)
    held: Any = Held(1, day, "plain")  # type: ignore[arg-type]
    assert decode_record(encode_record(held), Held) == held
    with pytest.raises(ValueRefused, match="annotation 'Local' cannot be resolved") as caught:
        encode_record(Held(1, day, Local()))
    assert caught.value.path == "test.local.thing"


def test_a_record_used_while_its_module_loads_finds_later_classes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "early_use.py").write_text("""
from __future__ import annotations
from dataclasses import dataclass
from trouper.store import encode_record, record

@record("test.early")
@dataclass(frozen=True)
class Early:
    later: Later | None

encode_record(Early(None))

@dataclass(frozen=True)
class Later:
    x: int
""")
    monkeypatch.syspath_prepend(tmp_path)
    early: Any = importlib.import_module("early_use")
    value = early.Early(early.Later(1))
    assert decode_record(encode_record(value), early.Early) == value


def test_rows_may_be_encoded_on_two_threads_at_once() -> None:
    """A unit runs on the writer's thread while the loop encodes for the next one."""
    order = Order(CUSTOMER, {"b": CUSTOMER}, dt.datetime(2026, 11, 30, tzinfo=dt.UTC))
    expected = encode_record(order)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(encode_record, [order] * 400)) == {expected}

"""The codec carries exactly its profile, and accepts exactly what it writes."""

from __future__ import annotations

import enum
import math
import struct
import subprocess
import sys
from typing import Any

import cbor2
import hypothesis.strategies as st
import pytest
import trio
from hypothesis import given

from trouper._gathered import Gathered, GatheredTuple
from trouper.errors import TooLarge, ValueRefused
from trouper.store import canonical, decode, decode_vouched, encode
from trouper.store._codec import _NATIVE_TAGS, MAX_DEPTH, MAX_NODES, encode_row

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text("abé", max_size=3), inner),
    max_leaves=20,
)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    return bool(one == other)


@given(VALUES)
def test_what_is_encoded_comes_back_equal_in_type_and_content(value: Any) -> None:
    assert same(decode(encode(value)), value)
    assert same(decode_vouched(encode(value)), value)


@given(st.lists(VALUES, max_size=30))
def test_what_an_aggregate_gave_is_encoded_as_the_list_it_equals(values: list[Any]) -> None:
    found = Gathered(values, reversed(range(len(values))))
    assert encode(found) == encode(values)
    assert encode({"a": [found]}) == encode({"a": [values]})
    assert canonical(found) == canonical(values)
    assert encode_row(["kind", 1, found], ("a",), MAX_NODES) == encode_row(
        ["kind", 1, values], ("a",), MAX_NODES
    )


def test_no_other_subclass_is_carried_nor_is_its_content_excused() -> None:
    class Other(list[int]):
        pass

    with pytest.raises(ValueRefused, match="Other would not come back as itself"):
        encode([Other([1])])
    with pytest.raises(ValueRefused, match=r"a tuple would come back as a list"):
        encode(GatheredTuple((1, 2), (1, 0)))
    with pytest.raises(ValueRefused) as raised:
        encode({"found": Gathered([1, {2}], (1, 0))})
    assert raised.value.path == "$['found'][1]"
    with pytest.raises(ValueRefused, match="nested deeper"):
        cycle: Gathered[Any] = Gathered()
        cycle.append(cycle)
        encode(cycle)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x61", b"\xc0\x60", b"\x9f\xff"])
def test_vouched_bytes_that_are_no_value_are_refused_all_the_same(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        decode_vouched(data)


@given(VALUES)
def test_canonical_bytes_do_not_depend_on_dict_order(value: Any) -> None:
    def reverse(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: reverse(item[key]) for key in reversed(item)}
        return [reverse(child) for child in item] if isinstance(item, list) else item

    assert canonical(reverse(value)) == canonical(value)
    assert canonical(decode(canonical(value), is_canonical=True)) == canonical(value)


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    pass


@pytest.mark.parametrize(
    ("value", "path", "word"),
    [
        ((1, 2), "$", "tuple"),
        ([[], {"a": [1, (2,)]}], "$[1]['a'][1]", "tuple"),
        ({"a": {1, 2}}, "$['a']", "set"),
        ([2**63], "$[0]", "64 bits"),
        ([-(2**63) - 1], "$[0]", "64 bits"),
        ([Colour.RED], "$[0]", "Colour"),
        ([Name("x")], "$[0]", "Name"),
        ([memoryview(b"x")], "$[0]", "memoryview"),
        ([bytearray(b"x")], "$[0]", "bytearray"),
        ([object()], "$[0]", "object"),
        ([1j], "$[0]", "complex"),
        ({"a": {1: 2}}, "$['a']", "keys are str"),
        ({Name("a"): 2}, "$", "keys are str"),
        (["\ud800"], "$[0]", "surrogate"),
        ([{"\udfff": 1}], "$[0]", "surrogate"),
        (nested(MAX_DEPTH + 1), "$" + "[0]" * MAX_DEPTH, "deeper"),
    ],
)
def test_what_would_not_come_back_is_refused_with_its_path(
    value: Any, path: str, word: str
) -> None:
    for door in (encode, canonical):
        with pytest.raises(ValueRefused, match=word) as caught:
            door(value)
        assert caught.value.path == path


@pytest.mark.parametrize("value", [0.0, -0.0, float("inf"), 5e-324, True, False, 1, 1.0])
def test_floats_bools_and_ints_stay_apart(value: Any) -> None:
    assert same(decode(encode([value])), [value])
    assert same(decode(canonical([value]), is_canonical=True), [value])


def test_every_nan_is_carried_as_the_one_nan() -> None:
    other = struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0]
    assert canonical(other) == canonical(float("nan")) == bytes.fromhex("f97e00")
    assert math.isnan(decode(encode(other)))


def test_depth_64_is_carried_and_comes_back() -> None:
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


def test_a_cycle_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueRefused, match="cycle"):
        encode(value)


def test_a_small_graph_that_unfolds_for_ever_is_refused_at_the_node_cap() -> None:
    value: Any = 0
    for _ in range(40):
        value = [value] * 10
    with pytest.raises(ValueRefused, match=str(MAX_NODES)):
        encode(value)


def test_nesting_that_kills_the_bare_encoder_is_an_error_here() -> None:
    # In a child, so that this test can fail: the bare encoder recurses until it crashes.
    code = """
from trouper.errors import ValueRefused
from trouper.store import encode
value = []
for _ in range(200_000):
    value = [value]
try:
    encode(value)
except ValueRefused:
    print("refused", flush=True)
import os; os._exit(0)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "refused\n"), run.stderr


def test_a_value_over_the_size_limit_is_too_large_and_says_how_large() -> None:
    with pytest.raises(TooLarge) as caught:
        encode(bytes(101), max_bytes=100)
    assert (caught.value.facts["size"], caught.value.facts["limit"]) == (103, 100)
    with pytest.raises(TooLarge):
        decode(bytes(101), max_bytes=100)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x01\x01", id="trailing bytes"),
        pytest.param(b"\x18\x01", id="int longer than needed"),
        pytest.param(b"\x58\x01a", id="length longer than needed"),
        pytest.param(b"\xf9\x3c\x00", id="short float"),
        pytest.param(b"\x9f\x01\xff", id="indefinite list"),
        pytest.param(b"\xa2\x61a\x01\x61a\x02", id="duplicate key"),
        pytest.param(b"\xa1\x01\x02", id="int key"),
        pytest.param(b"\xf7", id="undefined"),
        pytest.param(b"\x61\xff", id="not utf-8"),
        pytest.param(b"\x1b\x80\0\0\0\0\0\0\0", id="int over 64 bits"),
        pytest.param(b"\xc2\x41\x01", id="bignum that fits"),
        pytest.param(b"\x5b\x40\0\0\0\0\0\0\0", id="claims 2**62 bytes"),
        pytest.param(b"\x9b\x40\0\0\0\0\0\0\0", id="claims 2**62 items"),
        pytest.param(b"\x81" * 100_000 + b"\x01", id="nested 100000 deep"),
        pytest.param(b"\x81" * 65 + b"\x01", id="nested 65 deep"),
    ],
)
def test_bytes_that_this_codec_does_not_write_are_refused(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        decode(data)


@pytest.mark.parametrize("tag", [*_NATIVE_TAGS, 6, 999])
@pytest.mark.parametrize("body", [b"\x01", b"\x61a", b"\x41a", b"\x82\x01\x02"])
def test_a_tag_is_refused_without_making_the_object_it_names(tag: int, body: bytes) -> None:
    head = cbor2.dumps(cbor2.CBORTag(tag, 0))[:-1]
    with pytest.raises(ValueRefused, match="a tag"):
        decode(head + body)


def test_unsorted_keys_are_fine_in_plain_bytes_and_refused_in_canonical_ones() -> None:
    data = b"\xa2\x61b\x01\x61a\x02"
    assert decode(data) == {"b": 1, "a": 2}
    with pytest.raises(ValueRefused):
        decode(data, is_canonical=True)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_our_own(data: bytes) -> None:
    try:
        value = decode(data)
    except ValueRefused:
        return
    assert encode(value) == data


@given(VALUES, st.data())
def test_bytes_that_were_changed_are_refused_or_our_own(value: Any, data: st.DataObject) -> None:
    for door, is_canonical in ((encode, False), (canonical, True)):
        raw = bytearray(door(value))
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        try:
            read = decode(bytes(raw), is_canonical=is_canonical)
        except ValueRefused:
            continue
        assert door(read) == raw


def test_a_row_names_the_field_that_is_refused() -> None:
    with pytest.raises(ValueRefused) as caught:
        encode_row(["kind", 1, "fine", [None, (1,)]], ("first", "second"), 1000)
    assert caught.value.path == "kind.second[1]"
    row = ["kind", 1, nested(MAX_DEPTH)]
    assert encode_row(row, ("deep",), 1000)


async def test_ctrl_c_is_not_lost_inside_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder drops what its callbacks raise, so an interrupt has to wait until it is left."""
    protected: list[bool] = []

    def watched(fn: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            protected.append(trio.lowlevel.currently_ki_protected())
            return fn(*args, **options)

        return call

    for name in ("dumps", "loads"):
        monkeypatch.setattr(cbor2, name, watched(getattr(cbor2, name)))
    long = [1] * 24  # too long for the short cut
    assert decode(encode(long)) == long
    assert protected == [True] * 3  # what was decoded is encoded again, to compare


HOSTILE = """
import sys, datetime as dt
from dataclasses import dataclass
from typing import Any
from trouper._gathered import Gathered, GatheredTuple
from trouper.errors import TooLarge, ValueRefused
from trouper.store import canonical, decode, encode, fingerprint, shape_of

sys.setrecursionlimit(1_000_000)  # the limit must not be what saves us

@dataclass
class Node:
    left: Any
    right: "Node | None" = None
    more: "list[Node] | None" = None

def nested(kind, depth=100_000):
    value = 0
    for _ in range(depth):
        value = kind(value)
    return value

def cycle(value, into):
    into(value)
    return value

def twice(value, levels=64):
    for _ in range(levels):
        value = Node(0, None, [value, value])
    return value

graph = [1]
for _ in range(50):
    graph = [graph, graph]

values = {
    "list": nested(lambda v: [v]),
    "dict": nested(lambda v: {"a": v}),
    "tuple": nested(lambda v: (v,)),
    "both": nested(lambda v: [{"a": v}]),
    "cycle": cycle([], lambda v: v.append(v)),
    "cycle in a dict": cycle({}, lambda v: v.update(a=v)),
    "memoryview": memoryview(b"x"),
    "memoryview within": [{"a": memoryview(b"x" * 9)}],
    "range": range(10**12),
    "generator": (i for i in range(3)),
    "nan key": {float("nan"): 1},
    "bytes key": {b"a": 1},
    "surrogate": "\\ud800",
    "surrogate key": {"\\udfff": 1},
    "int": 2**64,
    "huge int": 10**100_000,
    "text": "x" * (17 << 20),
}
doors = [encode, canonical, lambda v: fingerprint("golden/1", v)]
for name, value in values.items():
    for door in doors:
        try:
            door(value)
        except (ValueRefused, TooLarge) as error:
            assert len(str(error)) < 300_000, name
        else:
            raise AssertionError(name)

nodes = {
    "chain": nested(lambda v: Node(0, v or None)),
    "cycle": cycle(Node(1), lambda v: setattr(v, "right", v)),
    "cycle in a list": cycle(Node(1), lambda v: setattr(v, "more", [v])),
    "unfolding": twice(Node(1)),
    "plain within": Node(values["list"]),
    "unfolding within": Node(graph),
    "shared much": Node(0, None, [Node([0] * 100_000)] * 100_000),
}
for name, value in nodes.items():
    try:
        shape_of(Node).to_plain(value)
    except ValueRefused:
        pass
    else:
        raise AssertionError(name)

cyclic = b"\\xd8\\x1c\\x81\\xd8\\x1d\\x00"
for data in (b"\\x81" * 10**6, b"\\xc1" * 10**6, cyclic, b"\\x9b" + b"\\xff" * 8):
    try:
        decode(data)
    except ValueRefused:
        continue
    raise AssertionError(data[:9])
print("lives", flush=True)
import os; os._exit(0)  # tearing down what is nested so deep recurses too
"""


def test_hostile_values_are_refused_and_the_interpreter_lives() -> None:
    """In a child of limited memory: what goes wrong here kills the process."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)\n"
    run = subprocess.run(
        [sys.executable, "-c", limit + HOSTILE],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (run.returncode, run.stdout) == (0, "lives\n"), run.stderr[-2000:]

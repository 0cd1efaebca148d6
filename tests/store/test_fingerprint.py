"""Golden vectors: these bytes are in stores out there. A change here is a new domain version."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from trouper.errors import ValueRefused
from trouper.store import canonical, fingerprint


class Colour(enum.Enum):
    RED = enum.auto()


@dataclass(frozen=True)
class Order:
    id: UUID
    cents: Decimal
    at: dt.datetime
    colour: Colour | None = None
    tags: frozenset[str] = frozenset()


def cycle() -> list[Any]:
    value: list[Any] = [(1,)]
    value.append(value)
    return value


GOLDEN: list[tuple[Any, str, str]] = [
    # value, canonical bytes, fingerprint in domain "golden/1"
    (None, "f6", "e220ed1ac19cbc807e7d28745886d428085bbabb1f6796aac8ddb66b0190ba1d"),
    (True, "f5", "679aa3e1f445917c5cb18ca946b4da7581ef006775c153fd1b7cb1b6d3984543"),
    (0, "00", "7773b2a0329bef4a2a0b3f9bc4b8e2efebdcede491eb34dda34585a5c31d1780"),
    (23, "17", "b60b18e1bd2355725c678ed2501bd894c922d007610aba4f3a110258bbbb1ed0"),
    (24, "1818", "373733d047528a5afbaf358bbb6191a165512420875a28066160611bb8de7aa4"),
    (-1, "20", "77f8b790e4cfd267c624f9c49ec54ce8128f8a675c558d90b639ae6156b4166a"),
    (
        9223372036854775807,
        "1b7fffffffffffffff",
        "6c744f0500fbaa7fcc77c4cc820eee4aa0eedcf27510dc289bda5b60825a58f0",
    ),
    (
        -9223372036854775808,
        "3b7fffffffffffffff",
        "0f52bc7d9c7d36b73ded81bf519c5668e2fcbe8c4751d3dfc40b961d9e508f18",
    ),
    (1.5, "f93e00", "c394dab66136c149fc6aeafcd34909d19775ad00254dfcde1f543b416a9cfff2"),
    (0.1, "fb3fb999999999999a", "f24a659a68c293cb8f28501097ba6e77e7e68c8fd68345339fbb31752072ac4c"),
    (-0.0, "f98000", "9f2cb2f478b591ee8463ebdc7fc76a3e8d53c93e93aafb2cd80da8566e8027ef"),
    (float("inf"), "f97c00", "cf0e0908b42a1b77c2da2fc0fa5e28db11ce7511d281c456687a0405d08aa0f1"),
    ("", "60", "225ec0451e01404cd72a7ded684c66ddfdb831db8d587c5390323aacca599379"),
    ("key", "636b6579", "8e793fe2ac060e7c93d0ee2769feb7e2691b2038100db7998adc79e4e39bc0cc"),
    (
        "\xe9\U0001f40d",
        "66c3a9f09f908d",
        "7d363f56d9d8c78b773c8d18a4a20abe7684781dad06ffc801f38efc7ffe8931",
    ),
    (b"", "40", "206337f666acddcd6fb9ff9db8f863602bcca4c691997e267f7ceec8985aadea"),
    (b"\x00\xff", "4200ff", "e8c1a07019558bb89812939f86c58f48403de0a3481e74fbbcb1f4ebc3bfe55a"),
    ([], "80", "a830b0d53bfe30a750da2daabb5f69c7e66e9054120969f3a481dab69fbe7799"),
    (
        [1, [2, [3]]],
        "820182028103",
        "9b6d7fa1653468d280a9ec4f5eabb1818b14810b685b72666a34dd36a4588198",
    ),
    ({}, "a0", "ff8b8cce8eff1b84f011a6ffe25ac3b6e510202f7609f2755828e7aa5c4ee7e3"),
    (
        {"b": 1, "a": 2},
        "a2616102616201",
        "2dbbec22b90444c4e1317cf0600a50b60efa441b7b9e517f63ebb546d48eb3e5",
    ),
    (
        {"aa": 1, "b": 2, "": 3},
        "a3600361620262616101",
        "66d108dc0bdef19c7992d233dd06374d3b9fe793bc023b5ecde93bb258273edb",
    ),
    (
        {
            "command": {"kind": "effect", "name": "fetch"},
            "arguments": ["https://example.org", 3, None],
            "key": "scope/1",
        },
        "a3636b65796773636f70652f3167636f6d6d616e64a2646b696e6466656666656374646e616d6565666574636869617267756d656e7473837368747470733a2f2f6578616d706c652e6f726703f6",
        "36e320166cafbbe984a582720be119ce9c723524a2aa0130c4612914db5ed663",
    ),
]


@pytest.mark.parametrize(("value", "data", "digest"), GOLDEN)
def test_golden_vectors_hold(value: Any, data: str, digest: str) -> None:
    assert canonical(value).hex() == data
    assert fingerprint("golden/1", value).hex() == digest


def test_the_definition_is_sha256_over_domain_zero_byte_and_canonical_bytes() -> None:
    expected = sha256(b"trouper/envelope/1\0\xa1\x61a\x01").digest()
    assert fingerprint("envelope/1", {"a": 1}) == expected


def test_a_domain_and_its_version_keep_equal_values_apart() -> None:
    prints = {fingerprint(domain, [1]) for domain in ("a/1", "a/2", "b/1", "a/12")}
    assert len(prints) == 4


def test_values_that_python_calls_equal_keep_apart() -> None:
    values: tuple[Any, ...] = (
        1,
        1.0,
        True,
        "1",
        b"1",
        [1],
        0.0,
        -0.0,
        0,
        False,
        None,
        "",
        b"",
        [],
        {},
    )
    assert len({fingerprint("golden/1", value) for value in values}) == len(values)


@pytest.mark.parametrize("domain", ["", "envelope", "envelope/0", "envelope/01", "E/1", "a/1/2"])
def test_a_domain_without_a_version_is_refused(domain: str) -> None:
    with pytest.raises(ValueError, match="envelope/1"):
        fingerprint(domain, None)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), "$"),
        ([{"a": object()}], "$[0]['a']"),
        ({"a": {1: 2}}, "$['a']"),
        (cycle(), "$" + "[1]" * 63 + "[0]"),
    ],
)
def test_a_value_without_a_plain_form_has_no_fingerprint(value: Any, place: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        fingerprint("golden/1", value)
    assert caught.value.path == place


STRUCTURED: list[tuple[Any, Any, str]] = [
    # value, plain form, fingerprint in domain "golden/1"
    (
        Order(
            UUID("01234567-89ab-cdef-0123-456789abcdef"),
            Decimal("12.50"),
            dt.datetime(2026, 11, 30, tzinfo=dt.UTC),
        ),
        {
            "id": "01234567-89ab-cdef-0123-456789abcdef",
            "cents": "12.50",
            "at": "2026-11-30T00:00:00+00:00",
            "colour": None,
            "tags": [],
        },
        "a5480866053bbde2d41199799992a8662cbf1bb2ed08c939082eb36602395bd0",
    ),
    (
        Order(
            UUID("01234567-89ab-cdef-0123-456789abcdef"),
            Decimal("1E+3"),
            dt.datetime(2026, 11, 30, 1, 2, 3, 4, dt.UTC),
            Colour.RED,
            frozenset("ba"),
        ),
        {
            "id": "01234567-89ab-cdef-0123-456789abcdef",
            "cents": "1E+3",
            "at": "2026-11-30T01:02:03.000004+00:00",
            "colour": "RED",
            "tags": ["a", "b"],
        },
        "97b1b4d2590874944abe0fd41de727505d14b4de91b8505fdafca1e6a5aef423",
    ),
    (Colour.RED, "RED", "26d0a68079795e49021a63170cd001f77f7dcc9d3ec130f10a02c291bf58bf3f"),
    (
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        "2026-10-25T02:30:00+01:00[Europe/Berlin]",
        "6ae6710504c1f0274754145ca2e98bd8ef2bedbbd7e7f1d646b4d0be7f7c12a0",
    ),
    (
        dt.date(2026, 11, 30),
        "2026-11-30",
        "40766d9551083319bf63111d873c11796a3e0a63136b3aeb0bf0b5581583a7eb",
    ),
    (
        dt.timedelta(-1, 2, 3),
        [-1, 2, 3],
        "dd702c00a16b1ff3ea1361f0b644a22e8e71c6b785114ffb38c92051b47ffb55",
    ),
    (
        UUID("01234567-89ab-cdef-0123-456789abcdef"),
        "01234567-89ab-cdef-0123-456789abcdef",
        "08513ccc2ccb6ecc8a1321ae6d14c87d447841a58f77a9079725a0cd54685fb3",
    ),
    (Decimal("-0.0"), "-0.0", "37d4a542439645de34f8491448852745d0d3ecc1b8afd621e117db811aa854c1"),
    ((1, "a"), [1, "a"], "1b332f8ac96719575c74b9e868832402b14e37db6e5d504b5932f1dacd113f36"),
    ({2, 1, 10}, [1, 2, 10], "0aa65507572e6491dd8a90a244a116624ec63071e2e3661ed783a0002a54079a"),
]


@pytest.mark.parametrize(("value", "plain", "digest"), STRUCTURED)
def test_golden_vectors_of_structured_values_hold(value: Any, plain: Any, digest: str) -> None:
    assert fingerprint("golden/1", value) == fingerprint("golden/1", plain)
    assert fingerprint("golden/1", value).hex() == digest
    assert fingerprint("golden/1", [{"in": value}]) == fingerprint("golden/1", [{"in": plain}])

"""Golden vectors: these bytes are in stores out there. A change here is a new domain version."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from trouper.errors import ValueRefused
from trouper.store import canonical, fingerprint

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


def test_a_value_outside_the_profile_has_no_fingerprint() -> None:
    with pytest.raises(ValueRefused):
        fingerprint("golden/1", (1, 2))

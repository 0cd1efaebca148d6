"""A damaged frame is told from a newer one, and no damage passes for a value."""

from __future__ import annotations

from zlib import crc32

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trouper.errors import CorruptRecord, FormatTooNew
from trouper.store._frame import pack, unpack


@given(st.binary(min_size=1, max_size=20), st.binary(max_size=40))
def test_a_frame_gives_its_body_back(key: bytes, body: bytes) -> None:
    assert unpack("record", key, pack(key, body)) == body


def test_the_layout_is_pinned() -> None:
    checksum = crc32(b"key" + b"\1\0" + b"body").to_bytes(4, "big")
    assert pack(b"key", b"body") == b"\1\0" + checksum + b"body"


@given(st.binary(min_size=1, max_size=8), st.binary(max_size=16), st.data())
def test_each_flipped_bit_is_corrupt(key: bytes, body: bytes, data: st.DataObject) -> None:
    frame = bytearray(pack(key, body))
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptRecord) as caught:
        unpack("record", key, bytes(frame))
    assert (caught.value.table, caught.value.key) == ("record", key.hex())


def test_a_frame_under_another_key_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match=r"table 'group'.*checksum"):
        unpack("group", b"other", pack(b"key", b"body"))


@pytest.mark.parametrize("size", range(6))
def test_a_short_frame_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord):
        unpack("record", b"key", pack(b"key", b"body")[:size])


@pytest.mark.parametrize("head", [b"\x02\x00", b"\x01\x01"])
def test_a_sound_frame_of_a_later_version_or_with_unknown_flags_is_too_new(head: bytes) -> None:
    frame = head + crc32(b"key" + head + b"body").to_bytes(4, "big") + b"body"
    with pytest.raises(FormatTooNew, match=f"version {head[0]}"):
        unpack("record", b"key", frame)

"""Keys fit LMDB whatever the identity, and sort as the rows should."""

from __future__ import annotations

import pytest

from trouper.errors import ValueRefused
from trouper.store import TABLES, log_key, log_sequence, row_key


def test_the_tables_are_the_five_of_the_specification() -> None:
    assert TABLES == ("meta", "log", "record", "group", "settle")


def test_a_row_key_is_pinned() -> None:
    assert row_key(b"g", "scope/1", b"\0\1").hex() == "67a35265820efae42ce0264af9a687515c0001"


def test_an_identity_of_any_length_gives_a_key_that_fits() -> None:
    assert len(row_key(b"g", "x" * 100_000, b"\0" * 8)) == 25
    assert row_key(b"g", "x" * 100_000) != row_key(b"g", "x" * 100_001)
    assert len(row_key(b"g", "\ud800")) == 17


def test_rows_of_one_identity_share_a_prefix_and_sort_by_suffix() -> None:
    keys = [row_key(b"s", "group", rank.to_bytes(8, "big")) for rank in (1, 2, 255, 256, 2**40)]
    assert keys == sorted(keys)
    assert all(key.startswith(row_key(b"s", "group")) for key in keys)


@pytest.mark.parametrize("tag", [b"", b"ab"])
def test_a_tag_is_one_byte(tag: bytes) -> None:
    with pytest.raises(ValueRefused, match="one byte"):
        row_key(tag, "x")


def test_a_suffix_that_makes_the_key_too_long_is_refused() -> None:
    assert len(row_key(b"g", "x", b"s" * 494)) == 511
    with pytest.raises(ValueRefused, match="512 bytes"):
        row_key(b"g", "x", b"s" * 495)


def test_log_keys_sort_as_numbers() -> None:
    numbers = [0, 1, 255, 256, 2**32, 2**64 - 1]
    assert sorted(map(log_key, reversed(numbers))) == [log_key(number) for number in numbers]
    assert [log_sequence(log_key(number)) for number in numbers] == numbers

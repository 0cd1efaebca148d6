"""A short cut for short rows: most hold a few numbers and names, and to call the encoder costs more
than to write those down.

What comes out is what the encoder gives, byte for byte (``tests/store/test_short.py``); what is not
short, or none of ours to judge, is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

LONGEST: Final = 23
"""Items of an array whose head is one byte."""

SHORT_BYTES: Final = LONGEST * 258
"""More than any short row takes."""

_TABLE: Final = 1024
_HALF: Final = 2**63


def _head(major: int, number: int) -> bytes:
    """Return the shortest head of a CBOR item: its major type and a number."""
    if number < 24:
        return bytes((major | number,))
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << 8 * size:
            return bytes((major | code,)) + number.to_bytes(size, "big")
    raise OverflowError


_ARRAYS: Final = [_head(0x80, size) for size in range(LONGEST + 1)]
_TEXTS: Final = [_head(0x60, size) for size in range(256)]
_BYTES: Final = [_head(0x40, size) for size in range(256)]
_INTS: Final = {n: _head(0, n) if n >= 0 else _head(0x20, -1 - n) for n in range(-24, _TABLE)}
_NONE, _TRUE, _FALSE = b"\xf6", b"\xf5", b"\xf4"


def short_row(row: list[Any]) -> bytes | None:
    """Encode an array of short leaves; None if it is anything else.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
    """
    return short_items(_ARRAYS[len(row)], row) if len(row) <= LONGEST else None


def row_head(size: int, items: list[Any]) -> bytes | None:
    """Encode the head of an array and its first items: what is the same in many rows."""
    return short_items(_ARRAYS[size], items) if size <= LONGEST else None


def int_code(number: int) -> bytes:
    """Encode a number of 64 bits."""
    return _INTS.get(number) or (_head(0, number) if number >= 0 else _head(0x20, -1 - number))


def short_items(head: bytes, items: Iterable[Any]) -> bytes | None:
    """Encode short leaves behind a head; None if one of them is anything else.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
    """
    parts = [head]
    for item in items:
        kind = item.__class__  # exactly: True is an int, and an enum may be a str
        if kind is int:
            code = _INTS.get(item)
            if code is None:
                if not -_HALF <= item < _HALF:
                    return None
                code = int_code(item)
            parts.append(code)
        elif kind is str:
            text = item.encode()
            if len(text) > 255:
                return None
            parts.append(_TEXTS[len(text)] + text)
        elif kind is bytes:
            if len(item) > 255:
                return None
            parts.append(_BYTES[len(item)] + item)
        elif item is None:
            parts.append(_NONE)
        elif item is True:
            parts.append(_TRUE)
        elif item is False:
            parts.append(_FALSE)
        else:
            return None
    return b"".join(parts)

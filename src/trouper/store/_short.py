"""A short cut for short values: most hold a few numbers and names, and to call the encoder costs
more than to write those down.

What comes out is what the encoder gives, byte for byte (``tests/store/test_short.py``); what is not
short, or none of ours to judge, is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, cast, final

LONGEST: Final = 23
"""Items of an array or a map whose head is one byte."""

DEEPEST: Final = 3
"""Levels of a short value. With `LONGEST`, it bounds what is tried in vain."""

_STRING: Final = 1 << 16  # bytes of a text from which on it is not short

SHORT_BYTES: Final = 256
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


# What the writers of rows look up themselves, where a call would cost more than the look.
ARRAYS: Final = [_head(0x80, size) for size in range(LONGEST + 1)]
_MAPS: Final = [_head(0xA0, size) for size in range(LONGEST + 1)]
_TEXTS: Final = [_head(0x60, size) for size in range(SHORT_BYTES)]
BYTES: Final = [_head(0x40, size) for size in range(SHORT_BYTES)]
INTS: Final = {n: _head(0, n) if n >= 0 else _head(0x20, -1 - n) for n in range(-24, _TABLE)}
_NONE, _TRUE, _FALSE = b"\xf6", b"\xf5", b"\xf4"


_float: Final = Struct(">Bd").pack
_two_bytes: Final = Struct(">BH").pack


def short_row(row: list[Any]) -> bytes | None:
    """Encode an array of short leaves; None if it is anything else.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
    """
    return short_items(ARRAYS[len(row)], row) if len(row) <= LONGEST else None


def short_value(value: object, *, is_canonical: bool) -> bytes | None:
    """Encode a short value of few levels; None if it is anything else.

    Canonical floats and maps of several keys are the encoder's.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
    """
    return short_items(b"", (value,), DEEPEST, is_canonical)


def row_head(size: int, items: list[Any]) -> bytes | None:
    """Encode the head of an array and its first items: what is the same in many rows."""
    return short_items(ARRAYS[size], items) if size <= LONGEST else None


def array_head(size: int) -> bytes:
    """Encode the head of an array of so many items."""
    return ARRAYS[size] if size <= LONGEST else _head(0x80, size)


def bytes_code(data: bytes) -> bytes:
    """Encode a byte string, however long."""
    size = len(data)
    return BYTES[size] + data if size < SHORT_BYTES else _head(0x40, size) + data


def int_code(number: int) -> bytes:
    """Encode a number of 64 bits."""
    if _TABLE <= number < 1 << 16:  # what most counters soon come to
        return _two_bytes(0x19, number)
    return INTS.get(number) or (_head(0, number) if number >= 0 else _head(0x20, -1 - number))


def short_items(
    head: bytes, items: Iterable[Any], levels: int = 0, is_canonical: bool = False
) -> bytes | None:
    """Encode short leaves behind a head; None if one of them is anything else.

    Lists and maps among them may nest so many levels deep.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
    """
    parts = [head]
    for item in items:
        kind = item.__class__  # exactly: True is an int, and an enum may be a str
        code: bytes | None
        if kind is int:
            code = INTS.get(item)
            if code is None:
                if not -_HALF <= item < _HALF:
                    return None
                code = int_code(item)
        elif kind is str:
            text = item.encode()
            size = len(text)
            code = _TEXTS[size] + text if size < SHORT_BYTES else _long(0x60, text)
        elif kind is bytes:
            size = len(item)
            code = BYTES[size] + item if size < SHORT_BYTES else _long(0x40, item)
        elif item is None:
            code = _NONE
        elif item is True:
            code = _TRUE
        elif item is False:
            code = _FALSE
        elif kind is float:
            code = None if is_canonical or item - item != 0.0 else _float(0xFB, item)
        elif levels and kind is list and len(item) <= LONGEST:
            code = short_items(ARRAYS[len(item)], item, levels - 1, is_canonical)
        elif levels and kind is dict:
            code = _short_map(item, levels - 1, is_canonical) if item else _MAPS[0]
        else:
            return None
        if code is None:
            return None
        parts.append(code)
    return b"".join(parts)


def _long(major: int, text: bytes) -> bytes | None:
    size = len(text)
    return _head(major, size) + text if size < _STRING else None


def _short_map(item: dict[Any, Any], levels: int, is_canonical: bool) -> bytes | None:
    if len(item) > (1 if is_canonical else LONGEST):
        return None
    flat: list[Any] = []
    for key, value in item.items():
        if key.__class__ is not str:
            return None
        flat += (key, value)
    return short_items(_MAPS[len(item)], flat, levels, is_canonical)


@final
class Coded:
    """A value that is encoded already."""

    __slots__ = ("code",)

    def __init__(self, code: bytes) -> None:
        self.code = code


@final
class MapCode:
    """Writes maps that all have the same text keys, in their order.

    What it writes is canonical if the keys are in canonical order: by length, then by letters.

    Args:
        names: The keys, short and ASCII.
    """

    __slots__ = ("_heads",)

    def __init__(self, *names: str) -> None:
        heads = [_TEXTS[len(name)] + name.encode("ascii") for name in names]
        heads[0] = _MAPS[len(names)] + heads[0]
        self._heads = heads

    def encode(self, *values: str | bytes | int | Coded) -> bytes | None:
        """Return the map with these values, or None if one of them is not short.

        Raises:
            UnicodeEncodeError: A text holds half of a surrogate pair.
        """
        parts: list[bytes] = []
        for head, item in zip(self._heads, values, strict=True):
            kind: type[Any] = item.__class__
            if kind is str:
                text = cast("str", item).encode()
                size = len(text)
                code = _TEXTS[size] + text if size < SHORT_BYTES else _long(0x60, text)
            elif kind is bytes:
                data = cast("bytes", item)
                size = len(data)
                code = BYTES[size] + data if size < SHORT_BYTES else _long(0x40, data)
            elif kind is Coded:
                code = cast("Coded", item).code
            elif kind is int and -_HALF <= cast("int", item) < _HALF:
                code = int_code(cast("int", item))
            else:
                code = None
            if code is None:
                return None
            parts.append(head)
            parts.append(code)
        return b"".join(parts)

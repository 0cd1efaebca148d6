"""The one door to CBOR.

What may be journaled (the *profile*): None, bool, int within 64 bits, float, str, bytes, list, and
dict with str keys - exactly these types, because a tuple, an enum or a str subclass would come back
as something else. There is one exception: `Gathered`, which aggregates give, is carried as the list
it equals; its order is that of the ranks, and is read from those (ADR 0002).

Depth and node count are checked before encoding, in a loop: the encoder recurses without a limit
and takes the process down. Size is checked before decoding.

Bytes from outside are accepted only if they are what we would have written ourselves: tags, odd
lengths, trailing bytes and the like do not survive re-encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeGuard, cast

import cbor2
from trio.lowlevel import enable_ki_protection

from .._gathered import Gathered, carried_type
from ..errors import InvariantError, TooLarge, TrouperError, ValueRefused
from ._short import short_row, short_value

MAX_DEPTH: Final = 64
MAX_NODES: Final = 1_000_000
MAX_BYTES: Final = 16 * 1024 * 1024
INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)

# type() itself would narrow Any to a partially unknown type
_kind_of: Final = cast("Callable[[Any], type[Any]]", type)
_LEAVES: Final = frozenset((str, bytes, float, bool, type(None)))


class _TagRefused(Exception):
    pass


def _refuse_tag(*_: object) -> Any:
    raise _TagRefused


# Tags that cbor2 would turn into objects on its own - among them regular expressions (compiled),
# decimals with huge exponents and shared references (cycles).
_NATIVE_TAGS: Final = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004),
    *(43000, 55799),
)
_NO_TAGS: Final[dict[int, Any]] = dict.fromkeys(_NATIVE_TAGS, _refuse_tag)


def encode(value: object, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Encode a profile value; dict keys keep their order.

    Raises:
        ValueRefused: Something in it is outside the profile; ``path`` says where.
        TooLarge: It takes more than `max_bytes` bytes.
    """
    return _dump(value, "$", False, max_bytes)


def canonical(value: object, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Encode a profile value so that equal values give equal bytes, whatever their dict order.

    Length-first map order and shortest floats (RFC 8949, 4.2.3). ``1``, ``1.0`` and ``True``
    stay apart, as do ``0.0`` and ``-0.0``.

    Raises:
        ValueRefused, TooLarge: As in `encode`.
    """
    return _dump(value, "$", True, max_bytes)


def decode(data: bytes, *, is_canonical: bool = False, max_bytes: int = MAX_BYTES) -> Any:
    """Decode what `encode` wrote, and nothing else; or `canonical`, with ``is_canonical=True``.

    Raises:
        ValueRefused: The bytes are not what this codec writes for any value.
        TooLarge: There are more than `max_bytes` of them.
    """
    if len(data) > max_bytes:
        raise _too_large("the input", len(data), max_bytes)
    try:
        value = _load(data)
    except _MALFORMED as error:
        reason = "a tag" if _from_tag(error) else str(error)
        raise _refused("$", f"not valid CBOR of this profile: {reason}") from error
    if _dump(value, "$", is_canonical, max_bytes) != data:
        raise _refused("$", "these bytes are not what this codec writes for the value they hold")
    return value


def decode_vouched(data: bytes) -> Any:
    """Decode what `encode` wrote, where a checksum or this very process vouches for the bytes.

    Unlike `decode`, it does not encode the value again to compare.

    Raises:
        ValueRefused: The bytes are no value.
    """
    try:
        return _load(data)
    except _MALFORMED as error:
        raise _refused("$", f"not valid CBOR of this profile: {error}") from error


@enable_ki_protection
def encode_row(
    row: list[Any], names: tuple[str, ...], max_bytes: int, *, may_be_short: bool = True
) -> bytes:
    """Encode ``[kind, version, *fields]``; a refusal names the field, and the place inside it."""
    try:
        body = short_row(row) if may_be_short else None
        if body is None:
            if not _sound(row, MAX_DEPTH + 1):
                for name, field in zip(names, row[2:], strict=True):
                    _explain(field, f"{row[0]}.{name}")
            body = cbor2.dumps(row)
    except UnicodeEncodeError:
        for name, field in zip(names, row[2:], strict=True):
            _explain(field, f"{row[0]}.{name}")
        raise
    if len(body) > max_bytes:
        raise _too_large(f"a row of kind {row[0]!r}", len(body), max_bytes)
    return body


def decode_row(body: bytes) -> list[Any]:
    """Decode the body of a frame whose checksum held, so without re-encoding it.

    Raises:
        ValueRefused: It is not ``[kind, version, *fields]``.
    """
    row = decode_vouched(body)
    if not is_row(row):
        raise _refused("$", "not an array of kind, version and fields")
    return row


def is_row(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether this is ``[kind, version, *fields]``."""
    return (
        _kind_of(value) is list
        and len(value) >= 2
        and type(value[0]) is str
        and type(value[1]) is int
    )


_MALFORMED: Final = (cbor2.CBORDecodeError, _TagRefused, UnicodeDecodeError)


# The encoder calls back into Python (isinstance with an abstract class) and drops what that raises:
# a Ctrl-C at that instant would be lost.
@enable_ki_protection
def _load(data: bytes) -> Any:
    return cbor2.loads(
        data,
        tag_hook=_refuse_tag,
        semantic_decoders=_NO_TAGS,
        max_depth=MAX_DEPTH + 2,  # the leaf counts as a level, and so does the array around a row
        allow_indefinite=False,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )


@enable_ki_protection
def _dump(value: object, path: str, is_canonical: bool, max_bytes: int) -> bytes:
    try:
        data = short_value(value, is_canonical=is_canonical)
        if data is None:
            if not _sound(value, MAX_DEPTH):
                _explain(value, path)
            data = cbor2.dumps(value, canonical=is_canonical)
    except UnicodeEncodeError:
        _explain(value, path)
        raise
    if len(data) > max_bytes:
        raise _too_large("the value", len(data), max_bytes)
    return data


def _sound(value: object, max_depth: int) -> int:
    """Count the values of a value level by level, without recursion; 0 if one does not fit."""
    level: list[Any] = [value]
    nodes = 1
    depth = 0
    while level:
        below: list[Any] = []
        nested = False
        for item in level:
            kind = _kind_of(item)
            if kind in _LEAVES:
                continue
            if kind is int:
                if not INT_MIN <= item <= INT_MAX:
                    return 0
                continue
            nested = True
            if kind is list or kind is Gathered:
                nodes += len(item)
                if nodes > MAX_NODES:  # before growing `below`: a small graph can unfold for ever
                    return 0
                below += item
            elif kind is dict:
                nodes += len(item)
                if nodes > MAX_NODES:
                    return 0
                for key in item:
                    if type(key) is not str:
                        return 0
                below += item.values()
            else:
                return 0
        depth += nested
        if depth > max_depth:
            return 0
        level = below
    return nodes


def _explain(value: object, root: str) -> None:
    """Raise the refusal of an unsound value, with its path; the slow twin of `_sound`."""
    pending: list[tuple[str, Any, int]] = [(root, value, 0)]
    nodes = 0
    while pending:
        path, item, depth = pending.pop()
        nodes += 1
        if nodes > MAX_NODES:
            raise _refused(root, f"more than {MAX_NODES} values in one value")
        reason = _objection(item, depth)
        if reason:
            raise _refused(path, reason)
        pending.extend(reversed(_children(path, item, depth + 1)))


def measure(value: object) -> int:
    """Return how many values a value holds, itself included; 0 if one is outside the profile.

    Cheaper than encoding, for parts of a value whose whole will be encoded.
    """
    kind: type[Any] = type(value)
    if kind is str:
        text = cast("str", value)
        return 1 if text.isascii() or _encodable(text) else 0
    return 1 if kind in _LEAVES else _sound(value, MAX_DEPTH)


def objection(value: object) -> tuple[str, str]:
    """Return the place inside an unsound value, and what is wrong there."""
    try:
        _explain(value, "")
    except ValueRefused as refused:
        return refused.path, refused.reason
    raise InvariantError(f"a value that is sound was called unsound: {value!r:.80}")


def _children(path: str, item: Any, depth: int) -> list[tuple[str, Any, int]]:
    kind = carried_type(item)
    if kind is list:
        return [(f"{path}[{index}]", child, depth) for index, child in enumerate(item)]
    found: list[tuple[str, Any, int]] = []
    if kind is dict:
        for key, child in item.items():
            reason = _key_objection(key)
            if reason:
                raise _refused(path, reason)
            found.append((f"{path}[{key!r}]", child, depth))
    return found


def _objection(item: Any, depth: int) -> str | None:
    kind: type[Any] = carried_type(item)
    if kind is int:
        fits = INT_MIN <= item <= INT_MAX
        return None if fits else "an int outside 64 bits; store it as str or bytes"
    if kind is str:
        return None if _encodable(item) else "text with a lone surrogate; store it as bytes"
    if kind in _LEAVES:
        return None
    if kind is list or kind is dict:
        return None if depth < MAX_DEPTH else f"nested deeper than {MAX_DEPTH}, or a cycle"
    if kind is tuple:
        return "a tuple would come back as a list; pass a list, or say tuple in the annotation"
    return (
        f"a {kind.__module__}.{kind.__qualname__} would not come back as itself; name its type in "
        "the annotation of what takes or returns it"
    )


def _key_objection(key: object) -> str | None:
    if type(key) is not str:
        return f"dict key {key!r:.40} is a {type(key).__name__}; keys are str"
    return None if _encodable(key) else f"dict key {key!r:.40} has a lone surrogate"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_tag(error: BaseException) -> bool:
    return isinstance(error, _TagRefused) or isinstance(error.__cause__, _TagRefused)


def _refused(path: str, reason: str) -> TrouperError:
    return ValueRefused(f"value refused at {path}: {reason}", path=path, reason=reason)


def _too_large(what: str, size: int, limit: int) -> TrouperError:
    return TooLarge(
        f"{what} takes {size} bytes, the limit is {limit}; "
        f"keep large data outside and journal where it is",
        size=size,
        limit=limit,
    )

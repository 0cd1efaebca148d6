"""Registered row types: what a table holds.

A row is ``[kind, version, *fields]`` in field order. Fields are positions, so a field is added,
removed or reordered only together with a new version and an upcaster from the old one. An upcaster
is pure and works on the list of field values; the stored bytes are never rewritten by a read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar

from ..errors import CorruptRecord, FormatTooNew, ValueRefused, durable_name
from ._codec import MAX_BYTES, decode_row, encode_row
from ._frame import corrupt, pack, unpack

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])
Upcast = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class _RecordType:
    kind: str
    version: int
    cls: type[Any]
    names: tuple[str, ...]
    fields_of: Callable[[Any], tuple[Any, ...]]
    upcast: Mapping[int, Upcast]


_BY_CLASS: Final[dict[type[Any], _RecordType]] = {}
_BY_KIND: Final[dict[str, _RecordType]] = {}


def record(
    kind: str, *, version: int = 1, upcast: Mapping[int, Upcast] | None = None
) -> Callable[[C], C]:
    """Register a frozen dataclass as a row type of the journal.

    Args:
        kind: Its name in the journal, unique and for ever.
        version: The version of its fields.
        upcast: For each older version, a pure function from its list of field values to that of
            the next version.

    Raises:
        ValueError: The kind is taken, the upcasters have a gap, or it is not a frozen dataclass.
    """
    steps = dict(upcast or {})
    if version < 1 or set(steps) != set(range(1, version)):
        raise ValueError(
            f"record {kind!r} of version {version} needs one upcaster for each of the versions "
            f"before it, got {sorted(steps)}"
        )

    def register(cls: C) -> C:
        params = getattr(cls, "__dataclass_params__", None)
        if params is None or not params.frozen:
            raise ValueError(f"record {kind!r}: {cls.__qualname__} is not a frozen dataclass")
        taken = _BY_KIND.get(kind)
        if taken is not None and durable_name(taken.cls) != durable_name(cls):
            raise ValueError(f"record kind {kind!r} belongs to {durable_name(taken.cls)}")
        names = tuple(field.name for field in dataclasses.fields(cls) if field.init)
        made = _RecordType(kind, version, cls, names, _reader(names), steps)
        _BY_KIND[kind] = _BY_CLASS[cls] = made
        return cls

    return register


def to_frame(key: bytes, value: object, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the frame of a registered record under `key`.

    Raises:
        ValueRefused: The type is not registered, or a field holds what the profile refuses.
        TooLarge: The row is larger than `max_bytes`.
    """
    made = _BY_CLASS.get(type(value))
    if made is None:
        name = type(value).__qualname__
        raise ValueRefused(
            f"{name} is not a registered row type; decorate it with @record(...)",
            path="$",
            reason="not a registered record",
        )
    row = [made.kind, made.version, *made.fields_of(value)]
    return pack(key, encode_row(row, made.names, max_bytes))


def from_frames(
    table: str,
    frames: Iterable[tuple[bytes, bytes]],
    kind: type[T],
    damaged: Callable[[CorruptRecord], None] | None,
) -> list[tuple[bytes, T]]:
    """Rebuild the records of a scan; ``damaged`` is told of those that cannot be, or they raise."""
    rows: list[tuple[bytes, T]] = []
    for key, frame in frames:
        try:
            rows.append((key, from_frame(table, key, frame, kind)))
        except CorruptRecord as error:
            if damaged is None:
                raise
            damaged(error)
    return rows


def from_frame(table: str, key: bytes, frame: bytes, kind: type[T]) -> T:
    """Rebuild the record in a frame; its constructor's checks run.

    Args:
        table: Where it was read, for error texts.
        key: Under which key, for the checksum.
        frame: The stored bytes.
        kind: The expected type, or a base of several (``object`` takes any).

    Raises:
        CorruptRecord: Wrong checksum, another kind, or fields its constructor refuses.
        FormatTooNew: A newer version, or a kind this program does not know.
    """
    try:
        row = decode_row(unpack(table, key, frame))
    except ValueRefused as error:
        raise corrupt(table, key, error.reason) from error
    name: str = row[0]
    version: int = row[1]
    made = _BY_KIND.get(name)
    if made is None or version > made.version:
        raise _too_new(table, key, name, version, made)
    fields = row[2:]
    if not issubclass(made.cls, kind):
        raise corrupt(table, key, f"it holds a {name!r} row where {kind.__qualname__} belongs")
    try:
        if version != made.version:
            for step in range(version, made.version):
                fields = made.upcast[step](fields)
        value: T = made.cls(*fields)
    except Exception as error:
        raise corrupt(table, key, f"its {name!r} fields are not valid ({error})") from error
    return value


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return _no_fields
    read = attrgetter(*names)
    if len(names) == 1:
        return lambda value: (read(value),)
    return read


def _no_fields(_: Any) -> tuple[Any, ...]:
    return ()


def _too_new(
    table: str, key: bytes, kind: str, version: int, made: _RecordType | None
) -> FormatTooNew:
    known = "knows no such kind" if made is None else f"reads up to version {made.version}"
    return FormatTooNew(
        f"row {key.hex()} of table {table!r} is a {kind!r} of version {version}; this program "
        f"{known}. It was left as it is; use the program version that wrote it.",
        table=table,
        key=key.hex(),
        kind=kind,
        version=version,
    )

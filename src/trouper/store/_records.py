"""Registered record types: what a table holds, and what their older versions become.

A row is ``[kind, version, *fields]`` in field order, each field in its plain form (`_shape`).
Fields are positions, so a field is added, removed or reordered only together with a new version and
an upcaster from the old one. Upcasters are chained on read; the stored bytes are never rewritten
by it. A record inside another value is carried as its row, and so ages by itself.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar

from ..errors import CorruptRecord, FormatTooNew, UpcastFailed, ValueRefused, durable_name
from ._codec import MAX_BYTES, decode_row, encode_row, is_row
from ._forms import FORMS, Misfit
from ._frame import corrupt, pack, unpack
from ._hints import Unresolved, hints_of_record
from ._shape import Shape, shape_of, unresolved
from ._short import row_head, short_items

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])
Upcast = Callable[..., Iterable[Any]]
U = TypeVar("U", bound=Upcast)


_Structured = tuple[tuple[int, str, Shape[Any]], ...]


@dataclass(slots=True)
class _RecordType:
    kind: str
    version: int
    cls: type[Any]
    names: tuple[str, ...]
    fields_of: Callable[[Any], tuple[Any, ...]]
    places: dict[str, int]  # where each field is among them
    head: bytes | None  # of its rows: encoded kind and version; None if it has too many fields
    structured: _Structured | None = None  # the fields that are not plain; found at first use

    @property
    def is_young(self) -> bool:
        """Tell whether the module of its class may yet define what its annotations name."""
        module = sys.modules.get(self.cls.__module__)
        spec = getattr(module, "__spec__", None)
        return spec is None or getattr(spec, "_initializing", False)


_BY_CLASS: Final[dict[type[Any], _RecordType]] = {}
_BY_KIND: Final[dict[str, _RecordType]] = {}
_UPCASTERS: Final[dict[tuple[str, int], Upcast]] = {}


def record(kind: str, *, version: int = 1) -> Callable[[C], C]:
    """Register a frozen dataclass as a record type of the journal.

    Its fields hold what their annotations say: plain values, and what a `Shape` carries.

    Args:
        kind: Its name in the journal, unique and for ever.
        version: The version of its fields, from 1. A later one needs an `upcaster` from each
            version before it; a store does not open while one is missing.

    Raises:
        ValueError: The kind is taken, or it is not a frozen dataclass.
    """
    if version < 1:
        raise ValueError(f"record {kind!r}: versions count from 1, got {version}")

    def register(cls: C) -> C:
        params = getattr(cls, "__dataclass_params__", None)
        if params is None or not params.frozen:
            raise ValueError(f"record {kind!r}: {cls.__qualname__} is not a frozen dataclass")
        taken = _BY_KIND.get(kind)
        if taken is not None and durable_name(taken.cls) != durable_name(cls):
            raise ValueError(f"record kind {kind!r} belongs to {durable_name(taken.cls)}")
        names = tuple(field.name for field in dataclasses.fields(cls) if field.init)
        head = row_head(2 + len(names), [kind, version])
        places = {name: place for place, name in enumerate(names)}
        made = _RecordType(kind, version, cls, names, _reader(names), places, head)
        _BY_KIND[kind] = _BY_CLASS[cls] = made
        FORMS[cls] = (partial(_form, made), partial(_of_form, made))
        return cls

    return register


def upcaster(kind: str, version: int) -> Callable[[U], U]:
    """Register a pure function that turns the fields of one version into those of the next.

    It is called with the old field values by position and returns the new ones, in order:

        @upcaster("account.opened", 1)
        def add_currency(owner: str, cents: int) -> list[Any]:
            return [owner, cents, "EUR"]

    Args:
        kind: The kind of the record.
        version: The version that it reads; it leads to ``version + 1``.

    Raises:
        ValueError: That version has an upcaster already.
    """
    if version < 1:
        raise ValueError(f"record {kind!r}: versions count from 1, got {version}")

    def register(fn: U) -> U:
        taken = _UPCASTERS.get((kind, version))
        if taken is not None and durable_name(taken) != durable_name(fn):
            raise ValueError(
                f"record {kind!r} has an upcaster from version {version}: {durable_name(taken)}"
            )
        _UPCASTERS[kind, version] = fn
        return fn

    return register


def require_upcasters() -> None:
    """Refuse record types that could not read what an older version of them wrote.

    Raises:
        UpcastFailed: An upcaster is missing, or leads past the version of its record.
    """
    for made in list(_BY_KIND.values()):
        for version in range(1, made.version):
            if (made.kind, version) not in _UPCASTERS:
                raise _no_upcaster(made, version)
    for kind, version in list(_UPCASTERS):
        known = _BY_KIND.get(kind)
        if known is not None and version >= known.version:
            raise UpcastFailed(
                f"record {kind!r} is of version {known.version}, and an upcaster leads from "
                f"{version} to {version + 1}; raise version= to that, or remove the upcaster",
                kind=kind,
                version=version,
            )


def is_record(cls: type[Any]) -> bool:
    """Tell whether a class is registered as a record type."""
    return cls in _BY_CLASS


def revised(row: T, **changes: Any) -> T:
    """Return a registered record with some of its fields changed: `dataclasses.replace`, faster."""
    made = _BY_CLASS[type(row)]
    fields = list(made.fields_of(row))
    for name, value in changes.items():
        fields[made.places[name]] = value
    new: T = made.cls(*fields)
    return new


def encode_record(value: object, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Encode a registered record with its kind and version, to be carried inside another row.

    Raises:
        ValueRefused: The type is not registered, or a field holds what the profile refuses.
        TooLarge: It takes more than `max_bytes` bytes.
    """
    made = _BY_CLASS.get(type(value))
    if made is None:
        raise ValueRefused(
            f"{type(value).__qualname__} is not a registered row type; decorate it with "
            "@record(...)",
            path="$",
            reason="not a registered record",
        )
    structured = made.structured
    if structured is None:
        structured = _structured(made)
    fields = made.fields_of(value)
    head = None if structured else made.head
    if head is not None:
        try:
            body = short_items(head, fields)
        except UnicodeEncodeError:
            body = None  # to be refused below, with its place
        if body is not None and len(body) <= max_bytes:
            return body
    row = [made.kind, made.version, *fields]
    for place, name, shape in structured:
        row[place] = shape.to_plain(row[place], f"{made.kind}.{name}")
    return encode_row(row, made.names, max_bytes, may_be_short=head is None)


def decode_record(data: bytes, kind: type[T]) -> T:
    """Rebuild what `encode_record` encoded, through upcasters; its constructor's checks run.

    For bytes that a checksum vouches for, such as a field of a row.

    Raises:
        ValueRefused: The bytes are no such record, or not of that type.
        FormatTooNew: A newer version, or a kind this program does not know.
        UpcastFailed: An upcaster is missing, or could not read an older version.
    """
    try:
        return _rebuild(decode_row(data), kind)
    except Misfit as error:
        raise ValueRefused(f"not a record: {error}", path="$", reason=str(error)) from error


def to_frame(key: bytes, value: object, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the frame of a registered record under `key`; raises as `encode_record` does."""
    return pack(key, encode_record(value, max_bytes=max_bytes))


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
        UpcastFailed: An upcaster is missing, or could not read an older version.
    """
    try:
        return _rebuild(decode_row(unpack(table, key, frame)), kind)
    except ValueRefused as error:
        raise corrupt(table, key, error.reason) from error
    except Misfit as error:
        raise corrupt(table, key, str(error)) from error
    except (FormatTooNew, UpcastFailed) as error:
        if "table" in error.facts:
            raise
        raise type(error)(
            f"row {key.hex()} of table {table!r}: {error}",
            **error.facts,
            table=table,
            key=key.hex(),
        ) from error


def _rebuild(row: list[Any], kind: type[T]) -> T:
    name: str = row[0]
    version: int = row[1]
    made = _BY_KIND.get(name)
    if made is None or version > made.version:
        raise _too_new(name, version, made)
    if not issubclass(made.cls, kind):
        raise Misfit(f"it holds a {name!r} row where {kind.__qualname__} belongs")
    fields = row[2:]
    value: T
    if version != made.version:
        value = _upcast(made, version, fields)
        return value
    try:
        value = _build(made, fields)
    except (FormatTooNew, UpcastFailed):
        raise
    except Exception as error:
        raise Misfit(
            f"its {name!r} fields are not valid ({error}); a record whose fields change needs a "
            "new version"
        ) from error
    return value


def _upcast(made: _RecordType, version: int, fields: list[Any]) -> Any:
    for step in range(max(version, 1), made.version):
        up = _UPCASTERS.get((made.kind, step))
        if up is None:
            raise _no_upcaster(made, step)
        try:
            fields = list(up(*fields))
        except Exception as error:
            raise _upcast_failed(made.kind, step, error) from error
    try:
        return _build(made, fields)
    except (FormatTooNew, UpcastFailed):
        raise
    except Exception as error:
        raise _upcast_failed(made.kind, made.version - 1, error) from error


def _build(made: _RecordType, fields: list[Any]) -> Any:
    if len(fields) != len(made.names):
        raise ValueError(f"{len(fields)} fields, {made.cls.__qualname__} has {len(made.names)}")
    structured = made.structured
    if structured is None:
        structured = _structured(made)
    for place, name, shape in structured:
        fields[place - 2] = shape.to_value(fields[place - 2], f"{made.kind}.{name}")
    return made.cls(*fields)


def _structured(made: _RecordType) -> _Structured:
    """Find the fields that are not plain. Not before the first use: a class may name later ones."""
    found: list[tuple[int, str, Shape[Any]]] = []
    hints = hints_of_record(made.cls, made.names)
    for place, (name, hint) in enumerate(hints, 2):
        shape = unresolved(hint.reason) if isinstance(hint, Unresolved) else shape_of(hint)
        if not shape.is_plain:
            found.append((place, name, shape))
    structured = tuple(found)
    if not (made.is_young and any(isinstance(hint, Unresolved) for _, hint in hints)):
        made.structured = structured
    return structured


def _form(made: _RecordType, value: Any) -> list[Any]:
    """Return the row of a record inside another value."""
    row = [made.kind, made.version, *made.fields_of(value)]
    for place, name, shape in _structured(made) if made.structured is None else made.structured:
        try:
            row[place] = shape.out(row[place])
        except Misfit as misfit:
            raise misfit.at(f".{name}") from None
    return row


def _of_form(made: _RecordType, plain: Any) -> Any:
    if not is_row(plain):
        raise Misfit(f"the journal holds {plain!r:.80} where a {made.kind!r} record is expected")
    return _rebuild(list(plain), made.cls)


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return _no_fields
    read = attrgetter(*names)
    if len(names) == 1:
        return lambda value: (read(value),)
    return read


def _no_fields(_: Any) -> tuple[Any, ...]:
    return ()


def _too_new(kind: str, version: int, made: _RecordType | None) -> FormatTooNew:
    known = "knows no such kind" if made is None else f"reads up to version {made.version}"
    return FormatTooNew(
        f"it is a {kind!r} of version {version}; this program {known}. It was left as it is; use "
        "the program version that wrote it, or import the module that registers it.",
        kind=kind,
        version=version,
    )


def _no_upcaster(made: _RecordType, version: int) -> UpcastFailed:
    return UpcastFailed(
        f"record {made.kind!r} is of version {made.version} and has no upcaster from version "
        f"{version}; register one with @upcaster({made.kind!r}, {version}), and import its module",
        kind=made.kind,
        version=version,
    )


def _upcast_failed(kind: str, version: int, error: Exception) -> UpcastFailed:
    return UpcastFailed(
        f"the upcaster of {kind!r} from version {version} cannot read this one "
        f"({type(error).__name__}: {error}). It was left as it is; repair the upcaster.",
        kind=kind,
        version=version,
    )

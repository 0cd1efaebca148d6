"""Dump a store: every row, as data. Also of a damaged store, as far as it can be read."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CorruptRecord, FormatTooNew, StoreDamaged, StoreError, ValueRefused
from ._codec import decode_row
from ._frame import unpack
from ._history import RecordsRow
from ._pages import Broken, Pages
from ._place import DATA_FILE, damaged, place_of
from ._reading import owner_of, require_store
from ._records import decode_record, from_frame
from ._shortage import cannot_open
from ._snapshot import Snapshot
from ._verify import Finding

_Tables = Iterator[tuple[str, Iterator[tuple[bytes, bytes]]]]


@dataclass(frozen=True, slots=True)
class DumpedRow:
    """One row.

    Attributes:
        table: Its table.
        key: Its key.
        kind: Kind of the record, as it is stored.
        version: Version of the record, as it is stored.
        fields: By name, as this program reads them; by position where it knows no such record.
            Records of a history share rows: each of them has a kind, a version and fields as well.
    """

    table: str
    key: bytes
    kind: str
    version: int
    fields: dict[str, Any] | list[Any]


def dump(
    path: str | os.PathLike[str],
    *,
    tables: Collection[str] | None = None,
    broken: Callable[[Finding], None] | None = None,
) -> Iterator[DumpedRow]:
    """Give out the rows of a store, table by table and in key order; change nothing.

    Of a store that a process has open, it is one state, read through LMDB; of any other, pages are
    read without LMDB, so that damage costs what is damaged and no more.

    Args:
        path: The store's directory.
        tables: Only these.
        broken: Told of each page and row that cannot be read; without it the first one raises.

    Raises:
        StoreDamaged: Nothing can be read, or something and `broken` is not given.
        CorruptRecord: A row cannot be read, and `broken` is not given.
        PathRefused, StoreOwned, WrongEngine, FormatTooNew: There is no store for us to read.
    """
    directory = place_of(path)

    def tell(error: StoreError, finding: Finding) -> None:
        if broken is None:
            raise error
        broken(finding)

    def page(what: str) -> None:
        tell(damaged(directory, DATA_FILE, what), Finding("", "", what))

    with _frames(directory, tell, page) as found:
        for table, rows in found:
            if tables is not None and table not in tables:
                continue
            for key, frame in rows:
                try:
                    yield _row(table, key, frame)
                except CorruptRecord as error:
                    reason = error.facts.get("reason", str(error))
                    tell(error, Finding(table, key.hex(), reason))


@contextmanager
def _frames(
    directory: Path, tell: Callable[[StoreError, Finding], None], page: Callable[[str], None]
) -> Generator[_Tables]:
    data, place = directory / DATA_FILE, None
    with ExitStack() as stack:
        try:
            try:
                require_store(directory)
            except StoreDamaged as error:
                place = error  # of what is around the pages; they may be sound
            if owner_of(directory, stack) is None:
                pages = _pages(data, page, place, stack)
                if place is not None:
                    tell(place, Finding("", "", str(place)))
                found = ((table, pages.rows(tree)) for table, tree in pages.tables().items())
            elif place is not None:
                raise place  # no file to be mapped
            else:
                snapshot = stack.enter_context(Snapshot(data, shared=True))
                found = ((table, snapshot.items(table)) for table in snapshot.tables)
        except Broken as error:
            raise damaged(directory, DATA_FILE, str(error)) from error
        except OSError as error:
            raise cannot_open(directory, error.errno, error.strerror or str(error)) from error
        yield found


def _pages(
    data: Path, page: Callable[[str], None], place: StoreDamaged | None, stack: ExitStack
) -> Pages:
    try:
        return stack.enter_context(Pages(data, page))
    except (Broken, OSError) as error:
        if place is None:
            raise
        raise place from error


def _row(table: str, key: bytes, frame: bytes) -> DumpedRow:
    try:
        kind, version, *fields = decode_row(unpack(table, key, frame))
    except (ValueRefused, FormatTooNew) as error:
        raise CorruptRecord(str(error), table=table, key=key.hex()) from error
    try:
        value: Any = from_frame(table, key, frame, object)
    except StoreError:  # no such kind or version here, or no such fields: show what is there
        return DumpedRow(table, key, kind, version, fields)
    named = _named(value)
    if isinstance(value, RecordsRow):  # what lies in it is what somebody looks for
        named["records"] = [_record(body) for body in value.records]
    return DumpedRow(table, key, kind, version, named)


def _record(body: bytes) -> dict[str, Any]:
    try:
        kind, version, *fields = decode_row(body)
    except StoreError:
        return {"encoded": body}
    try:
        named: Any = _named(decode_record(body, object))
    except StoreError:
        named = fields
    return {"kind": kind, "version": version, "fields": named}


def _named(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}

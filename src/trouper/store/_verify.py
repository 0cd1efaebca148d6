"""The offline verifier: says what is wrong with a store, and lives to say it.

Nothing here maps the file, so no damage can kill the process. It looks at three things, each also
where the one before it found something: the place (directory, identity file, kind of file), the
pages (every rule that LMDB relies on), the rows (checksum, version, body).

What rows mean to one another is not the store's to know: `trouper store check` adds that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from ..errors import CorruptRecord, FormatTooNew, PathRefused, StoreDamaged
from ._keys import TABLES
from ._lmdb import problems_of
from ._owner import unowned
from ._pages import Broken, Pages
from ._place import DATA_FILE, Identity, check_directory, has_data, place_of, read_identity
from ._records import from_frame
from ._state import OWN_KEY, OWN_TABLE, StoreState

MAX_FINDINGS: Final = 1000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a store.

    Attributes:
        table: In which table; empty if it is the file and no single table.
        key: Under which key, in hex; empty if it is no single row.
        what: What is wrong.
    """

    table: str
    key: str
    what: str

    def __str__(self) -> str:
        where = f"table {self.table!r}" if self.table else "file"
        return f"{where}{', row ' + self.key if self.key else ''}: {self.what}"


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` saw.

    Attributes:
        path: The directory of the store.
        findings: What is wrong, at most 1000 of them; none means sound.
        more: How many more there were.
        uuid: Of the store; empty if it cannot be read.
        epoch: How often it was opened; 0 if it cannot be read.
        pages: Pages of the data file.
        page_size: Of one of them, in bytes.
        rows: How many readable rows each table holds, the store's own table included.
        unknown: Rows by kind and version, of those that this program has no type for. Their
            checksums were compared, their fields were not looked at.
    """

    path: str
    findings: tuple[Finding, ...]
    more: int
    uuid: str
    epoch: int
    pages: int
    page_size: int
    rows: tuple[tuple[str, int], ...]
    unknown: tuple[tuple[str, int, int], ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def verify(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Check every page and every row of a store that nobody has open; change nothing.

    It needs no right to write, keeps owners away while it runs, and takes time in proportion to
    the file.

    Args:
        path: The store's directory.
        progress: Told how many pages were read, of how many; the rows' part only.

    Raises:
        PathRefused: There is no store that could be read.
        StoreOwned: A live process has it open.
        WrongEngine, FormatTooNew: It is not for this version of trouper to read.
    """
    directory = place_of(path)
    check_directory(directory, create=False)
    check = _Check(directory, progress or _silent)
    try:
        with unowned(directory):
            check.run()
    except OSError as error:
        raise PathRefused(
            f"the store at {str(directory)!r} cannot be read: {error.strerror}; it was left as it "
            f"is, mend that and retry",
            path=str(directory),
            reason=str(error.strerror),
        ) from error
    return check.report()


@final
class _Check:
    """One run of the verifier, and what it has seen so far."""

    def __init__(self, directory: Path, progress: Progress) -> None:
        self._directory = directory
        self._progress = progress
        self._findings: list[Finding] = []
        self._more = 0
        self._table = ""  # that is being read
        self._identity: Identity | None = None
        self._state: StoreState | None = None
        self._rows: dict[str, int] = {}
        self._unknown: Counter[tuple[str, int]] = Counter()
        self._pages = self._page_size = 0

    def run(self) -> None:
        """Look at everything."""
        directory = self._directory
        try:
            self._identity = read_identity(directory)
        except StoreDamaged as error:
            self._find(what=str(error))
        try:
            if not has_data(directory, self._identity, writable=False):
                raise self._no_store()
        except StoreDamaged as error:
            self._find(what=str(error))
            if not os.path.lexists(directory / DATA_FILE):
                return  # that is all there is to be said
        for problem in problems_of(directory / DATA_FILE):
            self._find(what=problem)
        try:
            with Pages(directory / DATA_FILE, self._broken) as pages:
                self._pages, self._page_size = pages.pages, pages.page_size
                self._read(pages)
        except (Broken, FileNotFoundError) as error:
            self._broken(str(error))

    def report(self) -> Report:
        """Return what was seen."""
        state, identity = self._state, self._identity
        uuid = state.uuid if state else identity.uuid if identity else ""
        return Report(
            path=str(self._directory),
            findings=tuple(self._findings),
            more=self._more,
            uuid=uuid,
            epoch=state.epoch if state else 0,
            pages=self._pages,
            page_size=self._page_size,
            rows=tuple(sorted(self._rows.items())),
            unknown=tuple((kind, v, count) for (kind, v), count in sorted(self._unknown.items())),
        )

    def _read(self, pages: Pages) -> None:
        tables = pages.tables()
        if not tables and not self._findings and self._identity is None:
            raise self._no_store()  # its creation was cut short
        for missing in sorted({*TABLES, OWN_TABLE} - set(tables)):
            self._find(missing, what="the table is missing")
        for self._table in sorted(tables):
            if self._table not in (*TABLES, OWN_TABLE):
                self._find(self._table, what="no table of a store")
                continue
            self._rows[self._table] = 0
            step = 0
            for key, frame in pages.rows(tables[self._table]):
                self._row(key, frame)
                if pages.seen >= step:
                    self._progress(pages.seen, pages.pages)
                    step = pages.seen + 64
        self._table = ""
        self._progress(pages.pages, pages.pages)
        self._compare()

    def _row(self, key: bytes, frame: bytes) -> None:
        table = self._table
        try:
            value = from_frame(table, key, frame, object)
        except CorruptRecord as error:
            self._find(table, key, error.facts.get("reason", str(error)))
            return
        except FormatTooNew as error:
            if "kind" not in error.facts:  # the frame itself is of another version
                self._find(table, key, str(error))
                return
            self._unknown[error.facts["kind"], error.facts["version"]] += 1
        else:
            if table == OWN_TABLE and key == OWN_KEY and isinstance(value, StoreState):
                self._state = value
        self._rows[table] += 1

    def _compare(self) -> None:
        state, identity = self._state, self._identity
        if state is None:
            self._find(OWN_TABLE, OWN_KEY, "the store's own row is missing or unreadable")
        elif identity is not None and (identity.uuid, identity.format) != (
            state.uuid,
            state.format,
        ):
            self._find(
                OWN_TABLE,
                OWN_KEY,
                f"it holds store {state.uuid} of format {state.format}, but {identity.uuid} of "
                f"format {identity.format} lives in this directory",
            )

    def _no_store(self) -> PathRefused:
        name = str(self._directory)
        return PathRefused(
            f"there is no store in {name!r}; check the path", path=name, reason="there is no store"
        )

    def _broken(self, what: str) -> None:
        self._find(self._table, what=what)

    def _find(self, table: str = "", key: bytes = b"", what: str = "") -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(Finding(table, key.hex(), what))
        else:
            self._more += 1


def _silent(_: int, __: int) -> None:
    pass

"""Check a store offline: the verifier, then what rows have to mean to one another.

The store knows tables and rows. What a row promises about others is known where it is written; from
there come the invariants, and the command line puts them together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar, final

from ..errors import StoreError
from ._owner import unowned
from ._place import DATA_FILE, place_of
from ._records import from_frame
from ._snapshot import Snapshot
from ._verify import MAX_FINDINGS, Finding, Progress, Report, verify

T = TypeVar("T")


class Rows(Protocol):
    """The readable rows of a store that is checked, all of one state.

    Rows that are damaged, or of a kind or version that this program does not know, are left out:
    they are reported elsewhere.
    """

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """Return the row under `key`; None if there is no readable one of that kind."""
        ...

    def scan(self, table: str, prefix: bytes, kind: type[T]) -> Iterator[tuple[bytes, T]]:
        """Give out the rows under `prefix`, in key order, one at a time."""
        ...

    def keys(self, table: str, prefix: bytes) -> Iterator[bytes]:
        """Give out the keys under `prefix`, in order, those of rows that cannot be read too."""
        ...


Invariant = Callable[[Rows], Iterable[Finding]]
"""Gives out each place where the rows of a store contradict one another."""


def check(
    path: str | os.PathLike[str],
    *,
    invariants: Iterable[Invariant] = (),
    progress: Progress | None = None,
) -> Report:
    """Verify a store that nobody has open, and compare its rows; change nothing.

    Where pages are broken the rows are not compared: mapping such a file could kill the process.

    Args:
        path: The store's directory.
        invariants: What has to hold between rows.
        progress: Told how many pages were read, of how many.

    Raises:
        PathRefused, StoreOwned, WrongEngine, FormatTooNew: As `verify`.
    """
    report = verify(path, progress=progress)
    if not all(finding.key for finding in report.findings):
        return report
    directory = place_of(path)
    findings, more = list(report.findings), report.more
    with unowned(directory), Snapshot(directory / DATA_FILE, shared=False) as snapshot:
        rows = SnapshotRows(snapshot)
        for invariant in invariants:
            for finding in invariant(rows):
                if len(findings) < MAX_FINDINGS:
                    findings.append(finding)
                else:
                    more += 1
    return replace(report, findings=tuple(findings), more=more)


@final
class SnapshotRows:
    """`Rows` of a snapshot; ``broken`` is told of each that cannot be read."""

    def __init__(
        self, snapshot: Snapshot, broken: Callable[[StoreError], None] = lambda error: None
    ) -> None:
        self._snapshot = snapshot
        self._broken = broken

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Rows.get`."""
        frame = self._snapshot.get(table, key)
        return None if frame is None else self._readable(table, key, frame, kind)

    def scan(self, table: str, prefix: bytes, kind: type[T]) -> Iterator[tuple[bytes, T]]:
        """See `Rows.scan`."""
        for key, frame in self._snapshot.items(table, prefix):
            value = self._readable(table, key, frame, kind)
            if value is not None:
                yield key, value

    def _readable(self, table: str, key: bytes, frame: bytes, kind: type[T]) -> T | None:
        try:
            return from_frame(table, key, frame, kind)
        except StoreError as error:
            self._broken(error)
            return None

    def keys(self, table: str, prefix: bytes) -> Iterator[bytes]:
        """See `Rows.keys`."""
        for key, _ in self._snapshot.items(table, prefix):
            yield key

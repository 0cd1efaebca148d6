"""SQLite with a write-ahead log and full synchronisation: acknowledged means on disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from .disk import VALUE, WARM, Marked, Sample, place, row_key


def commit(ops: int, records: int) -> Sample:
    with place() as where, closing(sqlite3.connect(where / "db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE record (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")

        def write(number: int) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO record VALUES (?, ?)",
                [(row_key("bench", number * records + index), VALUE) for index in range(records)],
            )
            db.execute("COMMIT")

        for number in range(WARM):
            write(number)
        with Marked() as watch:
            for number in range(WARM, WARM + ops):
                write(number)
    return watch.sample(ops)


BENCHES = {"commit": commit, "callers": lambda ops, _: commit(ops, 1)}

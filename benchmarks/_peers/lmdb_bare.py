"""A bare loop over LMDB, on one thread: begin, put, commit. No frames, no checks, no verdicts.

As ``message`` it is the floor under one commit per message: an event and the head of its history in
one transaction, and nobody to hand anything over to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lmdb

from .disk import VALUE, WARM, Marked, Sample, place, row_key

MAP = 8 * 1024**3


def _loop(ops: int, write: Callable[[lmdb.Transaction[bytes], Any, int], None]) -> Sample:
    with place() as where, lmdb.open(str(where), map_size=MAP, max_dbs=4, lib_version=0) as env:
        db = env.open_db(b"record")
        for number in range(WARM):
            with env.begin(write=True) as txn:
                write(txn, db, number)
        with Marked() as watch:
            for number in range(WARM, WARM + ops):
                with env.begin(write=True) as txn:
                    write(txn, db, number)
    return watch.sample(ops)


def commit(ops: int, records: int) -> Sample:
    def write(txn: lmdb.Transaction[bytes], db: Any, number: int) -> None:
        for index in range(records):
            txn.put(row_key("bench", number * records + index), VALUE, db=db)

    return _loop(ops, write)


def message(ops: int, actors: int) -> Sample:
    def write(txn: lmdb.Transaction[bytes], db: Any, number: int) -> None:
        ident = f"actor {number % actors}"
        txn.put(row_key(ident, number), b"added 1", db=db)
        txn.put(row_key(ident, 0), number.to_bytes(8, "big"), db=db)

    return _loop(ops, write)


def callers(ops: int, tasks: int) -> Sample:
    return commit(ops, 1)


BENCHES = {
    "commit": commit,
    "callers": callers,
    "tell": message,
    "ask": message,
    "askers": lambda ops, _: message(ops, 1),
    "steps": lambda ops, _: commit(ops, 1),
    "group": commit,
}

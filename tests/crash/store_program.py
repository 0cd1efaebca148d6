"""Run by the fault tests in a process of its own: unit after unit, and what came of each.

    store_program.py STORE LEVEL COUNT [LEFT]

Each unit writes rows that must agree (see `unit`); its number is printed only after the verdict. A
store that is lost is opened again, once, in the same process. A typed refusal of the store ends the
program, and is named. ``LEFT`` limits the size of files to
what the store has after its first unit, and that many bytes more.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import trio

from trouper.errors import StoreError, StoreFull, StoreLost
from trouper.store import LmdbStore, Store, Tx
from trouper.testing.conformance._journal_rows import Row


def say(*words: object) -> None:
    """Print a line, whole, at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def unit(tx: Tx) -> int:
    """Write a counter, a record of some size and a row of the log; drop a record of long ago."""
    count = tx.get("group", b"count", Row) or Row("count")
    number = count.number + 1
    tx.put("group", b"count", Row("count", number))
    tx.put("record", number.to_bytes(8, "big"), Row("record", number, "x" * (number * 700 % 9000)))
    if number > 20:
        tx.delete("record", (number - 20).to_bytes(8, "big"))
    assert tx.append(Row("log", number)) == number
    return number


def held(store: Store) -> int:
    """Return how many units the store holds."""
    row = store.get("group", b"count", Row)
    return 0 if row is None else row.number


async def work(store: Store, count: int) -> bool:
    """Commit units until there were enough or the store is lost; tell whether it is."""
    for _ in range(count):
        try:
            say("ack", await store.commit(unit))
        except StoreFull:
            say("full", held(store))
        except StoreLost:
            say("lost")
            for call in (lambda: held(store), lambda: store.scan("log", b"", Row)):
                try:
                    call()
                except StoreLost:
                    continue
                raise AssertionError("a lost store answered") from None
            try:
                await store.commit(unit)
            except StoreLost:
                return True
            raise AssertionError("a lost store committed") from None
    return False


async def main(path: str, level: str, count: int, left: int) -> None:
    """Do the work; open the store again if it is lost."""
    store = LmdbStore(path, level="durable" if level == "durable" else "relaxed")
    async with store:
        say("open", store.epoch)
        if left >= 0:
            say("ack", await store.commit(unit))
            size = (Path(path) / "data.mdb").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + left, resource.RLIM_INFINITY))
        lost = await work(store, count)
        if left >= 0:
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            say("ack", await store.commit(unit))
    if lost:
        async with store:
            say("held", held(store))
            say("ack", await store.commit(unit))


if __name__ == "__main__":
    left = int(sys.argv[4]) if len(sys.argv) > 4 else -1
    try:
        trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), left)
    except StoreError as error:  # anything else is a traceback, and a code
        say(type(error).__name__)

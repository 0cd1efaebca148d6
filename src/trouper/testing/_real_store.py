"""A real store beside the journal of a schedule, so that its first crash can be a real one.

The explorer's crashes take place in memory. To confirm one, two more processes play the schedule.
The first writes each commit through to LMDB, as it takes place, and kills itself at the crash with
SIGKILL. The second plays up to the crash, opens what the first left on the disk as a system would,
and goes on from that.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final, final

from ..errors import ScheduleError
from ..store._codec import MAX_BYTES
from ..store._durable import MAP_LIMIT, MAP_SIZE
from ..store._engine import EngineOptions, LmdbEngine
from ..store._keys import TABLES
from ..store._memory import MemoryState
from ..store._overlay import Writes

_OPTIONS: Final = EngineOptions("durable", MAP_SIZE, MAP_LIMIT, True, MAX_BYTES, "unclean", False)


@final
class Killing:
    """The first process: each commit is on the disk before it returns, a crash is the end of it.

    Args:
        path: The folder for the store.
    """

    def __init__(self, path: Path) -> None:
        self._engine = LmdbEngine(path, _OPTIONS)
        self._engine.open()

    def wrote(self, writes: Writes, head: int) -> None:
        """See `Mirror.wrote`."""
        txn = self._engine.env.begin()
        txn.write(writes)
        if None in writes.get("log", {}).values():
            txn.write(self._engine.head_row(head))
        txn.commit()

    def crashed(self, state: MemoryState, life: int) -> None:
        """See `Mirror.crashed`."""
        os.kill(os.getpid(), signal.SIGKILL)


@final
class Recovering:
    """The second process: at the crash, the rows are those that the first left on the disk.

    Args:
        path: The folder with the store.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.differences: list[str] = []  # between the disk and what the explorer believes

    def wrote(self, writes: Writes, head: int) -> None:
        """See `Mirror.wrote`."""

    def crashed(self, state: MemoryState, life: int) -> None:
        """See `Mirror.crashed`."""
        if life:
            return  # only the first crash was a real one
        engine = LmdbEngine(self._path, _OPTIONS)
        engine.open()
        txn = engine.env.begin()
        for table in TABLES:
            found = dict(txn.items(table, b"", b"", None))
            held = state.tables[table]
            for key in sorted(found.keys() | held.rows.keys()):
                if found.get(key) != held.rows.get(key):
                    self.differences.append(f"{table} {key.hex()}")
                held.write(key, found.get(key))
        txn.abort()
        if state.head != engine.head:
            self.differences.append(f"the log ends with {engine.head}, not {state.head}")
        state.head = engine.head
        engine.close(clean=False)


def mirror_for(what: str, path: Path) -> Killing | Recovering:
    """Return the mirror of a job.

    Raises:
        ScheduleError: The job needs none.
    """
    if what == "kill":
        return Killing(path)
    if what == "recover":
        return Recovering(path)
    raise ScheduleError(f"no process of ours does {what!r}")

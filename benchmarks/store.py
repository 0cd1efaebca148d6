"""What durable costs: the store and its actors, against SQLite, a bare LMDB loop, and a library.

    python benchmarks/store.py            # about five minutes; exit status 1 if a gate is missed
    python benchmarks/store.py --quick    # does everything work; its numbers mean nothing
    python benchmarks/store.py --from benchmarks/results/store.json    # show it again

Every round starts a fresh process per system and lets them take turns, bench by bench: a busy disk
slows all of them. Compared is wall-clock time, on the disk that this file lies on. Gated are
messages to durable actors against actors that commit, and so flush, each message on its own; those
are written by hand, as lean as it goes. A loop on LMDB that takes no messages and answers nobody is
the floor under them.
"""

from __future__ import annotations

import importlib.util
import sqlite3
import statistics
import sys
from dataclasses import asdict, replace
from typing import Final

from _kit.command import command
from _kit.process import System, python
from _kit.report import Result, now, versions
from _kit.rounds import OURS, Samples, lighter, measure_round, present, results_of
from _kit.rows import Against, Comparison, Growth, Row
from _kit.sample import Measure, Sample
from _kit.traced import is_there, traced
from _peers.disk import SCRATCH, file_system

SQLITE, BARE = "SQLite, WAL, FULL", "bare LMDB loop"
PER_MESSAGE, LIBRARY = "one commit per message", "eventsourcing on SQLite"
FLOOR = "bare LMDB, one commit each"

COMMANDS: Final = {
    OURS: python("trouper_store"),
    SQLITE: python("sqlite_full"),
    BARE: python("lmdb_bare"),
    PER_MESSAGE: python("lmdb_actors"),
    FLOOR: python("lmdb_bare"),
    LIBRARY: python("eventsourcing_sqlite"),
}
ROUNDS: Final = 5

# Targets of the gated rows: quality.md of the specification.
ROWS: Final = (
    Row("commit of 1 record", "commit", 150, 1, (
        Against(SQLITE, 150),
        Against(BARE, 150),
    )),
    Row("commit of 32 records", "commit", 80, 32, (
        Against(SQLITE, 80),
        Against(BARE, 80),
    )),
    Row("commit of 1,000 records", "commit", 30, 1_000, (
        Against(SQLITE, 30),
        Against(BARE, 30),
    )),
    Row("commit, 10 callers", "callers", 1_000, 10, (
        Against(SQLITE, 100),
        Against(BARE, 100),
    )),
    Row("commit, 1,000 callers", "callers", 10_000, 1_000, (
        Against(SQLITE, 100),
        Against(BARE, 100),
    )),
    Row("durable tell, 1 hot actor", "tell", 30_000, 1, (
        Against(PER_MESSAGE, 100, 50, 100, gated=True),
        Against(FLOOR, 100),
        Against(LIBRARY, 80),
    )),
    Row("durable tell, 10 actors", "tell", 30_000, 10, (
        Against(PER_MESSAGE, 200),
        Against(FLOOR, 100),
    )),
    Row("durable tell, 1,000 actors, 40 each", "tell", 40_000, 1_000, (
        Against(PER_MESSAGE, 1_000, 70, 140, gated=True),
        Against(FLOOR, 100),
        Against(LIBRARY, 80),
    )),
    Row("durable tell, 5,000 actors, 10 each", "tell", 50_000, 5_000, (
        Against(PER_MESSAGE, 5_000),
        Against(FLOOR, 100),
    )),
    Row("durable ask, 1 actor, 1 asker", "ask", 100, 1, (
        Against(PER_MESSAGE, 100),
        Against(FLOOR, 100),
        Against(LIBRARY, 80),
    )),
    Row("durable ask, 1 hot actor, 200 askers", "askers", 15_000, 200, (
        Against(PER_MESSAGE, 400, 20, 40, gated=True),
        Against(FLOOR, 100),
    )),
    Row("durable ask, 10 actors, 1 asker each", "ask", 500, 10, (
        Against(PER_MESSAGE, 200),
        Against(FLOOR, 100),
    )),
    Row("durable ask, 1,000 actors, 1 asker each", "ask", 10_000, 1_000, (
        Against(PER_MESSAGE, 1_000, 25, 30, gated=True),
        Against(FLOOR, 100),
        Against(LIBRARY, 80),
    )),
    Row("durable ask, 5,000 actors, 1 asker each", "ask", 15_000, 5_000, (
        Against(PER_MESSAGE, 5_000),
        Against(FLOOR, 100),
    )),
)  # fmt: skip

# (what, bench, [(operations, size)])
MODEL: Final = (
    ("commit of a record, by records in it", "commit", [(200, 1), (150, 32), (30, 1_000)]),
    ("commit of 1 record, by rows there", "filled", [(200, 1_000), (200, 30_000), (200, 300_000)]),
    ("commit of 1 record, by callers", "callers", [(250, 1), (10_000, 100), (20_000, 5_000)]),
    ("durable tell, by actors", "tell", [(30_000, 10), (40_000, 1_000), (50_000, 5_000)]),
    ("durable ask, by actors", "ask", [(1_000, 10), (10_000, 1_000), (15_000, 5_000)]),
)
SHARED: Final = {"commit of a record, by records in it"}  # the cost of one operation is spread
# (what, bench, whether the cost is that of one record; else of the whole recovery)
RECOVERY: Final = (
    ("recovery, no snapshots, by records", "recover", True),
    ("recovery, snapshots, by records", "recover-snapshots", False),
    ("recovery after kill -9, by records", "recover-killed", True),
)
RECORDS: Final = (10_000, 100_000, 1_000_000)
# (operations, actors) of the asks whose system calls are counted
TRACED: Final = ((100, 1), (500, 10), (5_000, 1_000))

NOTES: Final = {
    "commit of a record, by records in it": "A commit is two flushes and its pages, and those are "
    "shared",
    "commit of 1 record, by callers": "They share flushes: the cost of one falls until the store's "
    "own work is all there is",
    "durable ask, by actors": "As with callers",
    "recovery, no snapshots, by records": "Every record is read and applied",
    "recovery, snapshots, by records": "The cost is that of the whole recovery: the last snapshot "
    "and at most 1,000 records",
    "recovery after kill -9, by records": "With snapshots; the whole file is verified before it is "
    "mapped, and that is what grows with it",
    "bytes per durable ask, by actors": "Pages of 4 KiB, shared by all who commit together",
}


def absent() -> dict[str, str]:
    """Return the peers that this machine does not have, and how to get them."""
    if importlib.util.find_spec("eventsourcing") is None:
        return {LIBRARY: "not installed (make bench installs it)"}
    return {}


def grow(rounds: int, divide: int) -> list[Growth]:
    """Measure the cost model."""
    costs: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        with System(OURS, COMMANDS[OURS]) as system:
            for what, bench, sizes in MODEL:
                row: list[float] = []
                for ops, full in sizes:
                    size = max(full // divide, 1)
                    sample = system.measure(bench, max(ops // divide, 10), size)
                    row.append(sample.per_op("wall") / (size if what in SHARED else 1))
                costs.setdefault(what, []).append(row)
    return [
        Growth(
            what,
            "ns",
            tuple(max(size // divide, 1) for _, size in sizes),
            tuple(statistics.median(column) for column in zip(*costs[what], strict=True)),
            NOTES.get(what, ""),
        )
        for what, _, sizes in MODEL
    ]


def recover(divide: int) -> list[Growth]:
    """Measure how long it takes until an actor with so many records takes its first message."""
    sizes = tuple(records // divide for records in RECORDS)
    found: list[Growth] = []
    with System(OURS, COMMANDS[OURS]) as system:
        for what, bench, per_record in RECOVERY:
            samples: list[Sample] = [system.measure(bench, size, 1) for size in sizes]
            costs = [
                sample.per_op("wall") / (size if per_record else 1)
                for sample, size in zip(samples, sizes, strict=True)
            ]
            found.append(Growth(what, "ns", sizes, tuple(costs), NOTES.get(what, "")))
    return found


def write(divide: int) -> tuple[list[Growth], list[Comparison]]:
    """Count what is written, and how often the disk is waited for, per settled message."""
    sizes = tuple(max(actors // divide, 1) for _, actors in TRACED)
    ours = [
        traced(COMMANDS[OURS], "ask", max(ops // divide, 10), size)
        for (ops, _), size in zip(TRACED, sizes, strict=True)
    ]
    theirs = {
        FLOOR: traced(COMMANDS[FLOOR], "ask", max(200 // divide, 10), 1),
        SQLITE: traced(COMMANDS[SQLITE], "commit", max(200 // divide, 10), 1),
    }
    comparisons: list[Comparison] = []
    for w, size in ((ours[0], sizes[0]), (ours[-1], sizes[-1])):
        asked = f"ask, {size:,} actor{'s' if size > 1 else ''}"
        for peer, other in theirs.items():
            comparisons += [
                _written(f"bytes written, {asked}", peer, "bytes", w.bytes_each, other.bytes_each),
                _written(f"flushes, {asked}", peer, "count", w.syncs_each, other.syncs_each),
            ]
    comparisons.sort(key=lambda c: c.row)
    bytes_each, syncs_each = (f"{what} per durable ask, by actors" for what in ("bytes", "flushes"))
    return [
        Growth(bytes_each, "B", sizes, tuple(w.bytes_each for w in ours), NOTES[bytes_each]),
        Growth(syncs_each, "", sizes, tuple(w.syncs_each for w in ours)),
    ], comparisons


def _written(row: str, peer: str, measure: Measure, ours: float, theirs: float) -> Comparison:
    ratio = theirs / ours
    return Comparison(
        row, peer, measure, ours, theirs, ratio, ratio, ratio, 1, None, None, gated=False
    )


def run(quick: bool) -> Result:
    """Measure everything.

    Raises:
        SystemFailed: One of the systems broke down.
    """
    missing = absent()
    divide = 200 if quick else 1
    rows = lighter(present(ROWS, missing), divide, 10)
    if quick:
        rows = [replace(row, actors=min(row.actors, 100)) for row in rows]
    samples: Samples = {}
    for _ in range(1 if quick else ROUNDS):
        measure_round(rows, COMMANDS, samples)
    comparisons = results_of(rows, samples, {}, "wall")
    growths = grow(1 if quick else 2, divide) + recover(divide)
    if is_there():
        written, compared = write(divide)
        growths += written
        comparisons += compared
    else:
        missing["bytes and flushes per message"] = "no `strace` on the path"
    return Result(
        benchmark="store",
        quick=quick,
        versions={
            **versions(["trouper", "trio", "lmdb", "eventsourcing"]),
            "SQLite": sqlite3.sqlite_version,
            "disk": file_system(SCRATCH),
        },
        when=now(),
        comparisons=comparisons,
        growths=growths,
        left_out=[f"{name}: {why}" for name, why in missing.items()],
        samples={
            f"{title} / {name}": [asdict(s) for s in found]
            for (title, name), found in samples.items()
        },
    )


if __name__ == "__main__":
    sys.exit(command("store", __doc__.partition("\n")[0], run))

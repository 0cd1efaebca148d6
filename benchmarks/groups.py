"""What durable groups and steps cost, against DBOS on SQLite, bare records, and bare LMDB.

    python benchmarks/groups.py            # about four minutes; exit status 1 if a gate is missed
    python benchmarks/groups.py --quick    # does everything work; its numbers mean nothing
    python benchmarks/groups.py --from benchmarks/results/groups.json    # show it again

Every round starts a fresh process per system and lets them take turns, bench by bench: a busy disk
slows all of them. Compared is wall-clock time, on the disk that this file lies on. Gated are a step
of a durable function against one of DBOS, and a group of 50 children, from its open to its last
rank, against 50 records that the store commits at once for 50 callers.
"""

from __future__ import annotations

import importlib.util
import sqlite3
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from _kit.command import command
from _kit.process import System, python
from _kit.report import Result, now, versions
from _kit.rounds import OURS, Samples, lighter, measure_round, present, results_of
from _kit.rows import Against, Comparison, Growth, Row
from _kit.sample import Measure
from _kit.traced import Written, is_there, traced
from _peers.disk import SCRATCH, file_system

DBOS, RECORDS, BARE = "DBOS on SQLite", "records of 1 caller each", "bare LMDB, 1 transaction"
COMMANDS: Final = {
    OURS: python("trouper_groups"),
    DBOS: python("dbos_sqlite"),
    RECORDS: python("store_records"),
    BARE: python("lmdb_bare"),
}
ROUNDS: Final = 5

# Targets: issue 5 and quality.md of the specification. A group is two commits, a bare one is one,
# and beside them the ends of its children are tasks, fences and ranks: hence a ratio below one.
ROWS: Final = (
    Row("durable effects, one after the other", "steps", 200, 1, (
        Against(DBOS, 50, 4, 6, gated=True),
        Against(BARE, 200),
    )),
    Row("50 durable effects at once, all", "together", 5, 50, (
        Against(DBOS, 2),
    )),
    Row("50 durable effects at once, the first", "first", 5, 50, (
        Against(DBOS, 2),
    )),
    Row("50 children, rank by rank", "in-order", 5, 50, (
        Against(DBOS, 1),
    )),
    Row("group of 2", "group", 50, 2, (
        Against(RECORDS, 50),
        Against(BARE, 50),
    )),
    Row("group of 50", "group", 30, 50, (
        Against(RECORDS, 30, 1 / 5, 1 / 3, gated=True),
        Against(BARE, 50),
    )),
    Row("group of 1,000", "group", 3, 1_000, (
        Against(RECORDS, 3),
        Against(BARE, 10),
    )),
    Row("group of 10,000", "group", 1, 10_000, (
        Against(RECORDS, 1),
        Against(BARE, 3),
    )),
)  # fmt: skip

CHILDREN: Final = ((50, 2), (30, 50), (3, 1_000), (1, 10_000))
# (what, bench, [(operations, size)], whether the cost is that of one child, note)
MODEL: Final = (
    ("group on LMDB, per child", "group", CHILDREN, True,
     "Two commits for the whole group, however wide; from some hundred children on its own work "
     "is all there is"),
    ("group in memory, per child", "group-memory", CHILDREN, True, "No flush at all"),
    ("group on LMDB with its close, per child", "closed", ((30, 2), (30, 50), (3, 1_000)), True,
     "Three commits for the whole group"),
    ("50 children, by groups at once", "beside", ((1, 1), (1, 10), (1, 100)), False,
     "Groups share flushes"),
    ("durable effects in a row, by effects", "steps", ((50, 1), (500, 1), (2_000, 1)), False,
     "One commit each"),
    ("the same in memory", "steps-memory", ((50, 1), (500, 1), (5_000, 1)), False, ""),
)  # fmt: skip
LONG: Final = {"steps", "steps-memory"}  # the size is how many operations there are
# (bench, operations, children) whose system calls are counted
TRACED: Final = (("group", 10, 2), ("group", 10, 50), ("group", 2, 1_000), ("group", 1, 10_000))


def absent() -> dict[str, str]:
    """Return the peers that this machine does not have, and how to get them."""
    if importlib.util.find_spec("dbos") is None:
        return {DBOS: "not installed (make bench installs it)"}
    return {}


def grow(rounds: int, divide: int) -> list[Growth]:
    """Measure the cost model."""
    costs: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        with System(OURS, COMMANDS[OURS]) as system:
            for what, bench, sizes, is_shared, _ in MODEL:
                row: list[float] = []
                for ops, size in lightest(sizes, divide):
                    sample = system.measure(bench, ops, size)
                    row.append(sample.per_op("wall") / (size if is_shared else 1))
                costs.setdefault(what, []).append(row)
    return [
        Growth(
            what,
            "ns",
            tuple(ops if bench in LONG else size for ops, size in lightest(sizes, divide)),
            tuple(statistics.median(column) for column in zip(*costs[what], strict=True)),
            note,
        )
        for what, bench, sizes, _, note in MODEL
    ]


def lightest(sizes: Sequence[tuple[int, int]], divide: int) -> list[tuple[int, int]]:
    """Return operations and sizes of a run that only tries them out."""
    return [(max(ops // divide, 1), max(size // divide, 1)) for ops, size in sizes]


def write(divide: int, missing: dict[str, str]) -> tuple[list[Growth], list[Comparison]]:
    """Count what is written, and how often the disk is waited for, per settlement."""
    sizes = tuple(max(children // divide, 1) for _, _, children in TRACED)
    ours = [
        traced(COMMANDS[OURS], bench, max(ops // divide, 1), size)
        for (bench, ops, _), size in zip(TRACED, sizes, strict=True)
    ]
    shares = list(zip(ours, sizes, strict=True))
    comparisons: list[Comparison] = []
    if DBOS not in missing:
        steps = max(50 // divide, 5)
        mine, theirs = (traced(COMMANDS[who], "steps", steps, 1) for who in (OURS, DBOS))
        comparisons = _written("an effect in a row", mine, theirs)
    return [
        Growth(
            "flushes per settlement, by children",
            "",
            sizes,
            tuple(w.syncs_each / size for w, size in shares),
            "Four for a group: two commits of two flushes each, one to open and one to rank",
        ),
        Growth(
            "bytes written per settlement, by children",
            "B",
            sizes,
            tuple(w.bytes_each / size for w, size in shares),
            "Pages of 4 KiB, shared by all children of a group",
        ),
    ], comparisons


def _written(what: str, ours: Written, theirs: Written) -> list[Comparison]:
    pairs: tuple[tuple[str, Measure, float, float], ...] = (
        (f"flushes, {what}", "count", ours.syncs_each, theirs.syncs_each),
        (f"bytes written, {what}", "bytes", ours.bytes_each, theirs.bytes_each),
    )
    return [
        Comparison(row, DBOS, measure, a, b, b / a, b / a, b / a, 1, None, None, gated=False)
        for row, measure, a, b in pairs
    ]


def run(quick: bool) -> Result:
    """Measure everything.

    Raises:
        SystemFailed: One of the systems broke down.
    """
    missing = absent()
    divide = 100 if quick else 1
    rows = lighter(present(ROWS, missing), divide, 1)
    if quick:
        rows = [replace(row, actors=min(row.actors, 10)) for row in rows]
    samples: Samples = {}
    for _ in range(1 if quick else ROUNDS):
        measure_round(rows, COMMANDS, samples)
    comparisons = results_of(rows, samples, {}, "wall")
    growths = grow(1 if quick else 3, divide)
    left_out = [f"{name} (gated): {why}" for name, why in missing.items()]
    if is_there():
        written, compared = write(divide, missing)
        growths += written
        comparisons += compared
    else:
        left_out.append("bytes and flushes per settlement: no `strace` on the path")
    return Result(
        benchmark="groups",
        quick=quick,
        versions={
            **versions(["trouper", "trio", "lmdb", "dbos"]),
            "SQLite": sqlite3.sqlite_version,
            "disk": file_system(SCRATCH),
        },
        when=now(),
        comparisons=comparisons,
        growths=growths,
        left_out=left_out,
        samples={
            f"{title} / {name}": [asdict(s) for s in found]
            for (title, name), found in samples.items()
        },
    )


if __name__ == "__main__":
    sys.exit(command("groups", __doc__.partition("\n")[0], run))

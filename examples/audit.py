"""A durable inventory of a directory tree: the main job.

Kill the process at any moment and start it again on the same store: it goes on where it was, and
what had settled never runs again. The report is written through an operation, exactly once.
``inventory.py`` is what it does; this is the program around it.

    python examples/audit.py [ROOT] --store state --out report

The report has one JSON object per line and file. An entry with ``error`` says why there is nothing
else in it; one with ``path_hex`` has a name that is no UTF-8, shown with ``\\xNN``.

Exit status: 0 done, 1 the job failed, 2 wrong use or refused input, 3 outcome unknown,
130 interrupted (run it again with the same store to go on).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import trio
from inventory import SKIPPED, TRACE, Row, audit, shown
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from trouper import (
    ActivationMismatch,
    ActorSystem,
    CellPool,
    CorruptRecord,
    FormatTooNew,
    LmdbStore,
    OperationMismatch,
    OutcomeUnknown,
    PathRefused,
    Reject,
    ReplayMismatch,
    ShuttingDown,
    StoreDamaged,
    StoreLost,
    StoreOwned,
    TrouperError,
    WrongEngine,
    open_system,
)
from trouper.actors import inspect
from trouper.supervision import render_text

REFUSED = (
    *(PathRefused, StoreOwned, StoreDamaged, FormatTooNew, WrongEngine, CorruptRecord),
    *(ActivationMismatch, OperationMismatch, ReplayMismatch, Reject),
)
"""Errors of the input or the place, not of the job. Nothing is lost; the text says what to do."""

# --- the report: written exactly once --------------------------------------------------------


def write_report(key: str, out: Path, rows: list[Row]) -> Row:
    """Write ``report.jsonl`` and ``report.txt``, each whole or not at all; idempotent."""
    TRACE.ran("report", key.encode())
    rows = sorted(rows, key=lambda row: row["path"])
    lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    _write(out / "report.jsonl", lines)
    text = io.StringIO()
    Console(file=text, width=100).print(summary(rows))
    _write(out / "report.txt", text.getvalue())
    return {"rows": len(rows), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


def _write(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def summary(rows: list[Row]) -> Table:
    """Build the table of totals by file suffix."""
    numbers = [Column(name, justify="right") for name in ("files", "bytes", "lines", "words")]
    table = Table("suffix", *numbers, title="inventory", title_justify="left")
    totals: dict[str, list[int]] = {}
    for row in rows:
        suffix = "(not read)" if "error" in row else os.path.splitext(row["path"])[1] or "(none)"
        total = totals.setdefault(suffix, [0, 0, 0, 0])
        for place, number in enumerate((1, *map(row.get, ("bytes", "lines", "words")))):
            total[place] += number or 0
    for suffix, total in sorted(totals.items(), key=lambda item: (-item[1][0], item[0])):
        # A name may hold anything: markup, line ends, what moves a terminal's cursor.
        name = Text(suffix if suffix.isprintable() else ascii(suffix))
        table.add_row(name, *[f"{number:,}" for number in total])
    table.add_section()
    whole = [sum(column) for column in zip(*totals.values(), strict=True)] or [0, 0, 0, 0]
    table.add_row("all", *[f"{number:,}" for number in whole])
    return table


# --- the program -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    root: bytes
    store: Path
    out: Path
    key: str
    deadline: float
    cells: int
    progress: str
    trace: Path | None
    tree: Path | None


def read_options(argv: list[str]) -> Options:
    """Read the command line, and refuse what can be known to be wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("root", nargs="?", default=sysconfig.get_path("stdlib"), help="the tree")
    parser.add_argument("--store", type=Path, default=Path("audit-store"), help="the journal")
    parser.add_argument("--out", type=Path, default=Path("audit-report"), help="the report")
    parser.add_argument("--key", default=None, help="default: the root's path")
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds per directory")
    parser.add_argument("--cells", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--progress", choices=("bar", "lines", "none"), default="bar")
    parser.add_argument("--trace", type=Path, help="append each execution to this file")
    parser.add_argument("--tree", type=Path, help="write the supervision tree here, half-way")
    read = parser.parse_args(argv)
    if not 0 < read.deadline < math.inf or not 1 <= read.cells <= 64:
        raise Reject("--deadline must be more than 0, --cells from 1 to 64")
    root = os.path.realpath(os.fsencode(read.root))
    if not os.path.isdir(root):
        raise Reject(f"{read.root}: not a directory; give the directory to take stock of")
    for place in (read.store, read.out):
        if Path(os.path.realpath(place)).is_relative_to(os.fsdecode(root)):
            raise Reject(f"{place} lies in the tree, which it changes; give a place outside of it")
    key = f"audit {shown(root)}" if read.key is None else read.key
    if not key.strip() or not key.isprintable():
        raise Reject(f"--key {key!r}: give text that can be printed")
    return Options(
        root,
        read.store,
        read.out.absolute(),
        key,
        read.deadline,
        read.cells,
        read.progress,
        read.trace,
        read.tree,
    )


async def run(options: Options) -> int:
    """Start or resume the audit, then write its report once."""
    store = LmdbStore(options.store)
    # An audit can be asked what it did: each settled effect stays until the audit is forgotten.
    pool = CellPool(options.cells)
    async with open_system("audit", store=store, cells=pool, keep_groups=True) as system:
        prepare(options)
        if system.status(options.key) not in ("unknown", "completed"):
            say(f"resuming {options.key!r} from {options.store}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, system, options)
            rows = await system.run(audit, options.root, options.deadline, key=options.key)
            nursery.cancel_scope.cancel()
        where = os.fsencode(options.out)
        report = await system.operation(f"report of {options.key} in {shown(where)}", where)
        done = report.status.terminal
        result = await report.run(write_report, options.out, rows)
    gone = "" if (options.out / "report.jsonl").exists() else ", gone since; give another --out"
    say(f"{'already done' if done else 'done'}: {result['rows']} entries in {options.out}{gone}")
    if options.progress == "bar":
        Console().print(summary(rows))
    return 0


def prepare(options: Options) -> None:
    """Find out before the work, not after it, that its result has no place."""
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if not os.access(options.out, os.W_OK | os.X_OK):
            raise PermissionError(f"no permission to write in {options.out}")
        if options.trace is not None:
            TRACE.open(options.trace)
    except OSError as error:
        raise Reject(f"{error}; give another --out or --trace. Nothing was started") from error


async def watch(system: ActorSystem, options: Options) -> None:
    """Show progress: settled children of groups, of those that the tree will need."""
    tree = options.tree
    bar = Progress(
        TextColumn("settled effects"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=options.progress != "bar",
    )
    own = [group for group in inspect.groups(system.store) if group.key.startswith(options.key)]
    before = sum(group.settled for group in own) - system.statistics().settled
    with bar:
        task = bar.add_task("settled", total=None)
        total = await trio.to_thread.run_sync(expected, options.root, abandon_on_cancel=True)

        def settled() -> int:
            # Another unfinished audit in this store goes on as well, and is counted with this one.
            return min(before + system.statistics().settled, total)

        try:
            while True:
                bar.update(task, completed=settled(), total=total)
                if options.progress == "lines":
                    print(settled(), total, flush=True)
                if tree is not None and settled() - before > (total - before) / 2:
                    tree.write_text(render_text(system.tree()))
                    tree = None
                await trio.sleep(0.05)
        finally:
            bar.update(task, completed=settled())


def expected(root: bytes) -> int:
    """Count what will settle: two effects per file; activation, race and deadline of a directory.

    For the progress bar only: the tree may change.
    """
    total = 0
    for _, names, files in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED]
        total += 3 + 2 * len(files)
    return total


def say(line: str) -> None:
    """Tell the user one line."""
    print("audit:", " ".join(line.splitlines()), file=sys.stderr)


def explain(error: BaseException) -> tuple[int, str]:
    """Return exit status and one line for what ended the run; raise what is a bug."""
    match error:
        case BaseExceptionGroup(exceptions=several):
            return max(explain(each) for each in several)  # one fault may be seen in many places
        case KeyboardInterrupt() | ShuttingDown():
            return 130, "interrupted; the same command goes on where this one ended"
        case OutcomeUnknown() | StoreLost():
            return 3, f"{error} Run the same command again."
        case TrouperError():
            return 2 if isinstance(error, REFUSED) else 1, str(error)
        case OSError():
            return 1, f"{error}; the same command goes on where this one ended"
        case _:
            raise error


def main(argv: list[str] | None = None) -> int:
    """Run the program; a user's mistake is one line, not a traceback."""
    try:
        return trio.run(run, read_options(sys.argv[1:] if argv is None else argv))
    except BaseException as error:
        status, line = explain(error)
        say(line)
        return status


if __name__ == "__main__":
    sys.exit(main())

"""A durable inventory of a directory tree: the main job.

One root activation, one child activation per directory, and per file, side by side, a SHA-256 in a
worker thread and a word and line count by a WebAssembly guest in a cell. Every directory races with
a deadline. Kill the process at any moment and start it again on the same store: it goes on where it
was, and what had settled never runs again. The report is written through an operation, exactly
once.

    python examples/audit.py [ROOT] --store state --out report

Exit status: 0 done, 1 the job failed, 2 wrong use or refused input, 3 outcome unknown,
130 interrupted (run it again with the same store to go on).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import struct
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from trouper import (
    Activation,
    ActorSystem,
    CellPool,
    GuestLimits,
    LmdbStore,
    OutcomeUnknown,
    ShuttingDown,
    TrouperError,
    durable,
    effect,
    guest,
    open_system,
)
from trouper.actors.groups import Completed, Failed, Outcome
from trouper.supervision import render_text

DIRECTORIES_AT_ONCE = 8
FILES_AT_ONCE = 16
# Derived or foreign files would change between two runs over the same standard library.
SKIPPED = ("__pycache__", "site-packages")

Row = dict[str, Any]


# --- evidence --------------------------------------------------------------------------------


class Trace:
    """An append-only file of what was really executed, written by the effects themselves.

    It knows nothing of the journal, so the demo can hold the two against each other.
    """

    def __init__(self) -> None:
        self._file = -1

    def open(self, path: Path) -> None:
        """Start writing."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def ran(self, what: str, path: str) -> None:
        """Note one execution."""
        if self._file >= 0:
            os.write(self._file, json.dumps([what, path]).encode() + b"\n")


TRACE = Trace()


# --- effects: what touches the world ---------------------------------------------------------


@effect
def scan(root: str) -> list[str]:
    """List the directories below a root, the root included, as paths relative to it."""
    TRACE.ran("scan", ".")
    found: list[str] = []
    for path, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIPPED)
        found.append(os.path.relpath(path, root))
    return found


@effect
def listing(root: str, directory: str) -> list[list[Any]]:
    """List the entries of one directory that are not directories: [name, is it a plain file]."""
    TRACE.ran("listing", directory)
    with os.scandir(os.path.join(root, directory)) as entries:
        return sorted(
            [entry.name, entry.is_file(follow_symlinks=False)]
            for entry in entries
            if not entry.is_dir(follow_symlinks=False)
        )


@effect
def digest(root: str, path: str) -> Row:
    """Hash one file; say whether it is binary (a zero byte near its start, as git does)."""
    TRACE.ran("digest", path)
    with open(os.path.join(root, path), "rb") as file:
        binary = b"\0" in file.read(8000)
        file.seek(0)
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "binary": binary}


def read_piece(request: bytes) -> bytes:
    """Serve the guest: bytes of a file from an offset on (u64, little-endian, then the path)."""
    (offset,) = struct.unpack_from("<Q", request)
    root, path = request[8:].decode().split("\0")
    if offset == 0:
        TRACE.ran("count", path)
    with open(os.path.join(root, path), "rb") as file:
        file.seek(offset)
        return file.read(1 << 16)


count = guest(
    Path(__file__).parent / "guests" / "count.wasm",
    imports={"read": read_piece},
    limits=GuestLimits(fuel=1 << 34, calls=1_000_000),
    name="audit.count",
)


# --- activations: what must not be lost or repeated ------------------------------------------


@durable
async def audit(act: Activation, root: str, deadline: float) -> list[Row]:
    """Make the inventory of a tree: one child activation per directory, a window at a time."""
    directories = await act.call(scan, root)
    rows: list[Row] = []
    for start in range(0, len(directories), DIRECTORIES_AT_ONCE):
        window = directories[start : start + DIRECTORIES_AT_ONCE]
        found = await act.all_settled(
            *[act.call(audit_directory, root, name, deadline) for name in window]
        )
        for name, outcome in zip(window, found, strict=True):
            rows += outcome.value if isinstance(outcome, Completed) else [failed(name, outcome)]
    return rows


@durable
async def audit_directory(act: Activation, root: str, directory: str, deadline: float) -> list[Row]:
    """Race the inventory of one directory with its deadline; the loser is cancelled."""
    won = await act.race(act.call(inventory, root, directory), act.sleep(deadline), losers="cancel")
    if won.value is None:
        return [{"path": directory, "error": f"not done within {deadline} s"}]
    return won.value


@durable
async def inventory(act: Activation, root: str, directory: str) -> list[Row]:
    """Hash and count every file of one directory, two effects per file, a window at a time."""
    rows: list[Row] = []
    names: list[str] = []
    for name, plain in await act.call(listing, root, directory):
        path = name if directory == "." else f"{directory}/{name}"
        if plain:
            names.append(path)
        else:
            rows.append({"path": path, "error": "not a plain file"})
    for start in range(0, len(names), FILES_AT_ONCE):
        window = names[start : start + FILES_AT_ONCE]
        found = await act.all_settled(
            *[act.call(digest, root, path) for path in window],
            *[act.call(count, f"{root}\0{path}".encode()) for path in window],
        )
        hashed, counted = found[: len(window)], found[len(window) :]
        rows += [file_row(*each) for each in zip(window, hashed, counted, strict=True)]
    return rows


def file_row(path: str, hashed: Outcome, counted: Outcome) -> Row:
    """Build a file's entry. A file that could not be read is an entry that says so."""
    if not isinstance(hashed, Completed):
        return failed(path, hashed)
    if not isinstance(counted, Completed):
        return failed(path, counted)
    lines, words, size = struct.unpack("<3Q", counted.value)
    return {"path": path, "bytes": size, "lines": lines, "words": words, **hashed.value}


def failed(path: str, outcome: Outcome) -> Row:
    """Build the entry of something that has no result."""
    why = outcome.error.message if isinstance(outcome, Failed) else "cancelled"
    return {"path": path, "error": why}


# --- the report: written exactly once --------------------------------------------------------


def write_report(key: str, out: str, rows: list[Row]) -> dict[str, Any]:
    """Write ``report.jsonl`` and ``report.txt``, each whole or not at all; idempotent."""
    TRACE.ran("report", key)
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in sorted(rows, key=by_path))
    _write(target / "report.jsonl", lines)
    text = io.StringIO()
    Console(file=text, width=100).print(summary(rows))
    _write(target / "report.txt", text.getvalue())
    return {"rows": len(rows), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


def by_path(row: Row) -> str:
    """Order rows."""
    return str(row["path"])


def _write(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    with open(fresh, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def summary(rows: list[Row]) -> Table:
    """Build the table of totals by file suffix."""
    table = Table(title="inventory", title_justify="left")
    for name, justify in (
        ("suffix", "left"),
        ("files", "right"),
        ("bytes", "right"),
        ("lines", "right"),
        ("words", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    totals: dict[str, list[int]] = {}
    for row in rows:
        suffix = "(not read)" if "error" in row else os.path.splitext(row["path"])[1] or "(none)"
        total = totals.setdefault(suffix, [0, 0, 0, 0])
        for place, field in enumerate(("bytes", "lines", "words"), 1):
            total[place] += row.get(field, 0)
        total[0] += 1
    for suffix, numbers in sorted(totals.items(), key=lambda item: (-item[1][0], item[0])):
        table.add_row(suffix, *[f"{number:,}" for number in numbers])
    whole = [sum(column) for column in zip(*totals.values(), strict=True)] or [0, 0, 0, 0]
    table.add_section()
    table.add_row("all", *[f"{number:,}" for number in whole])
    return table


# --- the program -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    root: str
    store: Path
    out: str
    key: str
    deadline: float
    cells: int
    progress: str
    trace: Path | None
    tree: Path | None


def read_options(argv: list[str]) -> Options:
    """Read the command line; argparse says what is wrong and exits with 2."""
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
    if not read.deadline > 0 or not 1 <= read.cells <= 64:
        parser.error("--deadline must be more than 0, --cells from 1 to 64")
    root = os.path.realpath(read.root)
    if not os.path.isdir(root):
        parser.error(f"{read.root}: not a directory; give the directory to take stock of")
    if "\0" in root:
        parser.error("the path of the tree holds a zero byte")
    return Options(
        root,
        read.store,
        os.path.abspath(read.out),
        read.key or f"audit {root}",
        read.deadline,
        read.cells,
        read.progress,
        read.trace,
        read.tree,
    )


async def run(options: Options) -> int:
    """Start or resume the audit, then write its report once."""
    if options.trace is not None:
        TRACE.open(options.trace)
    console = Console(stderr=True)
    store = LmdbStore(options.store)
    async with open_system("audit", store=store, cells=CellPool(options.cells)) as system:
        before = system.status(options.key)
        if before not in ("unknown", "completed"):
            console.print(f"resuming {options.key!r} from {options.store}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, system, options)
            rows = await system.run(audit, options.root, options.deadline, key=options.key)
            nursery.cancel_scope.cancel()
        request = {"out": options.out, "root": options.root}
        report = await system.operation(f"report of {options.key}", request)
        done = report.status.terminal
        result = await report.run(write_report, request["out"], rows)
    words = "already done" if done else "done"
    console.print(f"{words}: {result['rows']} entries in {options.out}/report.jsonl")
    if options.progress == "bar":
        Console().print(summary(rows))
    return 0


async def watch(system: ActorSystem, options: Options) -> None:
    """Show progress: settled effects of those that are known so far."""
    tree = options.tree
    bar = Progress(
        TextColumn("settled effects"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=options.progress != "bar",
    )
    with bar:
        task = bar.add_task("settled", total=None)
        total = 2 * await trio.to_thread.run_sync(count_files, options.root)
        while True:
            settled = system.statistics().settled
            bar.update(task, completed=settled, total=max(total, settled))
            if options.progress == "lines":
                print(settled, total, flush=True)
            if tree is not None and settled > total / 2:
                tree.write_text(render_text(system.tree()))
                tree = None
            await trio.sleep(0.05)


def count_files(root: str) -> int:
    """Count plain files, for the progress bar only."""
    total = 0
    for _, names, files in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED]
        total += len(files)
    return total


def main(argv: list[str] | None = None) -> int:
    """Run the program; a user's mistake is one line, not a traceback."""
    options = read_options(sys.argv[1:] if argv is None else argv)
    try:
        return trio.run(run, options)
    except (KeyboardInterrupt, ShuttingDown):
        print(f"interrupted; the same command goes on from {options.store}", file=sys.stderr)
        return 130
    except OutcomeUnknown as error:
        print(f"audit: {error}", file=sys.stderr)
        return 3
    except TrouperError as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

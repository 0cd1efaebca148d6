"""``trouper store``: look after a journal. Each command is a thin shell around `trouper.store`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from .. import store
from ..actors.inspect import INVARIANTS
from ._modules import MODULES, import_all
from ._paths import path_of
from ._status import Status

app = typer.Typer(
    name="store",
    no_args_is_help=True,
    help="Look after a journal: check, describe, dump, back up, compact.",
)

JOURNAL = Annotated[
    Path,
    typer.Argument(metavar="PATH", parser=path_of, help="The journal's directory."),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def check(path: JOURNAL, *, modules: MODULES = None, as_json: AS_JSON = False) -> None:
    """Verify every page and row, and what rows mean to one another. Nothing may have it open.

    Exit status 0: sound. 1: it is damaged, each finding is a line. 2: it could not be checked.
    """
    import_all(modules)
    with _progress("checking", MofNCompleteColumn()) as advance:
        report = store.check(path, invariants=INVARIANTS, progress=advance)
    if as_json:
        unknown = [{"kind": k, "version": v, "rows": n} for k, v, n in report.unknown]
        told = {**asdict(report), "rows": dict(report.rows), "unknown": unknown}
        _print_json({"ok": report.ok, **told})
    else:
        for finding in report.findings:
            typer.echo(finding)
        if report.more:
            typer.echo(f"and {report.more} more")
        count = sum(rows for _, rows in report.rows)
        found = len(report.findings) + report.more
        verdict = "sound" if report.ok else f"{found} finding{'s' if found > 1 else ''}"
        typer.echo(f"{path}: {verdict}; {report.pages} pages, {count} rows")
        for kind, version, number in report.unknown:
            typer.echo(
                f"{number} rows of kind {kind!r}, version {version}, have sound checksums; what "
                f"is in them is not known here"
            )
    if not report.ok:
        raise typer.Exit(Status.FAILED)


@app.command()
def stat(path: JOURNAL, *, as_json: AS_JSON = False) -> None:
    """Describe a journal, also one that a process has open: rows, sizes, owner, readers."""
    found = store.stat(path)
    if as_json:
        _print_json(asdict(found))
        return
    table = Table(box=None, show_header=False)
    owner = "nobody" if found.owner is None else f"process {found.owner or 'unknown'}"
    rows: list[tuple[str, object]] = [
        ("store", f"{found.uuid}, format {found.format}, made by {found.created_by}"),
        ("open", f"{owner}; opened {found.epoch} times, commit {found.commit}"),
        ("file", f"{_size(found.file)}, of it {_size(found.used)} in use"),
        *((f"rows of {name}", count) for name, count in found.rows.items()),
        *(
            ("reader", f"process {reader.pid}, {found.commit - reader.commit} commits behind")
            for reader in found.readers
        ),
    ]
    for name, value in rows:
        table.add_row(name, str(value))
    Console().print(table)


@app.command()
def dump(
    path: JOURNAL,
    *,
    table: Annotated[
        list[str] | None, typer.Option(help="Only this table; may be given again.")
    ] = None,
    modules: MODULES = None,
    as_json: AS_JSON = False,
) -> None:
    """Print every row, one a line, also of a damaged journal: what is readable of it.

    Exit status 1 if something was not, with a line on stderr for each. In JSON, bytes are
    {"$bytes": hex} and what JSON has no number for is {"$float": text}.
    """
    import_all(modules)
    for name in table or ():
        if name not in (*store.TABLES, "store"):
            raise typer.BadParameter(f"no table {name!r}; there are {', '.join(store.TABLES)}")
    broken = 0

    def report(finding: store.Finding) -> None:
        nonlocal broken
        broken += 1
        typer.echo(f"trouper: {finding}", err=True)

    for row in store.dump(path, tables=table, broken=report):
        if as_json:
            _print_json(asdict(row), indent=None)
        else:
            typer.echo(_line(row))
    if broken:
        raise typer.Exit(Status.FAILED)


@app.command()
def backup(
    path: JOURNAL,
    target: Annotated[Path, typer.Argument(parser=path_of, help="Where to; must not exist.")],
    *,
    as_json: AS_JSON = False,
) -> None:
    """Copy a journal, also one that a process has open, and verify the copy."""
    with _progress("copying", DownloadColumn()) as advance:
        made = store.backup(path, target, progress=advance)
    if as_json:
        _print_json(asdict(made))
    else:
        typer.echo(f"{made.path}: {made.rows} rows, {_size(made.bytes)}, verified")


@app.command()
def compact(path: JOURNAL, *, as_json: AS_JSON = False) -> None:
    """Give free pages back to the file system. Nothing may have the journal open."""
    with _progress("compacting", DownloadColumn()) as advance:
        done = store.compact(path, progress=advance)
    if as_json:
        _print_json(asdict(done))
    else:
        typer.echo(
            f"{done.path}: {_size(done.before)} before, {_size(done.after)} now; "
            f"{done.rows} rows, verified"
        )


@contextmanager
def _progress(what: str, amounts: Any) -> Generator[Callable[[int, int], None]]:
    """Show a bar on stderr while it is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), amounts)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)


def _print_json(value: Any, indent: int | None = 2) -> None:
    typer.echo(json.dumps(_plain(value), indent=indent))


def _plain(value: Any) -> Any:
    """Return what JSON can say, without loss."""
    match value:
        case bytes():
            return {"$bytes": value.hex()}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case dict():
            items = cast("dict[object, Any]", value).items()
            return {str(key): _plain(inner) for key, inner in items}
        case list() | tuple():
            return [_plain(inner) for inner in cast("Iterable[Any]", value)]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _line(row: store.DumpedRow) -> str:
    fields = row.fields
    named = fields.items() if isinstance(fields, dict) else enumerate(fields)
    shown = " ".join(f"{name}={_short(value)}" for name, value in named)
    return f"{row.table} {row.key.hex()} {row.kind}/{row.version} {shown}"


def _short(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"

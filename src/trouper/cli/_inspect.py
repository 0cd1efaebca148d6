"""``trouper inspect``: what a journal holds, as a table or as JSON lines."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..actors import inspect as journal
from ..actors.groups import ActivityRegistry
from ..errors import StoreError
from ..store import read
from ._modules import MODULES, import_all
from ._paths import path_of


class Kind(StrEnum):
    """What to look at."""

    ACTIVATIONS = "activations"
    ACTORS = "actors"
    EFFECTS = "effects"
    GROUPS = "groups"
    OPERATIONS = "operations"
    SIGNALS = "signals"


Views = Callable[[journal.Source, journal.Knows | None], Iterable[Any]]

_VIEWS: dict[Kind, Views] = {
    Kind.ACTIVATIONS: lambda rows, knows: journal.activations(rows, knows=knows),
    Kind.ACTORS: lambda rows, knows: journal.actors(rows),
    Kind.EFFECTS: lambda rows, knows: journal.effects(rows),
    Kind.GROUPS: lambda rows, knows: journal.groups(rows, knows=knows),
    Kind.OPERATIONS: lambda rows, knows: journal.operations(rows),
    Kind.SIGNALS: lambda rows, knows: journal.signals(rows),
}
_BEGAN = ("created_at", "opened_at", "changed_at", "arrived_at")
_QUIET = ("parent", "waits_for", "routable", "failures", "due", "unroutable", "conflicts")
_COUNTED = {
    Kind.ACTIVATIONS: ("state", ("running", "completed", "failed", "cancelled")),
    Kind.GROUPS: ("state", ("open", "closed", "retired")),
    Kind.OPERATIONS: ("status", ("pending", "running", "unknown", "failed", "completed")),
}


def inspect(
    path: Annotated[Path, typer.Argument(parser=path_of, help="The journal's directory.")],
    kind: Annotated[Kind, typer.Argument(help="What to look at.")] = Kind.ACTIVATIONS,
    *,
    modules: MODULES = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show what a journal holds, also one that a process has open; nothing is written.

    With --import MODULE it says too what there is no code for. Of groups that are retired the table
    has only their number; --json has a line for each. Rows that cannot be read are left out, with a
    line on stderr for each.
    """
    import_all(modules)
    rows, owner, left_out = _read(path, kind, ActivityRegistry().knows if modules else None)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=_as_text))
        return
    if owner is not None:
        typer.echo(f"process {owner or 'unknown'} has it open; this is its last commit", err=True)
    if not rows:
        others = ", ".join(other for other in Kind if other is not kind)
        readable = " that can be read" if left_out else ""
        typer.echo(f"{path} holds no {kind}{readable}; ask for its {others} by that word")
        return
    shown = [row for row in rows if row.get("state") != "retired"]
    if shown:
        _print_table(shown)
    if kind in _COUNTED:
        typer.echo(_counts(kind, rows))


def _read(
    path: Path, kind: Kind, knows: journal.Knows | None
) -> tuple[list[dict[str, Any]], int | None, int]:
    now, left_out = time.time(), 0

    def report(error: StoreError) -> None:
        nonlocal left_out
        left_out += 1
        typer.echo(f"trouper: left out: {error}", err=True)

    with read(path, broken=report) as source:
        rows = [_aged(asdict(view), now) for view in _VIEWS[kind](source.rows, knows)]
        return rows, source.owner, left_out


def _aged(row: dict[str, Any], now: float) -> dict[str, Any]:
    began = next((row[name] for name in _BEGAN if row.get(name)), None)
    return row if began is None else row | {"age": max(0.0, now - began)}


def _counts(kind: Kind, rows: Sequence[Mapping[str, Any]]) -> str:
    field, words = _COUNTED[kind]
    counts = Counter(row[field] for row in rows)
    parts = [f"{counts[word]} {word}" for word in words]
    lost = sum(row["routable"] is False for row in rows if "routable" in row)
    lost += sum(bool(row["unroutable"]) for row in rows if "unroutable" in row)
    return ", ".join([*parts, *([f"{lost} unroutable"] if lost else [])])


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    names = [n for n in rows[0] if n not in _BEGAN and _is_told(n, rows)]
    table = Table(box=None, header_style="bold")
    for name in names:
        words = name.split("_")
        table.add_column(" ".join(words), overflow="fold", min_width=max(map(len, words)))
    for row in rows:
        table.add_row(*[_cell(name, row.get(name)) for name in names])
    Console().print(table)


def _is_told(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a column says anything: nobody may have asked, or nothing ever failed."""
    return name not in _QUIET or any(row[name] not in (None, "", 0, False) for row in rows)


def _cell(name: str, value: Any) -> str:
    if value is None or (name == "due" and not value):
        return ""
    if name == "age":
        return _age(value)
    if name == "due":
        return _due(value)
    return f"{value:.3f}" if isinstance(value, float) else _as_text(value)


def _due(value: float) -> str:
    left = value - time.time()
    return f"in {_age(left)}" if left > 0 else "now"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_as_text, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

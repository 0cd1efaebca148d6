"""``trouper inspect``: what a journal holds, as a table or as JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import trio
import typer
from rich.console import Console
from rich.table import Table

from ..actors import inspect as journal
from ..store import LmdbStore, Store
from ._paths import path_of


class Kind(StrEnum):
    """What to look at."""

    ACTIVATIONS = "activations"
    ACTORS = "actors"
    EFFECTS = "effects"
    GROUPS = "groups"
    OPERATIONS = "operations"


_READERS: dict[Kind, Callable[[Store], Iterable[Any]]] = {
    Kind.ACTIVATIONS: journal.activations,
    Kind.ACTORS: journal.actors,
    Kind.EFFECTS: journal.effects,
    Kind.GROUPS: journal.groups,
    Kind.OPERATIONS: journal.operations,
}


def inspect(
    path: Annotated[Path, typer.Argument(parser=path_of, help="The journal's directory.")],
    kind: Annotated[Kind, typer.Argument(help="What to look at.")] = Kind.ACTIVATIONS,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show what a journal holds. The store must not be in use by a running process.

    Of groups that are retired the table has only their number; --json has a line for each.
    """
    rows = trio.run(_read, path, kind)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=_as_text))
        return
    if not rows:
        others = ", ".join(other for other in Kind if other is not kind)
        typer.echo(f"{path} holds no {kind}; ask for its {others} by that word")
        return
    counts = Counter(row["state"] for row in rows) if kind is Kind.GROUPS else None
    if counts is not None:
        rows = [row for row in rows if row["state"] != "retired"]
    if rows:
        _print_table(rows)
    if counts is not None:
        typer.echo(", ".join(f"{counts[state]} {state}" for state in ("open", "closed", "retired")))


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table(box=None, header_style="bold")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*[_cell(value) for value in row.values()])
    Console().print(table)


async def _read(path: Path, kind: Kind) -> list[dict[str, Any]]:
    async with LmdbStore(path, create=False) as store:
        return [asdict(view) for view in _READERS[kind](store)]


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_as_text, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

"""``trouper run``: start or resume one activation from the shell, and print its result."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import trio
import typer

from ..actors import open_system
from ..actors.activations import Durable
from ..cells import CellPool
from ..errors import StoreError
from ..store import LmdbStore
from ._paths import path_of
from ._status import Status


def run(
    activity: Annotated[str, typer.Argument(metavar="MODULE:ACTIVITY")],
    args: Annotated[
        list[str] | None, typer.Argument(help="Arguments: JSON where it parses, else text.")
    ] = None,
    *,
    store: Annotated[
        Path, typer.Option(parser=path_of, help="The journal; made where there is none.")
    ],
    key: Annotated[str, typer.Option(help="The activation's identity, also across restarts.")],
    cells: Annotated[int, typer.Option(min=0, max=64, help="Cells for guests.")] = 0,
) -> None:
    """Start a durable function, or resume or join the one with this key; print its result."""
    found = find_activity(activity)
    values = [_value(text) for text in args or []]
    try:
        found.require_call(values, {})
        values, _ = found.shapes.to_values(values, {})
    except (TypeError, StoreError) as error:
        raise typer.BadParameter(str(error)) from None
    try:
        result = trio.run(_run, found, values, store, key, cells)
    except KeyboardInterrupt:
        typer.echo(
            f"trouper: interrupted; the same command goes on from {store} under key {key!r}",
            err=True,
        )
        raise typer.Exit(Status.INTERRUPTED) from None
    plain = found.shapes.result.to_plain(result)
    typer.echo(json.dumps(plain, default=_as_text, sort_keys=True))


async def _run(
    activity: Durable[..., Any], args: Sequence[Any], store: Path, key: str, cells: int
) -> Any:
    pool = CellPool(cells) if cells else None
    journal = LmdbStore(store)
    async with open_system(
        "trouper-run", store=journal, cells=pool, activities=[activity]
    ) as system:
        return await system.run(activity, *args, key=key)


def find_activity(text: str) -> Durable[..., Any]:
    """Import ``module:name`` as the current directory sees it; a mistake is wrong use."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise typer.BadParameter(f"{text!r} is not MODULE:ACTIVITY, such as shop.orders:checkout")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise typer.BadParameter(f"no module {module!r} here or on the path") from None
    except AttributeError:
        raise typer.BadParameter(f"{module} has no {name!r}") from None
    if not isinstance(found, Durable):
        raise typer.BadParameter(f"{text} is not durable; mark it with @durable")
    return cast("Durable[..., Any]", found)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)

"""The command tree, on typer. Commands register here; each lives in a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from .._version import __version__
from ._inspect import inspect
from ._run import run
from ._status import Status
from ._store import app as store

app = typer.Typer(
    name="trouper",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # `main` decides what a failure looks like
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trouper {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def trouper(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Run and look at durable actor systems."""


app.command()(run)
app.command()(inspect)
app.add_typer(store)


def run_app(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name and return its exit status.

    typer answers wrong use itself (status 2), turns an interrupt into status 130 and ends quietly
    when the output is a closed pipe; whatever else a command raises passes through.
    """
    try:
        get_command(app).main(args=list(arguments), prog_name="trouper")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return Status.UNREAD  # not typer's 1, which says that something is wrong
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0

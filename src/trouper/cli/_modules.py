"""``--import MODULE``: code of the user that a command has to know."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

MODULES = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="Whose code to know; may be given again."),
]


def import_all(modules: Iterable[str] | None) -> None:
    """Import modules as the current directory sees them, for what they register."""
    sys.path.insert(0, os.getcwd())
    for name in modules or ():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            raise typer.BadParameter(f"no module {name!r} here or on the path") from None

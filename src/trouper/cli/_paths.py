"""Paths on the command line."""

from __future__ import annotations

from pathlib import Path

import typer


def path_of(text: str) -> Path:
    """Return the path that an argument names; none for an empty one, as of an unset variable.

    Raises:
        BadParameter: It is empty, which `Path` would take for the current directory.
    """
    if not text:
        raise typer.BadParameter("an empty path; '.' is the current directory")
    return Path(text)

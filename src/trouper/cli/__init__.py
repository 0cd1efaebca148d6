"""The ``trouper`` command.

`main` is its entry point. It needs the ``cli`` extra (typer, rich) and says so when that is
missing; nothing else in trouper imports those two.
"""

from ._main import main as main

__all__ = ("main",)

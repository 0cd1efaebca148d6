"""The ``trouper`` command, and what it draws.

`main` is its entry point. It needs the ``cli`` extra (typer, rich) and says so when that is
missing; nothing else in trouper imports those two.
"""

from typing import TYPE_CHECKING

from ..errors import ExtraMissing
from ._main import main as main

__all__ = ("main", "rich_tree")

if TYPE_CHECKING:
    from ._tree import rich_tree as rich_tree
else:

    def __getattr__(name):
        # On first use: this package is imported to say that its extra is missing, too.
        if name != "rich_tree":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            from ._tree import rich_tree
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "rich":
                raise
            raise ExtraMissing(
                "trouper.cli.rich_tree needs rich: pip install 'trouper[cli]'",
                name="rich",
                extra="cli",
            ) from None
        return rich_tree

"""Who else hears what a journal under a schedule commits, and when it crashes."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

from ...store._memory import MemoryState
from ...store._overlay import Writes


class Mirror(Protocol):
    """Keeps the rows of a journal in another place, for a real crash."""

    def wrote(self, writes: Writes, head: int) -> None:
        """Take in what a commit wrote, and the last number of the log after it."""
        ...

    def crashed(self, state: MemoryState, life: int) -> None:
        """Take in that a life ends, of which these rows are left; it may change them."""
        ...


MIRROR: Final[ContextVar[Mirror | None]] = ContextVar("MIRROR", default=None)
"""The mirror of the journals that are made in this context."""

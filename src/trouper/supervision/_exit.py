"""How something supervised ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ._failures import text_of

ExitKind: TypeAlias = Literal["finished", "stopped", "drained", "killed", "shutdown", "crashed"]


@dataclass(frozen=True, slots=True)
class Exit:
    """Why a child ended.

    ``kind`` is the word: *finished* (its code returned), *stopped*, *drained* or *killed* (somebody
    asked), *shutdown* (its parent or the system ends, or restarts it along with a sibling),
    *crashed* (it failed and was not restarted). ``cause`` is the failure behind a crash, or behind
    the shutdown that took this child along, or the one it was stopped with before a restart could
    mend it.
    """

    kind: ExitKind
    cause: BaseException | None = None

    @property
    def is_failure(self) -> bool:
        """Whether this child itself failed."""
        return self.kind == "crashed"

    def __str__(self) -> str:
        return self.kind if self.cause is None else f"{self.kind} ({text_of(self.cause)})"

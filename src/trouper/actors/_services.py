"""What lives as long as the block of a system, beside its actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import trio

from ..supervision import TreeNode

if TYPE_CHECKING:
    from ._system import ActorSystem

CloseMode: TypeAlias = Literal["normal", "error", "cancel"]


class Service(Protocol):
    """Something that lives as long as the block: opened before its body, closed before the actors.

    ``open`` runs in the task that opens the system and may keep tasks in ``nursery``; ``close``
    runs once, on a worker, also when a later service failed to open. It ends those tasks. What it
    raises ends the system with that error, after everything else has closed.
    """

    async def open(self, nursery: trio.Nursery, system: ActorSystem) -> None: ...
    async def close(self, mode: CloseMode) -> None: ...
    def tree(self) -> TreeNode: ...

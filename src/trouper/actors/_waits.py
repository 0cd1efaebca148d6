"""Who waits for whom: one graph per system, walked before a wait begins (README, ruling 17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import AskCycle
from ..mailbox import FAILED, STOPPED

if TYPE_CHECKING:
    from ._local import LocalRef


class WaitGraph:
    """Edges from an actor, in whose turn somebody waits, to the actor that is waited for.

    A turn ends only when all waits in it have, so one way back to the waiter is enough to refuse.
    """

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        # counted: one turn may wait for one actor several times
        self._edges: dict[LocalRef, dict[LocalRef, int]] = {}

    def __len__(self) -> int:
        return sum(sum(targets.values()) for targets in self._edges.values())

    def enter(self, waiter: LocalRef, target: LocalRef) -> None:
        """Add an edge for the time of a wait.

        Raises:
            AskCycle: Every such wait would lead back to the waiter; nothing was added.
        """
        path = self._way(target, waiter)
        if path is not None:
            names = [ref.path for ref in (waiter, *path)]
            raise AskCycle(
                f"waiting would wait for itself: {' -> '.join(names)}; answer with a message "
                "instead, or do the work in one of them",
                path=names,
            )
        targets = self._edges.get(waiter)
        if targets is None:
            self._edges[waiter] = {target: 1}
        else:
            targets[target] = targets.get(target, 0) + 1

    def leads(self, start: LocalRef, goal: LocalRef) -> bool:
        """Tell whether one actor waits, over however many others, for another one."""
        return self._way(start, goal) is not None

    def leave(self, waiter: LocalRef, target: LocalRef) -> None:
        """Take an edge away when its wait is over."""
        targets = self._edges[waiter]
        left = targets[target] - 1
        if left:
            targets[target] = left
        elif len(targets) > 1:
            del targets[target]
        else:
            del self._edges[waiter]

    def targets(self, waiter: LocalRef) -> tuple[LocalRef, ...]:
        """Return whom the turn of this actor waits for now."""
        return tuple(self._edges.get(waiter, ()))

    def _way(self, start: LocalRef, goal: LocalRef) -> list[LocalRef] | None:
        """Return the nodes from start to goal, both included, or None if there is no way."""
        if start is not goal and start not in self._edges and start.state < FAILED:
            return None
        came_from: dict[LocalRef, LocalRef | None] = {start: None}
        pending = [start]
        while pending:
            here = pending.pop()
            if here is goal:
                path: list[LocalRef] = []
                at: LocalRef | None = here
                while at is not None:
                    path.append(at)
                    at = came_from[at]
                return path[::-1]
            for target in self._next(here):
                if target not in came_from:
                    came_from[target] = here
                    pending.append(target)
        return None

    def _next(self, ref: LocalRef) -> list[LocalRef]:
        after = list(self._edges.get(ref, ()))
        if FAILED <= ref.state < STOPPED:
            after += ref.descendants()  # it ends, or lives again, only after them
            after += ref.ending_siblings()
        return after

"""Waits on durable facts from inside of durable work, as a graph: a wait for oneself is refused.

An effect that starts or joins an activation, or runs an operation, waits for it. Where that waits -
directly, or through other such waits - for this very effect, nobody could ever go on (ruling 17).
Labels are ``activation KEY`` and ``operation KEY``; work runs below the activation whose key its
own begins with.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ...errors import AskCycle

INSIDE: ContextVar[str] = ContextVar("trouper_inside", default="")
"""The label of the attempt that the current task runs; empty outside of durable work."""


class DurableWaits:
    """The waits of one system that began inside of durable work. Writer: `waiting`."""

    def __init__(self) -> None:
        self._waits: dict[object, tuple[str, str]] = {}  # who waits -> for what

    @contextmanager
    def waiting(self, target: str) -> Generator[None]:
        """Hold an edge from the current work to ``target`` for the time of the block.

        Raises:
            AskCycle: the target waits for the work that would wait for it; ``path`` names the way.
        """
        inside = INSIDE.get()
        if not inside:
            yield
            return
        path = self._path(target, inside)
        if path is not None:
            raise AskCycle(
                f"waiting for {target} from {inside} would wait for itself: "
                f"{' -> '.join([inside, *path])}; let the caller do this step instead",
                path=[inside, *path],
            )
        edge = object()
        self._waits[edge] = (inside, target)
        try:
            yield
        finally:
            del self._waits[edge]

    def _path(self, target: str, inside: str) -> list[str] | None:
        """Find the way from a target back to the work that would wait for it."""
        ways, seen = [[target]], {target}
        while ways:
            way = ways.pop()
            if _below(inside, way[-1]):
                return [*way, inside]
            for work, awaited in self._waits.values():
                if _below(work, way[-1]) and awaited not in seen:
                    seen.add(awaited)
                    ways.append([*way, work, awaited])
        return None


def _below(work: str, target: str) -> bool:
    return work == target or work.startswith(f"{target}#")

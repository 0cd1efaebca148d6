"""What the crowd benches of all systems have in common: how many, and who meets whom."""

from __future__ import annotations

from collections.abc import Iterator


def shares(ops: int, actors: int) -> int:
    """Return how many operations each actor does; at least one."""
    return max(ops // actors, 1)


def others(me: int, actors: int) -> Iterator[int]:
    """Yield whom this actor writes to: every one but itself in turn, from its own place on."""
    at = me
    while True:
        at = (at + 7) % actors
        if at != me:
            yield at

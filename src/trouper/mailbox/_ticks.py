"""Numbers the ticks of the event loop, through trio's public instrument interface.

Ruling 1: what arrives in one tick is a tie, because trio shuffles the tasks inside a tick. Who
ranks arrivals therefore needs to know where one tick ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


class TickCounter(trio.abc.Instrument):
    """Counts ticks and calls ``between`` between two of them, when no task is being run."""

    __slots__ = ("_between", "tick")

    def __init__(self, between: Callable[[], None]) -> None:
        self.tick = 0
        self._between = between

    def after_io_wait(self, timeout: float) -> None:
        """Begin the next tick; trio calls this once per round of its loop."""
        self.tick += 1
        self._between()

"""A step of a schedule that does not come to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import trio

if TYPE_CHECKING:
    from ._gate import Gate

TURNS: Final = 100_000  # of trio's loop, in one step: a loop around a checkpoint has no end


@final
class Patience(trio.abc.Instrument):
    """Calls ``lost``, once, when tasks have run for very long and nothing was at rest."""

    def __init__(self, gate: Gate, lost: Callable[[], None]) -> None:
        self._gate = gate
        self._lost = lost
        self._number = -1  # of the step under way
        self._turns = 0

    def before_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`; nothing can run if it has a timeout."""
        if timeout or self._gate.number != self._number:
            self._number, self._turns = self._gate.number, 0
            return
        self._turns += 1
        if self._turns == TURNS:
            self._lost()

"""Timers as effects: the due instant is journaled, so a restart neither resets nor skips it."""

from __future__ import annotations

import time
from typing import Protocol

import trio

from ._envelope import EffectEnvelope
from ._runner import EffectContext


class Clock(Protocol):
    """Tells the time of journaled facts: UTC seconds, running with trio's clock."""

    def now(self) -> float:
        """Return the time."""
        ...


class WallClock:
    """UTC seconds that run with trio's clock, so that virtual time moves journaled time too."""

    def __init__(self) -> None:
        self._offset = time.time() - trio.current_time()

    def now(self) -> float:
        """Return the time."""
        return trio.current_time() + self._offset


class TimerRunner:
    """Waits for the journaled due instant; one that passed meanwhile fires at once."""

    __slots__ = ("_clock",)
    releasable = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, ctx: EffectContext) -> None:
        """Wait."""
        await trio.sleep(max(0.0, ctx.due - self._clock.now()))


def due_of(envelope: EffectEnvelope, now: float) -> float:
    """Return the due instant that a timer journals at its open (UTC); 0 for anything else."""
    if envelope.kind != "timer":
        return 0.0
    (seconds,), _ = envelope.call()
    return now + float(seconds)

"""What a scenario gets: the system under test, its journal, and what may happen to them."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVarTuple, Unpack

import trio

from ...actors import ActorSystem
from ...actors.activations import HISTORY_LIMIT
from ...actors.groups import SIGNALS_KEPT

if TYPE_CHECKING:
    from ...mailbox import Overflow
    from ...supervision import Strategy
    from ._gate import Gate
    from ._journal import Journal

Ts = TypeVarTuple("Ts")

Uncontrolled: TypeAlias = Literal["error", "serialize", "allow"]


@dataclass(frozen=True, slots=True)
class Options:
    """How the system of a scenario is opened, anew for every schedule.

    Args:
        effects, activities, cells, strategy, shutdown, mailbox, overflow, history_limit,
            signal_limit, keep_groups, seed: As for `open_system`.
        ask_safety: Seconds after which a pending ask ends; None: never, it is a `Deadlock`.
        uncontrolled: What becomes of a task that waits for what no schedule controls, a thread or
            a socket: *error* ends the schedule with `UncontrolledWait`, *serialize* waits for it,
            one at a time, *allow* goes on meanwhile and gives up on reproducing anything.
    """

    effects: Iterable[Any] = ()
    activities: Iterable[Any] = ()
    cells: Any = None
    strategy: Strategy | None = None
    shutdown: float = 5.0
    ask_safety: float | None = None
    mailbox: int = 1024
    overflow: Overflow = "reject"
    seed: int = 0
    history_limit: int = HISTORY_LIMIT
    signal_limit: int = SIGNALS_KEPT
    keep_groups: bool = False
    uncontrolled: Uncontrolled = "error"

    def for_system(self) -> dict[str, Any]:
        """Return what a system is opened with, but for its store."""
        return {
            "cells": self.cells,
            "listed": [*self.effects, *self.activities],
            "strategy": self.strategy,
            "shutdown": self.shutdown,
            "ask_safety": math.inf if self.ask_safety is None else self.ask_safety,
            "mailbox": self.mailbox,
            "overflow": self.overflow,
            "seed": self.seed,
            "history_limit": self.history_limit,
            "signal_limit": self.signal_limit,
            "keep_groups": self.keep_groups,
        }


class Simulation:
    """One schedule of a scenario, from the scenario's side."""

    system: ActorSystem  # another one after each crash

    def __init__(self, gate: Gate, journal: Journal) -> None:
        self._gate = gate
        self._journal = journal
        self._clients: trio.Nursery

    def enter(self, system: ActorSystem, clients: trio.Nursery) -> None:
        """Begin a life; called by the driver only."""
        self.system, self._clients = system, clients

    @property
    def journal(self) -> Journal:
        """What was committed; it outlives crashes. To look at it is no part of the schedule."""
        return self._journal

    @property
    def now(self) -> float:
        """Seconds of virtual time."""
        return self._gate.alarms.now

    @property
    def next_timer(self) -> float | None:
        """The virtual time at which the first timer is due; None if there is none."""
        return self._gate.alarms.next_due()

    def crash_points(self, where: str = "journal", *, budget: int = 1) -> None:
        """Let up to so many crashes come, each at any commit boundary."""
        raise NotImplementedError

    def crash(self, *, at: str | None = None) -> None:
        """Crash now, or at a commit boundary such as ``"commit:g1#3:after"``."""
        raise NotImplementedError

    def on_boot(self, fn: Callable[[Simulation], Awaitable[object]]) -> None:
        """Call this with the new system after each crash: it spawns again what is not durable."""
        raise NotImplementedError

    def start(
        self, fn: Callable[[Unpack[Ts]], Awaitable[object]], /, *args: *Ts, name: str
    ) -> None:
        """Run a task beside the actors, a client say; when it begins is explored like the rest.

        Its name must be no actor's. What it raises fails the schedule, and so does its waiting for
        what never comes.
        """
        self._gate.take_task(self._clients, name, fn, args)

    def touch(self, *names: str) -> None:
        """Say that the step under way uses an object in memory that others use, by its name."""
        self._gate.note(shares=names)


Scenario: TypeAlias = Callable[[Simulation], AsyncGenerator[None, None]]

"""What a scenario gets: the system under test, its journal, and what may happen to them."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVarTuple, Unpack, get_args

from ...actors import ActorSystem
from ...actors.activations import HISTORY_LIMIT
from ...actors.groups import SIGNALS_KEPT
from ...errors import OptionRefused, ScenarioRefused

if TYPE_CHECKING:
    from ...mailbox import Overflow
    from ...supervision import Strategy
    from ._gate import Gate
    from ._journal import Journal
    from ._life import Life

Ts = TypeVarTuple("Ts")

Uncontrolled: TypeAlias = Literal["error", "serialize", "allow"]


@dataclass(frozen=True, slots=True)
class Options:
    """How the system of a scenario is opened, anew for every schedule.

    Args:
        effects, activities, strategy, shutdown, mailbox, overflow, history_limit, signal_limit,
            keep_groups, seed: As for `open_system`.
        cells: Makes the pool, anew for every life of the system, such as
            ``lambda: CellPool(2, transport="lock-step")``; a threaded pool is not controlled.
        ask_safety: Seconds after which a pending ask ends; None: never, it is a `Deadlock`.
        uncontrolled: What becomes of a task that waits for what no schedule controls, a thread or
            a socket: *error* ends the schedule with `UncontrolledWait`, *serialize* waits for it,
            one at a time, *allow* goes on meanwhile and gives up on reproducing anything.
        late_verdicts: A commit and its verdict are two events: what is written can be read before
            those hear of it who wrote it, and a crash can come in between.
    """

    effects: Iterable[Any] = ()
    activities: Iterable[Any] = ()
    cells: Callable[[], Any] | None = None
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
    late_verdicts: bool = False

    def __post_init__(self) -> None:
        if self.cells is not None and not callable(self.cells):
            raise OptionRefused(
                f"cells takes what makes a pool, such as lambda: CellPool(1), not {self.cells!r}: "
                "each schedule, and each life after a crash, has one of its own"
            )
        if self.uncontrolled not in get_args(Uncontrolled):
            raise OptionRefused(
                f"uncontrolled is error, serialize or allow, not {self.uncontrolled!r}"
            )

    def for_system(self) -> dict[str, Any]:
        """Return what a system is opened with, but for its store."""
        return {
            "cells": None if self.cells is None else self.cells(),
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

    life: Life  # the driver's

    def __init__(self, gate: Gate, journal: Journal) -> None:
        self._gate = gate
        self._journal = journal
        self.budget = 0  # of crashes that may come
        self._places: list[tuple[str, int, str]] = []  # where one must come
        self.boots: list[Callable[[Simulation], Awaitable[object]]] = []
        self.is_played = False  # writer: the driver, when the schedule is at its end
        self._clients: dict[str, None] = {}  # names of this life's

    @property
    def system(self) -> ActorSystem:
        """The system under test; another one after each crash."""
        return self.life.system

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

    def start(
        self, fn: Callable[[Unpack[Ts]], Awaitable[object]], /, *args: *Ts, name: str
    ) -> None:
        """Run a task beside the actors, a client say; when it begins is explored like the rest.

        What it raises fails the schedule, and so does its waiting for what never comes. A crash
        ends it; `on_boot` may start it again.

        Raises:
            ScenarioRefused: An actor has this name, so that nothing could tell their events apart.
        """
        self._clients[name] = None
        self.require_own_names()
        self._gate.take_task(self.life.clients, name, fn, args)

    def touch(self, *names: str, outlives: bool = False) -> None:
        """Say that the step under way uses an object that others use, by its name.

        Args:
            names: Of objects in memory: a list, an event of trio.
            outlives: They outlive a crash, as what a test keeps outside of the system does, or what
                an effect does to the world.
        """
        if outlives:
            self._gate.note(writes=[f"outside: {name}" for name in names])
        else:
            self._gate.note(shares=names)

    # --- crashes ----------------------------------------------------------------------------------

    def crash_points(self, where: str = "journal", *, budget: int = 1) -> None:
        """Let up to so many crashes come, each at any commit boundary.

        Raises:
            OptionRefused: There is no such place, or the budget is below 0.
            ScenarioRefused: It comes after the ``yield``: the schedule is over.
        """
        self._require_ahead("crash_points()")
        if where != "journal":
            raise OptionRefused(f"crashes come at the boundaries of the journal, not of {where!r}")
        if budget < 0:
            raise OptionRefused(f"a budget of crashes is 0 or more, not {budget}")
        self.budget = budget

    def crash(self, *, at: str) -> None:
        """Let a crash come, in every schedule, at a boundary such as ``"commit:g1#3:after"``.

        That is when the third commit of g1 has taken place; ``before``: when it is on its way.
        Called again, for one crash more.

        Raises:
            OptionRefused: ``at`` names no boundary.
            ScenarioRefused: It comes after the ``yield``: the schedule is over.
        """
        self._require_ahead("crash()")
        found = re.fullmatch(r"commit:(.+?)(?:#(\d+))?:(before|after)", at)
        if found is None:
            raise OptionRefused(
                f"at= takes commit:NAME#N:before or commit:NAME#N:after, not {at!r}"
            )
        self._places.append((found[1], int(found[2] or 1), found[3]))

    def must_crash(self) -> bool:
        """Tell whether a crash comes now, and that it has; the driver asks."""
        if not self._places:
            return False
        name, number, when = self._places[0]
        last = self._gate.last
        near = self._gate.pending() if when == "before" else [last] if last is not None else []
        if any((e.kind, e.target, e.sequence) == ("commit", name, number) for e in near):
            del self._places[0]
            return True
        return False

    def on_boot(self, fn: Callable[[Simulation], Awaitable[object]]) -> None:
        """Call this with the new system after each crash: it spawns again what is not durable.

        Raises:
            ScenarioRefused: It comes after the ``yield``: the schedule is over.
        """
        self._require_ahead("on_boot()")
        self.boots.append(fn)

    def _require_ahead(self, what: str) -> None:
        if self.is_played:
            raise ScenarioRefused(
                f"{what} stands behind the `yield` of the scenario, where the schedule is over and "
                "no crash comes any more: call it before"
            )

    # --- for the driver ---------------------------------------------------------------------------

    def booted(self) -> None:
        """Hear that another life begins, without the clients of the last one."""
        self._clients.clear()

    def require_own_names(self) -> None:
        """Refuse a client that is called like an actor.

        Raises:
            ScenarioRefused: There is one.
        """
        actors = self._gate.owners.actors() if self._clients else ()
        for name in self._clients:
            if name in actors:
                raise ScenarioRefused(
                    f"a client is called {name!r}, and so is an actor: nothing could tell what "
                    f"happens to the one from what happens to the other; give sim.start() another "
                    "name="
                )


Scenario: TypeAlias = Callable[[Simulation], AsyncGenerator[None, None]]

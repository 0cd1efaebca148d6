"""What a scenario gets: the system under test, its journal, and what may happen to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVarTuple, Unpack

from ...actors import ActorSystem

if TYPE_CHECKING:
    from ...mailbox import Overflow
    from ...store import Store
    from ...supervision import Strategy

Ts = TypeVarTuple("Ts")

Uncontrolled: TypeAlias = Literal["error", "serialize", "allow"]


@dataclass(frozen=True, slots=True)
class Options:
    """How the system of a scenario is opened, anew for every schedule.

    Args:
        effects, activities, cells, strategy, shutdown, mailbox, overflow, history_limit,
            keep_groups, seed: As for `open_system`.
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
    history_limit: int | None = None
    keep_groups: bool = False
    uncontrolled: Uncontrolled = "error"


class Simulation:
    """One schedule of a scenario, from the scenario's side."""

    system: ActorSystem  # another one after each crash

    @property
    def journal(self) -> Store:
        """The store; it outlives crashes."""
        raise NotImplementedError

    @property
    def now(self) -> float:
        """Seconds of virtual time."""
        raise NotImplementedError

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
        """Run a task beside the actors, a client say; when it begins is explored like the rest."""
        raise NotImplementedError

    def touch(self, *names: str) -> None:
        """Say that the step under way uses an object in memory that others use, by its name."""
        raise NotImplementedError


Scenario: TypeAlias = Callable[[Simulation], AsyncGenerator[None, None]]

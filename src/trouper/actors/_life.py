"""What is told about an actor at its spawn, and the parts of its record that most never need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..supervision import History, Restart, Strategy

if TYPE_CHECKING:
    import trio
    from trio.lowlevel import Task

    from ..supervision import Exit
    from ._belongings import Belongings
    from ._local import LocalRef
    from ._redelivery import Retry


@dataclass(frozen=True, slots=True)
class SpawnOptions:
    """How a parent treats this child, and how the child treats its own children."""

    restart: Restart
    strategy: Strategy
    shutdown: float
    redeliver: int
    significant: bool = False


class Life:
    """The parts of an actor's record that most actors never need."""

    __slots__ = (
        "belongings",
        "brood",
        "children",
        "crash",
        "cut",
        "history",
        "is_beyond_help",
        "is_own_end",
        "is_up",
        "lane",
        "lives",
        "path",
        "restarting",
        "retry",
        "serial",
        "significant",
        "stop_waiters",
        "stopping",
    )

    def __init__(self) -> None:
        self.children: dict[str | int, LocalRef] = {}  # in start order
        self.serial = 0  # numbers the unnamed children
        self.significant = 0  # of the living children
        self.belongings: Belongings | None = None
        self.cut: Exit | None = None  # what somebody stops it with while it starts
        self.is_up = False  # its start was ended although its `started` hook had returned
        self.lane: trio.Lock | None = None  # serialises the supervision of the children
        self.lives = 1  # begun so far
        self.history = History()
        self.brood: History | None = None  # of the children, when they restart together
        self.crash: BaseException | None = None  # the failure that no restart has mended yet
        self.is_beyond_help = False  # its supervisor gave up: the crash goes to the parent
        self.is_own_end = False  # a significant actor ends, and not by its parent's doing
        self.stopping: Exit | None = None  # set by the one job that drives the stop
        self.restarting: trio.Event | None = None  # set while a supervise job works on it
        self.retry: Retry | None = None  # the last message that failed and was put back
        self.stop_waiters: dict[Task, None] = {}
        self.path: str | None = None

    @property
    def is_alone(self) -> bool:
        """Whether nothing has to end before this actor can."""
        mine = self.belongings
        return not self.children and (mine is None or not (mine.pipes or mine.stash))

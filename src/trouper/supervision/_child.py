"""A child of a supervisor of tasks: how to start it, and the record of one that runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import trio

from ._exit import Exit
from ._rules import History, Restart, check_restart


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How to start one child, and how to treat it; see `Supervisor.start`."""

    name: str
    fn: Callable[..., Awaitable[object]]
    args: tuple[Any, ...] = ()
    restart: Restart = "permanent"
    shutdown: float = 5.0
    significant: bool = False

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(
                f"child {self.name!r} needs an async function and its arguments, "
                f"start(fn, *args), not {self.fn!r}"
            )
        check_restart(self.restart)
        if not self.shutdown >= 0:
            raise ValueError(f"shutdown must be 0 seconds or more, not {self.shutdown}")


class Child:
    """A running child. Written by its own task and by its supervisor.

    One task and one ``scope`` carry all lives of a child and the waits between them; within it each
    life has a scope and an event of its own.
    """

    __slots__ = (
        "begun",
        "ended",
        "exit",
        "go",
        "history",
        "is_held",
        "life",
        "life_over",
        "restarts",
        "scope",
        "spec",
        "state",
        "stopping",
    )

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.state = "running"
        self.restarts = 0
        self.history = History()
        self.scope = trio.CancelScope(shield=True)
        self.stopping: Exit | None = None  # set before the scope is cancelled
        self.exit: Exit | None = None
        self.ended = trio.Event()
        self.life = trio.CancelScope()
        self.life_over = trio.Event()
        self.is_held = False  # this life was ended to restart it together with a sibling
        self.go = trio.Event()  # lets a parked child go on: to its next life, or to its end
        self.begun = trio.Event()  # that next life has begun

    def begin(self) -> trio.CancelScope:
        """Begin a life; return its scope."""
        self.state = "running"
        self.is_held = False
        self.life = trio.CancelScope()
        self.life_over = trio.Event()
        self.go = trio.Event()
        self.begun.set()
        return self.life

    def end(self) -> None:
        """Note the end of the last life."""
        self.state = "stopped"
        self.exit = self.exit or self.stopping or Exit("finished")
        self.begun.set()
        self.ended.set()

    @property
    def is_ending(self) -> bool:
        """Whether no further life may begin."""
        return self.stopping is not None or self.exit is not None

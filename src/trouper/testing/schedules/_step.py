"""What belongs to the step under way, and who waits for a later one."""

from __future__ import annotations

from typing import Final, final

from trio.lowlevel import Task, current_task

from ._event import Event

NOTHING: Final[frozenset[str]] = frozenset()  # what most steps have of most things


@final
class Step:
    """What a step under way has touched so far."""

    __slots__ = (
        "also", "arms", "creates", "event", "fills", "looks", "reads", "scans", "shares",
        "withdraws", "writes",
    )  # fmt: skip

    def __init__(self, event: Event | None) -> None:
        self.event = event
        self.creates: list[tuple[int, Event]] = []  # with the stamp of each
        self.withdraws: dict[Event, None] = {}
        self.reads = self.writes = self.scans = self.fills = NOTHING  # few touch the journal
        self.shares: set[str] = set()
        self.looks: set[str] = set()
        self.also: dict[str, None] = {}
        self.arms = False


@final
class Held:
    """A task that waits for what only an event can bring."""

    __slots__ = ("asked", "event", "owner", "sender", "task", "what")

    def __init__(self, owner: str, sender: str, what: str, asked: Event | None) -> None:
        self.owner = owner
        self.sender = sender
        self.what = what
        self.asked = asked  # the delivery of the request
        self.task: Task = current_task()
        self.event: Event | None = None  # once it may go on

"""What mailboxes and the dispatcher say about themselves."""

from __future__ import annotations

from dataclasses import dataclass

from ._intake import Overflow


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """One mailbox, now.

    ``high_water`` is the deepest queue that a pass began with or a blocked turn left. ``dropped``
    counts what never had its turn: refused, displaced, or left over at the stop. ``oldest_age`` is
    the time in seconds for which the oldest message has waited at most: exact when the mailbox was
    empty before it came, at most the last 64 turns too long under a steady backlog, and 0.0 while
    no turn blocks, since then what is queued has its turn within milliseconds.
    """

    depth: int
    high_water: int
    capacity: int
    overflow: Overflow
    processed: int
    dropped: int
    oldest_age: float
    waiting_senders: int
    state: str


@dataclass(frozen=True, slots=True)
class DispatcherStatistics:
    """The worker pool, now."""

    workers: int
    idle: int
    ready: int
    started: int

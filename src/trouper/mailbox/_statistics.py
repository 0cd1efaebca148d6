"""What mailboxes and the dispatcher say about themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """One mailbox, now. ``high_water`` is the deepest queue a pass began with."""

    depth: int
    high_water: int
    capacity: int
    processed: int
    dropped: int
    waiting_senders: int
    state: str


@dataclass(frozen=True, slots=True)
class DispatcherStatistics:
    """The worker pool, now."""

    workers: int
    idle: int
    ready: int
    started: int

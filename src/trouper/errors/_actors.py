"""What sending, asking, starting and supervising can end in."""

from __future__ import annotations

import trio

from ._base import TrouperError


class MailboxFull(TrouperError, trio.WouldBlock):
    """A `tell` met a full mailbox. Use ``await ref.send(...)`` to wait for room, or shed load."""


class ActorStopped(TrouperError):
    """The target has stopped, or stopped before it answered."""


class ActorCrashed(TrouperError):
    """The target failed while it handled this request. ``__cause__`` is what it raised."""


class AskCycle(TrouperError):
    """Waiting here would wait for itself: every way out leads back to the waiter."""

    path: list[str]


class AskUnknown(TrouperError):
    """The safety net ended an ask. Outcome unknown: the handler may have run, or may yet run."""


class NotHandled(TrouperError):
    """The target has no handler for a message of this type."""


class NameTaken(TrouperError):
    """Another child of the same parent has this name."""


class LinkBroken(TrouperError):
    """An actor linked to this one crashed or was killed; ``__cause__`` is its failure."""


class TimersFull(TrouperError):
    """An actor has as many timers as its ``mailbox`` has room for messages."""


class PipesFull(TrouperError, trio.WouldBlock):
    """An actor has as many pipes running as its ``mailbox`` has room for messages."""


class StashFull(TrouperError, trio.WouldBlock):
    """An actor has put aside as many messages as its ``mailbox`` has room for."""


class TopicFull(TrouperError):
    """A topic has as many subscribers as ``topics.limit`` allows."""


class InboxClosed(TrouperError, trio.EndOfChannel):
    """A protocol is to stop: no further message is received. Left alone, it ends it in order."""


class StartFailed(TrouperError):
    """An actor did not come up. ``__cause__`` is what its constructor or ``started`` raised."""


class RestartLimitReached(TrouperError):
    """A child failed more often than its supervisor allows. ``__cause__`` is its last failure."""


class ShuttingDown(TrouperError):
    """The system or the parent is stopping; nothing new starts."""


class WrongTask(TrouperError):
    """`open_system` was left in another task than the one that entered it."""


class ScopeLeak(TrouperError):
    """A handler left a cancel scope or a nursery open behind it."""


class ActorMismatch(TrouperError):
    """The key belongs to a durable actor of another class."""


class MessageMismatch(TrouperError):
    """The idempotency id belongs to another message."""

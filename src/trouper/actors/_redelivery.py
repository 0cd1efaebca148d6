"""`redeliver`: the message in flight at a crash is delivered again, a bounded number of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..mailbox import RUNNING, Ask, Control

if TYPE_CHECKING:
    from ._local import LocalRef


class Retry:
    """The last message that was put back.

    It stands in the queue as an `Ask`, a told one too: one object may be told many times, and this
    delivery of it must be known from the others.
    """

    __slots__ = ("ask", "count", "is_told")

    def __init__(self, entry: Any) -> None:
        self.is_told = entry.__class__ is not Ask
        self.ask: Ask = Ask(entry) if self.is_told else entry
        self.count = 0


def put_again(ref: LocalRef, entry: Any) -> bool:
    """Put what was in flight in front of the queue. Return False when it may not come again."""
    if not ref.options.redeliver or entry is None or entry.__class__ is Control:
        return False
    life = ref.need_life()
    retry = life.retry
    if retry is None or retry.ask is not entry:
        retry = life.retry = Retry(entry)
    if retry.count == ref.options.redeliver or retry.ask.done or ref.state != RUNNING:
        return False
    retry.count += 1
    q = ref.queue if ref.queue is not None else ref.new_queue()
    q.appendleft(retry.ask)  # also beyond the bound: it had its place
    return True


def as_sent(ref: LocalRef, entry: Any) -> Any:
    """Return the entry as its sender put it in: the message itself if it was told."""
    retry = _retry_of(ref, entry)
    return entry.message if retry is not None and retry.is_told else entry


def is_again(ref: LocalRef, entry: Any) -> bool:
    """Whether this entry has failed before and waits for another delivery."""
    return _retry_of(ref, entry) is not None


def _retry_of(ref: LocalRef, entry: Any) -> Retry | None:
    retry = ref.life.retry if ref.life is not None else None
    return retry if retry is not None and retry.ask is entry else None

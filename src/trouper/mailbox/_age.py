"""How long the oldest message waits, without a time stamp on any message.

Only a mailbox whose turns are held up has mail that is old: a turn blocks, or its receiver has not
started or has failed. It is noted then what happens rarely: the first arrival in an empty queue,
and every few turns how much was queued at that time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import trio

from ._states import FAILED, STARTING

if TYPE_CHECKING:
    from ._mailbox import Mailbox


class Age:
    """What is known of the oldest message: it came at ``since`` or later."""

    __slots__ = ("left", "mark", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.mark = since  # when ``left`` messages were queued that still have to have their turn
        self.left = 0


def hold_up(box: Mailbox) -> None:
    """Note that no turn begins for a while."""
    if box.queue:
        box.age = Age(trio.current_time())
    else:
        if box.queue is None:
            box.new_queue()
        box.age, box.room = None, 0  # the next arrival goes the slow way and is noted


def note_arrival(box: Mailbox, q: deque[Any]) -> None:
    """Note the first message since the mailbox was held up, or nearly emptied meanwhile."""
    box.room = box.intake.room
    if not q:
        box.age = Age(trio.current_time())


def note_depth(box: Mailbox, q: deque[Any]) -> None:
    """Note after a blocked turn what has come meanwhile."""
    box.high_water = max(box.high_water, len(q))
    if len(q) < 2:
        box.room = 0  # when the last one has been taken out, the next arrival is noted


def note_turns(box: Mailbox, q: deque[Any], turns: int) -> int:
    """Account for so many turns in a carrier, and return how many it may take now."""
    box.processed += turns
    age = box.age
    if age is not None and q:
        age.left -= turns
        if age.left <= 0:  # what was queued at the mark has had its turn
            age.since, age.mark, age.left = age.mark, trio.current_time(), len(q)
    return turns


def note_taken(box: Mailbox, q: deque[Any]) -> None:
    """Account for one message that its receiver is about to take out by itself, in no worker."""
    box.high_water = max(box.high_water, len(q))
    note_turns(box, q, 1)
    if len(q) < 2:
        box.room = 0  # the next arrival is the oldest


def age_of(box: Mailbox) -> float:
    """Return how long the oldest message has waited at most; 0.0 while turns are not held up."""
    is_held_up = box.scope is not None or box.state in (STARTING, FAILED)
    if not is_held_up or box.age is None or not box.queue:
        return 0.0
    return trio.current_time() - box.age.since

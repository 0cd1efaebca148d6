"""Letting no further turn of a mailbox begin, without losing its mail."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ._states import FAILED

if TYPE_CHECKING:
    from ._mailbox import Mailbox


def suspend(box: Mailbox) -> bool:
    """Let no further turn of a RUNNING mailbox begin; it keeps its mail, and takes more.

    A turn that runs goes on, and its pass ends with it. Return whether the mailbox still stands on
    `ready`: then wait until the pass is over before it is resumed, or it would stand there twice.
    """
    is_listed = box.queued and box.worker is None
    box.state = FAILED
    box.queued = True
    if box.worker is not None:
        set_mail_aside(box)
    return is_listed


def set_mail_aside(box: Mailbox) -> None:
    """End the running pass with its present turn; the mail is kept for the next pass."""
    queue = box.queue
    if queue is not None:
        box.queue = deque(queue)  # what comes from now on must not reach the running pass either
        queue.clear()  # in place: that pass holds this very deque, and ends

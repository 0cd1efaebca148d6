"""Holding a mailbox for the restart of its receiver: no further turn, and no mail lost."""

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
    queue = box.queue
    if box.worker is not None and queue is not None:
        box.queue = deque(queue)  # what comes from now on must not reach the running pass either
        queue.clear()  # in place: that pass holds this very deque, and ends
    return is_listed

"""Those who wait for room in a full mailbox: senders in their tasks, and requests.

They stand in one line, oldest first. The worker moves the oldest entry in as it takes one out of
the queue, so that a tell cannot overtake a send that waits.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, wait_task_rescheduled

from ._ask import Ask
from ._intake import depth_of, insert

if TYPE_CHECKING:
    from ._mailbox import Mailbox


def park(box: Mailbox, key: Task | Ask, entry: Any) -> None:
    """Put an entry at the end of the line; its key is the task that waits, or the request."""
    if box.senders is None:
        box.senders = OrderedDict()
    box.senders[key] = entry


def forget(box: Mailbox, key: Task | Ask) -> None:
    """Take an entry out of the line, if it still stands there."""
    if box.senders is not None:
        box.senders.pop(key, None)
        if not box.senders:
            box.senders = None


async def wait_in_line(box: Mailbox, message: Any) -> None:
    """Stand in the line until the worker has moved this message in."""
    task = current_task()
    park(box, task, message)

    def abort(_: RaiseCancelT) -> Abort:
        forget(box, task)
        return Abort.SUCCEEDED

    await wait_task_rescheduled(abort)


def move_in(box: Mailbox) -> None:
    """Let the oldest entries in, as far as there is room."""
    senders, q = box.senders, box.queue
    assert q is not None
    room = box.capacity - depth_of(q)
    while senders and room > 0:
        key, entry = senders.popitem(last=False)
        if key is entry and entry.done:
            continue
        try:
            insert(box, q, entry)
        except Exception as error:  # of the priority: its sender hears of it, not who is served
            send_away(box, key, error)
            continue
        if key is not entry:
            box.let_go(key, None)  # in one step with the move: never both delivered and cancelled
        room -= 1
    if not senders:
        box.senders = None


def send_away(box: Mailbox, key: Task | Ask, error: BaseException) -> None:
    """End the waiting of one in the line."""
    forget(box, key)
    if isinstance(key, Ask):
        key.fail(error)
    else:
        box.let_go(key, error)

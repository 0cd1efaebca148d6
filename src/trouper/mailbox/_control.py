"""The control lane: what goes before user messages, with a burst limit so that neither starves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

from ._ask import message_of
from ._states import STOPPING

if TYPE_CHECKING:
    from ._mailbox import Mailbox

# After so many control messages in a row one user message has its turn.
CONTROL_BURST: Final = 8


class Control:
    """Stands in the user lane for everything that waits in the control lane of that mailbox."""

    __slots__ = ("box", "message")

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self.message: Any = None  # the one in hand, for the dead letter if its handler fails


@final
class Owed:
    """A control message that its receiver ordered itself; it may be called off until it is taken.

    The lane's bound does not count these: whoever orders them bounds the orders.
    """

    __slots__ = ("is_off", "is_taken", "message", "on_taken")

    def __init__(self, message: Any, on_taken: Callable[[], object] | None = None) -> None:
        self.message = message
        self.on_taken = on_taken
        self.is_off = False  # called off: nobody will see it
        self.is_taken = False

    def take(self) -> Any:
        """Return the message, which has its turn now."""
        self.is_taken = True
        if self.on_taken is not None:
            self.on_taken()
        return self.message


async def run_control(target: Any, marker: Control) -> None:
    """Handle up to `CONTROL_BURST` control messages; an internal entry of every handler table."""
    box = marker.box
    lane = box.control
    left = CONTROL_BURST
    box.processed -= 1  # the pass counts the marker
    try:
        while lane and left and box.doomed is None:
            left -= 1
            entry = lane.popleft()
            if entry.__class__ is Owed:
                if entry.is_off:
                    continue
                entry = entry.take()
            marker.message = message = entry
            box.processed += 1
            is_async, wants_context, fn = box.table.get(message.__class__) or box.find(message)
            result = fn(target, message, box.context) if wants_context else fn(target, message)
            if is_async:
                await result
    finally:
        if lane and box.control is lane:
            assert box.queue is not None
            # behind one user message, also when a handler failed: nothing in the lane is lost
            box.queue.insert(1, marker)


def lead(box: Mailbox, entry: Any) -> None:
    """Put an entry at the end of the control lane, whatever the lane's bound."""
    lane = box.control
    if lane is None:
        lane = box.control = deque()
    lane.append(entry)
    if len(lane) == 1:
        # One marker at the head of the user lane stands for the whole control lane, so that
        # the worker's loop needs no test per message to see it.
        q = box.queue if box.queue is not None else box.new_queue()
        q.appendleft(Control(box))
    if not box.queued:
        box.list_now()


def order(box: Mailbox, owed: Owed) -> None:
    """Let a receiver have what it ordered; one that is closed gets nothing more."""
    if box.state >= STOPPING:
        owed.is_off = True
    else:
        lead(box, owed)


def messages_of(lane: Iterable[Any] | None) -> Iterator[Any]:
    """Yield the messages that wait in a control lane, without what was called off."""
    for entry in lane or ():
        if entry.__class__ is not Owed:
            yield entry
        elif not entry.is_off:
            yield entry.message


def put_back(box: Mailbox, entries: Iterable[Any]) -> None:
    """Put entries in front of the user lane, in their order; control messages stay before them."""
    q = box.queue if box.queue is not None else box.new_queue()
    # after a burst the marker stands behind one message
    markers = [e for e in islice(q, 2) if e.__class__ is Control]
    if markers:
        del q[q[0].__class__ is not Control]
    if (priority := box.intake.priority) is None:
        q.extendleft(reversed([*entries]))
    else:
        mail = sorted([*entries, *q], key=lambda e: priority(message_of(e)))
        q.clear()
        q.extend(mail)
    q.extendleft(markers)
    if q and not box.queued:
        box.list_now()

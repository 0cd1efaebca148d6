"""The control lane: what goes before user messages, with a burst limit so that neither starves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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


async def run_control(target: Any, marker: Control) -> None:
    """Handle up to `CONTROL_BURST` control messages; an internal entry of every handler table."""
    box = marker.box
    lane = box.control
    left = CONTROL_BURST
    try:
        while lane and left and box.doomed is None:
            left -= 1
            marker.message = message = lane.popleft()
            is_async, wants_context, fn = box.table[message.__class__]
            result = fn(target, message, box.context) if wants_context else fn(target, message)
            if is_async:
                await result
    finally:
        if lane and box.control is lane:
            assert box.queue is not None
            # behind one user message, also when a handler failed: nothing in the lane is lost
            box.queue.insert(1, marker)

"""What a mailbox does with a message that may not simply go to the end of its queue.

The hot path of every sender tests one number, `Mailbox.room`. It is the capacity for the usual
mailbox, one where an order has to be kept, and none while a turn blocks, so that the first arrival
is noted. Everything else about bounds, order and age is in here and costs nobody else anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ..errors import MailboxFull
from ._age import note_arrival
from ._ask import Ask, message_of
from ._control import Control

if TYPE_CHECKING:
    from ._mailbox import Mailbox

Overflow: TypeAlias = Literal["reject", "drop_oldest", "drop_newest", "wait"]
Priority: TypeAlias = Callable[[Any], Any]

# A marker for the control lane stands at the head, or behind one message after a burst.
_HEAD: Final = 2
_RULES: Final[tuple[Overflow, ...]] = get_args(Overflow)


@dataclass(frozen=True, slots=True)
class Intake:
    """How a mailbox takes messages in.

    ``overflow`` says what becomes of a message that finds no room:

    * *reject*: `tell` and ask are refused with `MailboxFull`; `send` waits.
    * *wait*: `send` and ask wait; `tell`, which cannot wait, is refused with `MailboxFull`.
    * *drop_newest*: the last message in the order is dropped, usually the one that comes.
    * *drop_oldest*: the one that waited longest is dropped; with a priority, among the least
      urgent.

    ``priority`` is called with a message; lower values are served first, equal ones in order of
    arrival. What it returns for a message must not change while that waits.

    ``capacity`` is how many messages may wait, and ``said_in`` who was told so: whoever finds no
    room is told where to ask for more. One object serves all mailboxes with these rules.
    """

    overflow: Overflow = "reject"
    priority: Priority | None = None
    capacity: int = 0
    said_in: str = "its spawn"

    def sized(self, capacity: int, said_in: str = "its spawn") -> Intake:
        """Return these rules for so many messages."""
        if self.capacity == capacity:
            return self
        return replace(self, capacity=capacity, said_in=said_in)

    @property
    def room(self) -> int:
        """The length of a queue from which on putting is this module's business."""
        return self.capacity if self.priority is None else 1

    @property
    def is_dropping(self) -> bool:
        """Whether there is room for every message, at the cost of another."""
        return self.overflow in ("drop_oldest", "drop_newest")


REJECT: Final = Intake()


def make_intake(overflow: Overflow, priority: Priority | None) -> Intake:
    """Return the rules of one mailbox.

    Raises:
        ValueError: There is no such overflow rule.
        TypeError: ``priority`` is no function.
    """
    check_overflow(overflow)
    if priority is None:
        return REJECT if overflow == "reject" else Intake(overflow)
    if not callable(priority):
        raise TypeError(f"priority takes a function of the message, not {priority!r}")
    if iscoroutinefunction(priority):
        raise TypeError(f"priority= is called in the middle of a send: no coroutine, {priority!r}")
    return Intake(overflow, priority)


def check_overflow(overflow: str) -> None:
    """Refuse a rule that is none.

    Raises:
        ValueError: It is not one of the four.
    """
    if overflow not in _RULES:
        raise ValueError(f"overflow must be one of {', '.join(_RULES)}, not {overflow!r}")


def depth_of(q: deque[Any]) -> int:
    """Count the messages of a user lane; the marker of the control lane is none."""
    depth = len(q)
    if depth and q[0].__class__ is Control:
        return depth - 1
    return depth - 1 if depth > 1 and q[1].__class__ is Control else depth


def take_in(box: Mailbox, q: deque[Any], entry: Any) -> bool:
    """Put an entry where it belongs, dropping one if that is the rule.

    Return False, with nothing put in, when there is no room and nothing may be dropped.
    """
    if not box.room:  # the first arrival since a turn began to block
        note_arrival(box, q)
    if depth_of(q) < box.capacity:
        insert(box, q, entry)
        return True
    box.high_water = max(box.high_water, box.capacity)
    if not box.intake.is_dropping:
        return False
    insert(box, q, entry)
    drop = q.pop() if box.intake.overflow == "drop_newest" else _take_oldest(box, q)
    box.dropped += 1
    reason = f"mailbox full: {box.intake.overflow}"
    if drop.__class__ is Ask:
        drop.fail(full(box, f"dropped this request ({box.intake.overflow})"))
    else:
        box.not_taken(drop, reason)  # last: subscribers of dead letters may send in here
    return True


def insert(box: Mailbox, q: deque[Any], entry: Any) -> None:
    """Put an entry behind all that are as urgent or more; at the end without a priority."""
    priority = box.intake.priority
    if priority is None:
        q.append(entry)
        return
    urgency = priority(message_of(entry))  # also when it stands alone: its failure is its sender's
    first = next((i + 1 for i in range(min(_HEAD, len(q))) if q[i].__class__ is Control), 0)
    q.insert(bisect_right(q, urgency, lo=first, key=lambda e: priority(message_of(e))), entry)


def _take_oldest(box: Mailbox, q: deque[Any]) -> Any:
    first = next(i for i, entry in enumerate(q) if entry.__class__ is not Control)
    priority = box.intake.priority
    if priority is not None:
        least = priority(message_of(q[-1]))
        while priority(message_of(q[first])) != least:
            first += 1
    entry = q[first]
    del q[first]
    return entry


def full(box: Mailbox, what: str = "is full") -> MailboxFull:
    """Return the error of a sender for which there is no room."""
    return MailboxFull(
        f"{box.path} {what} ({box.capacity} messages); await send() to wait for room, "
        f"or give {box.intake.said_in} a larger mailbox=, or another overflow= rule",
        target=box.path,
        capacity=box.capacity,
    )

"""A message that instruments follow. Only a system that has instruments makes such entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._mailbox import Mailbox


class Traced:
    """Stands in a lane for a message, and carries what the instruments noted when it was sent.

    Its class has a handler of its own in the table of the receiver, so that neither senders nor
    workers need a test for it.
    """

    __slots__ = ("box", "journeys", "message")

    def __init__(self, box: Mailbox, message: Any, journeys: tuple[Any, ...]) -> None:
        self.box = box
        self.message = message
        self.journeys = journeys


def bare(message: Any) -> Any:
    """Return the message as its sender knows it."""
    return message.message if isinstance(message, Traced) else message

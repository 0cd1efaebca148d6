"""What may follow messages from their sender to their turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from ._ref import Ref

How: TypeAlias = Literal["tell", "send", "ask", "after", "every", "pipe"]
Outcome: TypeAlias = Literal["done", "rejected", "stashed", "failed", "cut"]


class Turn(Protocol):
    """One message in hand."""

    def leave(self) -> None:
        """What this task does from now on is not done for that message; called in its task."""

    def over(self, outcome: Outcome, error: BaseException | None) -> None:
        """Note the end of the turn.

        Args:
            outcome: *done*; *rejected* with a `Reject`; *stashed*, to have another turn; *failed*,
                which crashed the actor; *cut* by a stop, a link or a child's failure.
            error: What it raised, or what it was cut by, if that is an error.
        """


class Journey(Protocol):
    """One message on its way."""

    def sent(self, error: BaseException | None) -> None:
        """Note that the sender's call is over: delivered, answered or refused with an error."""

    def turn(self, target: Ref[Any]) -> Turn:
        """Note that its turn begins, and see to it that what this task does is done for it.

        Called in the task that will run the handler. A message that is put aside, delivered again
        or sent by a repeating timer has several turns.
        """
        ...

    def lost(self, reason: str) -> None:
        """Note that it became a dead letter."""


class Instrument(Protocol):
    """Follows the messages of a system; see ``instruments`` of `open_system`.

    All of it is called in the middle of a send or a turn: it must be short, and must not raise.
    """

    def sending(self, how: How, target: Ref[Any], message: object) -> Journey:
        """Note that a message sets out, in the task that sends it, before anything is checked.

        ``how`` is the verb that sends it; *after* and *every* are timers, *pipe* is the result of
        one. The runtime's own messages, such as `Terminated`, have no sender and are not followed.
        """
        ...

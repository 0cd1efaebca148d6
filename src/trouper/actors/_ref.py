"""What everybody but the runtime holds of an actor."""

from __future__ import annotations

from typing import Generic, NoReturn, Self

from ..mailbox import MailboxStatistics
from ..supervision import Exit
from ._messages import Asked, M_contra, R


class Ref(Generic[M_contra]):
    """An address of an actor that handles ``M``; it stays valid across restarts.

    Contravariant: a ``Ref[Add | Total]`` fits where a ``Ref[Total]`` is wanted. Compared by
    identity: one actor has one ref.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        """Return itself: an address, also in a message that is copied."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} is an address in this process; hand out a name, and let "
            "system.registry.whereis(name) find the ref"
        )

    @property
    def name(self) -> str:
        """Its name among its parent's children."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """Its name in the system: ``/system/parent/name``."""
        raise NotImplementedError

    @property
    def incarnation(self) -> int:
        """1 after the start, one more after each restart."""
        raise NotImplementedError

    def tell(self, message: M_contra, /) -> None:
        """Put a message into the mailbox and return at once.

        To a stopped actor it becomes a dead letter.

        Raises:
            MailboxFull: There is no room, and the mailbox's rule is *reject* or *wait*. A tell
                never waits; `send` does.
            NotHandled: The actor has no handler for this type.
        """
        raise NotImplementedError

    async def send(self, message: M_contra, /) -> None:
        """Put a message into the mailbox, waiting for room in arrival order.

        Cancelled while it waits, the message was not put in.

        Raises:
            ActorStopped: It has stopped, or stopped before there was room.
            AskCycle: Waiting for this room would wait for the sender itself.
            NotHandled: The actor has no handler for this type.
        """
        raise NotImplementedError

    async def ask(self, message: Asked[M_contra, R], /) -> R:
        """Send a request and wait for its answer.

        The caller's cancel scope is the deadline; beyond it stands the system's safety net. A
        cancelled ask that had not begun is skipped, one that had runs on and its answer is dropped.

        Raises:
            ActorStopped: It has stopped, or stopped before it answered.
            ActorCrashed: It failed while it handled this request; the cause is attached.
            AskCycle: Waiting would wait for the asker itself; ``path`` names the way round.
            AskUnknown: The safety net ended it. Outcome unknown.
            MailboxFull: There is no room, and the mailbox's rule is not *wait*.
            NotHandled: The actor has no handler for this type.
            Reject: The handler refused, definitely.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Ask it to stop after the message in hand; the rest become dead letters."""
        raise NotImplementedError

    def drain(self) -> None:
        """Ask it to take nothing more, handle what is queued, and stop."""
        raise NotImplementedError

    def kill(self) -> None:
        """Cancel the message in hand and stop. The ``stopping`` hook still runs."""
        raise NotImplementedError

    async def stopped(self) -> Exit:
        """Wait until it has stopped, hooks included, and return how it ended.

        Raises:
            AskCycle: Its end would wait for the caller.
        """
        raise NotImplementedError

    def statistics(self) -> MailboxStatistics:
        """Return counts and limits of its mailbox as they are now."""
        raise NotImplementedError

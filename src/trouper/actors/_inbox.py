"""What a protocol reads: the mailbox of its actor, in the order it chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Self, cast, final, overload

from trio.lowlevel import Task, reschedule

from ..errors import ActorCrashed, ActorStopped, InboxClosed
from ..mailbox import DRAINING, RUNNING, Ask, Control, Owed, move_in, note_taken, wait_in
from ..supervision import text_of
from ._callables import require_plain
from ._messages import Asked, M, Q, R, Request

if TYPE_CHECKING:
    from ._local import LocalRef

_NOTHING: Final = object()


@final
class Asking(Generic[Q, R]):
    """A request that was received: its message, and the way to answer whoever asked.

    A request that was only told is received as one too; its answer goes nowhere.
    """

    __slots__ = ("_ask", "_inbox", "_is_answered", "message")
    __match_args__ = ("message",)

    message: Q

    def __init__(self, inbox: Inbox[Any], message: Q, ask: Ask | None) -> None:
        self.message = message
        self._inbox = inbox
        self._ask = ask
        self._is_answered = False

    def __repr__(self) -> str:
        return f"Asking({self.message!r})"

    def reply(self, value: R) -> None:
        """Answer. Once; an answer that nobody waits for any more is dropped and counted.

        Raises:
            RuntimeError: It was answered already.
        """
        self._answer(value, None)

    def fail(self, error: Exception) -> None:
        """Answer with an error, most politely a `Reject`."""
        self._answer(None, error)

    def _answer(self, value: Any, error: Exception | None) -> None:
        if self._is_answered:
            raise RuntimeError(f"{self!r} was answered already")
        self._is_answered = True
        self._inbox.answer(self._ask, value, error)


class Inbox(Generic[M]):
    """Received selectively: what a `receive` does not want stays queued, in its order.

    Control messages (timers, `Terminated`, results of pipes) are looked at before user messages.
    The bound is that of the mailbox, what was left in it included.
    """

    def __init__(self, ref: LocalRef) -> None:
        self._ref = ref
        self._waiters: dict[Task, None] = {}
        self._open: dict[Ask, None] = {}  # received and not answered

    @overload
    async def receive(self) -> M | Asking[M, Any]: ...
    @overload
    async def receive(self, what: type[Asked[Q, R]], /) -> Asking[Q, R]: ...
    @overload
    async def receive(self, what: type[Q], /) -> Q: ...
    @overload
    async def receive(self, what: Callable[[M], bool], /) -> M | Asking[M, Any]: ...
    async def receive(self, what: Any = None) -> Any:
        """Wait for the first message of a type, or for which a predicate holds, and take it.

        A request comes as an `Asking`, anything else as itself. Cancelled while it waits, it has
        taken nothing, so a deadline is a cancel scope around it. A predicate must not send.

        Raises:
            InboxClosed: The actor is to stop, or restarts with a sibling; while it drains, when
                nothing that is queued fits. Not caught, it ends the protocol in order.
            TypeError: ``what`` is neither a class nor a function.
        """
        match = matcher(what)
        ref = self._ref
        dispatcher = ref.dispatcher
        dispatcher.credit -= 1
        if not dispatcher.credit:
            await dispatcher.pay()
        while ref.state <= DRAINING:
            entry = self._take(match)
            if entry is not _NOTHING:
                return self._received(entry)
            if ref.state != RUNNING:
                break
            if not ref.queue:
                ref.hold_up()
            ref.queued = False  # the next arrival lists the mailbox, which wakes this
            await wait_in(self._waiters)
        raise InboxClosed(f"{ref.path} is to stop", target=ref.path)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M | Asking[M, Any]:
        try:
            return await self.receive()
        except InboxClosed:
            raise StopAsyncIteration from None

    # --- called by the runtime --------------------------------------------------------------------

    def wake(self) -> None:
        """Let those who wait look again."""
        waiters, self._waiters = self._waiters, {}
        for task in waiters:
            reschedule(task)

    def answer(self, ask: Ask | None, value: Any, error: Exception | None) -> None:
        """Pass an answer on; the inside of `Asking`."""
        if ask is None:
            return
        self._open.pop(ask, None)
        if ask.done:
            self._ref.system.dispatcher.late += 1
        elif error is not None:
            ask.fail(error)
        else:
            ask.settle(value)

    def settle(self, error: BaseException | None) -> None:
        """Tell everybody whose request was received and not answered that nobody will."""
        path = self._ref.path
        for ask in self._open:
            if error is None:
                ask.fail(ActorStopped(f"{path} ended and had not answered", target=path))
            else:
                crashed = ActorCrashed(
                    f"{path} failed before it answered: {text_of(error)}", target=path
                )
                crashed.__cause__ = error
                ask.fail(crashed)
        self._open.clear()

    # --- taking -----------------------------------------------------------------------------------

    def _received(self, entry: Any) -> Any:
        ref = self._ref
        if entry.__class__ is Ask:
            if len(self._open) > ref.capacity:  # those who gave up are not to pile up
                self._open = {ask: None for ask in self._open if not ask.done}
            self._open[entry] = None
            return _asking(self, entry.message, entry)
        return _asking(self, entry, None) if isinstance(entry, Request) else entry

    def _take(self, match: Callable[[Any], bool]) -> Any:
        ref = self._ref
        lane, q = ref.control, ref.queue
        if lane:
            for i, entry in enumerate(lane):
                if entry.__class__ is Owed:
                    if entry.is_off:
                        continue
                    if match(entry.message):
                        self._pull(i)
                        return entry.take()
                elif match(entry):
                    self._pull(i)
                    return entry
        for i, entry in enumerate(q or ()):
            if entry.__class__ is Control:
                continue
            if entry.__class__ is Ask:
                if entry.done or not match(entry.message):
                    continue
            elif not match(entry):
                continue
            assert q is not None
            note_taken(ref, q)
            del q[i]
            if ref.senders:
                move_in(ref)
            return entry
        self._forget_abandoned()
        return _NOTHING

    def _pull(self, at: int) -> None:
        """Take one out of the control lane, and with the last one the marker of the lane."""
        lane, q = self._ref.control, self._ref.queue
        self._ref.processed += 1
        assert lane is not None
        assert q is not None
        del lane[at]
        if not lane:
            rest = [entry for entry in q if entry.__class__ is not Control]
            q.clear()
            q.extend(rest)

    def _forget_abandoned(self) -> None:
        """Give the room of requests back whose askers went away."""
        q = self._ref.queue
        if q is not None and any(entry.__class__ is Ask and entry.done for entry in q):
            rest = [entry for entry in q if entry.__class__ is not Ask or not entry.done]
            q.clear()
            q.extend(rest)
            if self._ref.senders:
                move_in(self._ref)


def _asking(inbox: Inbox[Any], message: Any, ask: Ask | None) -> Any:
    return Asking[Any, Any](inbox, message, ask)


def matcher(what: Any) -> Callable[[Any], bool]:
    """Return the predicate that `Inbox.receive` was asked for."""
    if what is None:
        return _any
    if isinstance(what, type):
        cls: type[Any] = what
        return lambda message: isinstance(message, cls)
    if not callable(what):
        raise TypeError(f"receive takes the class of a message or a predicate, not {what!r}")
    return require_plain("the predicate of receive", cast("Callable[[Any], bool]", what))


def _any(_: Any) -> bool:
    return True

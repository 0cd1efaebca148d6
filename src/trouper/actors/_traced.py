"""Refs and inboxes of a system that has instruments.

Other systems make none of these: tracing costs nothing where it is off, because what is off is not
there. Here a message travels in a `Traced` entry, and the handler of that class in the receiver's
table runs the real handler inside a turn that the instruments see.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, cast, final

from trio.lowlevel import Task, current_task, enable_ki_protection

from ..errors import Reject
from ..mailbox import CLOSED, STATE_NAMES, Ask, Handler, Intake, Mailbox, Table, Traced, bare
from ..supervision import unwrap
from ._inbox import Inbox
from ._instruments import How, Instrument, Journey, Outcome, Turn
from ._local import LocalRef
from ._stash import Stashed

# --- turns ----------------------------------------------------------------------------------------


@final
class TracedPlain(Traced):
    """A message whose handler is a plain function: it may be asked directly, and run inline."""

    __slots__ = ()


@final
class TracedAsync(Traced):
    """Any other message."""

    __slots__ = ()


def run_plain(_: Any, entry: Traced) -> Any:
    """Run the plain handler of a traced message; an entry of every traced table."""
    box = cast("Followed", entry.box)
    turns = begin_turns(entry)
    try:
        _, wants_context, fn = box.real_handler(entry.message)
        result = (
            fn(box.target, entry.message, box.context)
            if wants_context
            else fn(box.target, entry.message)
        )
    except BaseException as exc:
        end_turns(box, turns, exc)
        raise
    end_turns(box, turns, None)
    return result


async def run_async(_: Any, entry: Traced) -> Any:
    """Run the handler of a traced message, whichever kind it is."""
    box = cast("Followed", entry.box)
    turns = begin_turns(entry)
    try:
        is_async, wants_context, fn = box.real_handler(entry.message)
        result = (
            fn(box.target, entry.message, box.context)
            if wants_context
            else fn(box.target, entry.message)
        )
        if is_async:
            result = await result
    except BaseException as exc:
        end_turns(box, turns, exc)
        raise
    end_turns(box, turns, None)
    return result


def begin_turns(entry: Traced) -> list[Turn]:
    """Let the instruments know that the turn of a message begins, in this task."""
    return [journey.turn(cast("LocalRef", entry.box)) for journey in entry.journeys]


def end_turns(box: Mailbox, turns: list[Turn], raised: BaseException | None) -> None:
    """Let them know that it is over, and how."""
    outcome, error = _outcome(raised, box.doomed)
    for turn in reversed(turns):
        turn.leave()
        turn.over(outcome, error)


def _outcome(raised: BaseException | None, doomed: object) -> tuple[Outcome, BaseException | None]:
    """Say how a turn ended, as the accounting will see it: what cut it wins."""
    error = None if raised is None else unwrap(raised)
    if doomed is not None:
        return "cut", doomed if isinstance(doomed, BaseException) else error
    if raised is None:
        return "done", None
    if isinstance(error, Stashed):
        return "stashed", None
    return "rejected" if isinstance(error, Reject) else "failed", error or raised


# --- sending --------------------------------------------------------------------------------------


class TracedInbox(Inbox[Any]):
    """An inbox in which a message is in hand from its `receive` to the next one of that task.

    A request is in hand until it is answered.
    """

    def __init__(self, ref: LocalRef) -> None:
        super().__init__(ref)
        # What each task received last, and whether that is over only when it is answered.
        self._in_hand: dict[Task, tuple[list[Turn], bool]] = {}
        self._asked: dict[Ask, list[Turn]] = {}

    async def receive(self, what: Any = None, /) -> Any:
        """Put down the message in hand, and wait for another; see `Inbox.receive`."""
        self._put_down(current_task())
        return await super().receive(what)

    def answer(self, ask: Ask | None, value: Any, error: Exception | None) -> None:
        """Pass an answer on; it ends the turn of that request."""
        if ask is not None and ask in self._asked:
            _over(self._asked.pop(ask), *_outcome(error, None))
        super().answer(ask, value, error)

    def settle(self, error: BaseException | None) -> None:
        """End the turn of everything that is still in hand: the protocol has ended."""
        ending = _outcome(error, self._ref.doomed)
        for turns in self._asked.values():
            _over(turns, *ending)
        for turns, is_ask in self._in_hand.values():
            if not is_ask:
                _over(turns, *ending)
        self._asked.clear()
        self._in_hand.clear()
        super().settle(error)

    def _take(self, match: Callable[[Any], bool]) -> Any:
        return super()._take(lambda message: match(bare(message)))

    def _received(self, entry: Any) -> Any:
        is_ask = entry.__class__ is Ask
        traced = entry.message if is_ask else entry
        if not isinstance(traced, Traced):
            return super()._received(entry)
        turns = begin_turns(traced)
        if is_ask:
            entry.message = traced.message
            self._asked[entry] = turns
            found = super()._received(entry)
            if len(self._asked) > len(self._open):  # some gave up, and were forgotten
                for ask in [ask for ask in self._asked if ask not in self._open]:
                    _over(self._asked.pop(ask), "done", None)
        else:
            found = super()._received(traced.message)
        for task in [task for task in self._in_hand if _has_ended(task)]:
            self._put_down(task)
        self._in_hand[current_task()] = turns, is_ask
        return found

    def _put_down(self, task: Task) -> None:
        turns, is_ask = self._in_hand.pop(task, ([], False))
        if task is current_task():
            for turn in reversed(turns):
                turn.leave()
        if not is_ask:
            _over(turns, "done", None)


def _over(turns: list[Turn], outcome: Outcome, error: BaseException | None) -> None:
    for turn in reversed(turns):
        turn.over(outcome, error)


def _has_ended(task: Task) -> bool:
    return getattr(task.coro, "cr_frame", task) is None


class Followed(LocalRef):
    """What a ref does whose messages are followed; to be mixed into a kind of ref."""

    __slots__ = ()

    behaviour_table: Table

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.intake = _by_bare_message(self.intake)
        self.behaviour_table = self.table  # type: ignore[misc]  # a slot of the class mixed with
        self.table = self.accepts = _traced(self.table, run_plain)

    def adopt(self, table: Table) -> None:
        """Handle by the table of a next life, in which a plain handler may have become async."""
        plain = self.table[TracedPlain][2] if table is self.behaviour_table else run_async
        self.behaviour_table = table  # type: ignore[misc]
        self.table = _traced(table, plain)
        if self.accepts is not CLOSED:
            self.accepts = self.table

    def real_handler(self, message: Any) -> Handler:
        """Find the handler of a message as an untraced actor would."""
        return self.behaviour_table.get(message.__class__) or self.find(message)

    @enable_ki_protection
    def tell(self, message: Any, /) -> None:
        with self._sending("tell", message) as journeys:
            if self.accepts is CLOSED:
                self.not_taken(Traced(self, message, journeys), STATE_NAMES[self.state])
            else:
                super().tell(self._entry(message, journeys))

    @enable_ki_protection
    async def send(self, message: Any, /) -> None:
        with self._sending("send", message) as journeys:
            if self.accepts is CLOSED:
                self.handler_of(message)
            await super().send(self._entry(message, journeys))

    @enable_ki_protection
    async def ask(self, message: Any, /) -> Any:
        with self._sending("ask", message) as journeys:
            if self.accepts is CLOSED:
                self.handler_of(message)
            return await super().ask(self._entry(message, journeys))

    def parcel(self, how: How, message: Any) -> Any:
        """Let a message that this actor orders set out now, whenever it arrives."""
        with self._sending(how, message) as journeys:
            return self._entry(message, journeys)

    def not_taken(self, message: Any, reason: str) -> None:
        if isinstance(message, Traced):
            for journey in message.journeys:
                journey.lost(reason)
        super().not_taken(bare(message), reason)

    @contextmanager
    def _sending(self, how: How, message: Any) -> Generator[tuple[Journey, ...]]:
        instruments: tuple[Instrument, ...] = self.system.instruments
        journeys = tuple([each.sending(how, self, message) for each in instruments])
        error: BaseException | None = None
        try:
            yield journeys
        except BaseException as exc:
            error = exc
            raise
        finally:
            for journey in reversed(journeys):
                journey.sent(error)

    def _entry(self, message: Any, journeys: tuple[Journey, ...]) -> Traced:
        is_async = self.real_handler(message)[0]
        return (TracedAsync if is_async else TracedPlain)(self, message, journeys)


@final
class TracedRef(Followed):
    """A ref whose messages are followed."""

    __slots__ = ("behaviour_table",)

    inbox_type: ClassVar[type[Inbox[Any]]] = TracedInbox


def _traced(table: Table, plain: Callable[..., Any]) -> Table:
    is_async = plain is run_async
    return {
        **table,
        TracedPlain: (is_async, False, plain),
        TracedAsync: (True, False, run_async),
    }


def _by_bare_message(intake: Intake) -> Intake:
    priority = intake.priority
    if priority is None:
        return intake

    def by_bare_message(message: Any) -> Any:
        return priority(bare(message))

    return replace(intake, priority=by_bare_message)

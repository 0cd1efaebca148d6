"""Refs and inboxes whose every wait ends by an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

from trio.lowlevel import Task, current_task, enable_ki_protection, reschedule

from ...actors._inbox import Inbox, matcher
from ...actors._local import LocalRef
from ...actors._traced import (
    Followed,
    TracedAsync,
    TracedInbox,
    TracedPlain,
    run_async,
    run_plain,
)
from ...errors import InboxClosed
from ...mailbox import (
    CLOSED,
    DRAINING,
    RUNNING,
    STATE_NAMES,
    STOPPED,
    Ask,
    Handler,
    Mailbox,
    Table,
    Traced,
    wait_in,
)
from ...mailbox._room import forget, park
from ._letters import Letter, mail_of, message_of, pending, to_front

if TYPE_CHECKING:
    from ._engine import GatedDispatcher
    from ._gate import Gate

_STATE: Any = Mailbox.__dict__["state"]
_state_of: Callable[[Mailbox], int] = _STATE.__get__


def _gate_of(ref: LocalRef) -> Gate:
    return cast("GatedDispatcher", ref.dispatcher).gate


@final
class ScheduledInbox(TracedInbox):
    """An inbox whose reader gets a message when that is delivered, not when it arrives."""

    def __init__(self, ref: LocalRef) -> None:
        super().__init__(ref)
        self._wishes: dict[Task, Callable[[Any], bool]] = {}
        self._handed: dict[Task, Any] = {}
        _gate_of(ref).mail.open(cast("ScheduledRef", ref), self)

    async def receive(self, what: Any = None, /) -> Any:
        """Wait for a message that fits, and for its delivery; see `Inbox.receive`."""
        task, match, ref = current_task(), matcher(what), self._ref
        self._put_down(task)
        while ref.state == RUNNING or (ref.state == DRAINING and self._fits(match)):
            if not ref.queue:
                ref.hold_up()
            ref.queued = False
            self._wishes[task] = match
            try:
                await wait_in(self._waiters)
            finally:
                self._wishes.pop(task, None)
            if task in self._handed:
                return self._received(self._handed.pop(task))
        raise InboxClosed(f"{ref.path} is to stop", target=ref.path)

    def wishes(self) -> list[Callable[[Any], bool]]:
        """Return what those who wait would take."""
        return list(self._wishes.values())

    def hand(self, entry: Any) -> None:
        """Give an entry to the first of those who would take it."""
        message = message_of(entry)
        task, match = next((t, m) for t, m in self._wishes.items() if m(message))
        if entry in (self._ref.queue or ()):
            to_front(cast("ScheduledRef", self._ref), entry)
        self._handed[task] = self._take(match)
        del self._wishes[task], self._waiters[task]
        reschedule(task)

    def wake(self) -> None:
        """Let those who wait look again, when the actor is to end; mail is handed to them."""
        if self._ref.state != RUNNING:
            super().wake()

    def _fits(self, match: Callable[[Any], bool]) -> bool:
        entries = [*pending(self._ref.control), *mail_of(self._ref.queue)]
        return any(match(message_of(entry)) for entry in entries)


def _call_plain(_: Any, entry: Traced) -> Any:
    """Run the plain handler of a message; see `run_plain`."""
    box, message = cast("Gated", entry.box), entry.message
    _, wants_context, fn = box.real_handler(message)
    return fn(box.target, message, box.context) if wants_context else fn(box.target, message)


def _call_async(_: Any, entry: Traced) -> Any:
    """Return what to await for the handler of a message, whichever kind it is; see `run_async`."""
    box, message = cast("Gated", entry.box), entry.message
    is_async, wants_context, fn = box.real_handler(message)
    if not is_async:
        return run_async(_, entry)
    return fn(box.target, message, box.context) if wants_context else fn(box.target, message)


class Gated(Followed):
    """What a ref does whose waits are events; to be mixed into a kind of ref."""

    __slots__ = ()

    inbox_type: ClassVar[type[Inbox[Any]]] = ScheduledInbox

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._call_directly()
        _gate_of(self).mail.join(cast("ScheduledRef", self))

    def adopt(self, table: Table) -> None:
        super().adopt(table)
        self._call_directly()

    def _call_directly(self) -> None:
        """Make no turns that nobody sees: a gate alone wants to hear of none."""
        if self.is_followed:
            return
        was_plain = self.table[TracedPlain][2] in (run_plain, _call_plain)
        plain: Handler = (False, False, _call_plain)
        self.table[TracedAsync] = (True, False, _call_async)
        self.table[TracedPlain] = plain if was_plain else self.table[TracedAsync]

    @property
    def is_followed(self) -> bool:
        """Whether anybody but the gate follows messages."""
        return len(self.system.instruments) > 1

    @enable_ki_protection
    def tell(self, message: Any, /) -> None:
        me: Any = self
        if len(me.system.instruments) > 1:
            super().tell(message)
            return
        letter = me.dispatcher.gate.mail.sending("tell", me, message)
        if self.accepts is CLOSED:
            self.not_taken(Traced(self, message, (letter,)), STATE_NAMES[self.state])
        else:
            LocalRef.tell(self, self._entry(message, (letter,)))

    @enable_ki_protection
    async def ask(self, message: Any, /) -> Any:
        if self.is_followed:
            return await super().ask(message)
        me: Any = self
        letter = me.dispatcher.gate.mail.sending("ask", me, message)
        if self.accepts is CLOSED:
            self.handler_of(message)
        return await self._ask_in_turn(self._entry(message, (letter,)))

    now: int = _STATE
    """The state, for those who are not part of what is explored."""

    @property
    def state(self) -> int:
        """The state. Looking at it is touching the actor, and changing it more so."""
        me: Any = self
        gate = me.dispatcher.gate
        known = gate.mail.known.get(me)
        if known is None:
            gate.mail.looked(me)
        else:
            gate.step.looks.add(known.life)
        return _state_of(self)

    @state.setter
    def state(self, state: int) -> None:
        is_known = hasattr(self, "parent")
        _STATE.__set__(self, state)
        if is_known:
            gate = _gate_of(self)
            gate.mail.changed(cast("ScheduledRef", self))
            if state == STOPPED:
                gate.let_go(("end", self))

    async def _ask_in_turn(self, message: Any, put: Callable[[Ask], None] | None = None) -> Any:
        gate, waits = _gate_of(self), self.system.waits
        asker: Any = self.dispatcher.running_mailbox()
        ask = Ask(message, asker)
        if asker is not None:
            self._enter_wait(asker, ask)
        letter: Letter = message.journeys[0]
        assert letter.event is not None
        try:
            self.put_ask(ask)
            if not ask.done:
                event = letter.event
                await gate.hold(ask, event.target, event.what, give_up=ask.give_up, asked=event)
        finally:
            if asker is not None:
                waits.leave(asker, self)
            if ask in (self.senders or ()):
                self._leave(ask)()
        if ask.error is not None:
            raise ask.error
        return ask.value

    async def wait_for_room(self, message: Any) -> None:
        gate, waiter, task = _gate_of(self), self._waiter(), current_task()
        if waiter is not None:
            self.system.waits.enter(waiter, self)
        try:
            park(self, task, message)
            name = gate.owners.short(self.path)
            gate.note(shares=(f"mail of {name}",))
            await gate.hold(task, name, "room", give_up=self._leave(task))
        finally:
            if waiter is not None:
                self.system.waits.leave(waiter, self)

    def _leave(self, who: Task | Ask) -> Callable[[], None]:
        """Return what takes one out of the line for room: others move up."""

        def leave() -> None:
            gate = _gate_of(self)
            gate.note(shares=(f"mail of {gate.owners.short(self.path)}",))
            forget(self, who)

        return leave

    def let_go(self, sender: Task, error: BaseException | None) -> None:
        _gate_of(self).let_go(sender, error)

    async def wait_stopped(self) -> None:
        if self.state != STOPPED:
            gate = _gate_of(self)
            await gate.hold(("end", self), gate.owners.short(self.path), "its end")

    @property
    def is_busy(self) -> bool:
        """Whether a pass runs now. To look at that depends on the end of a turn."""
        gate = _gate_of(self)
        gate.note(looks=(f"turn of {gate.owners.short(self.path)}",))
        return self.worker is not None

    async def wait_pass_over(self) -> None:
        gate = _gate_of(self)
        name = gate.owners.short(self.path)
        gate.note(looks=(f"turn of {name}",))
        await gate.hold(("turn", self), name, "the end of its turn")

    def pass_over(self) -> None:
        gate = _gate_of(self)
        gate.note(shares=(f"turn of {gate.owners.short(self.path)}",))
        gate.let_go(("turn", self))


@final
class ScheduledRef(Gated):
    """The ref of an actor in a schedule."""

    __slots__ = ("behaviour_table",)

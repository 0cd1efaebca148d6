"""A bounded mailbox with two lanes, and the record a worker runs turns of.

Invariants:

* ``queued`` is True while the mailbox stands on `ready`, while one of its passes runs, and whenever
  ``state`` is not RUNNING. So `tell` needs one test to know that it must list the mailbox, and a
  False ``queued`` means: open, idle and empty. That is also what makes a direct ask legal.
* ``accepts`` is what senders may put in: the handler table while open, `CLOSED` otherwise. One
  lookup therefore refuses unknown types and stopped targets alike.
* ``senders`` is only ever non-empty while the queue is full (`_room`).
* ``room`` is the length of the queue from which on putting goes the slow way (`_intake`).
* Only the worker whose pass runs takes entries out; only the loop thread touches any of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outcome import Error, Value
from trio.lowlevel import Task, enable_ki_protection, reschedule

from ..errors import ActorStopped, NotHandled
from ._age import Age, age_of, hold_up
from ._ask import Ask
from ._control import Control, lead, messages_of
from ._intake import REJECT, Intake, full, take_in
from ._room import forget, park, send_away, wait_in_line
from ._states import DRAINING, RUNNING, STARTING, STATE_NAMES, STOPPING
from ._statistics import MailboxStatistics
from ._suspension import set_mail_aside
from ._table import CLOSED, Handler, Table
from ._traced import Traced
from ._waiting import wait_in

if TYPE_CHECKING:
    import trio

    from ._dispatcher import Dispatcher
    from ._worker import Worker


class Mailbox:
    """Queue, handlers and running turn of one receiver. Subclass it to say what a failure means."""

    __slots__ = (
        "accepts",
        "age",
        "context",
        "control",
        "dispatcher",
        "doomed",
        "dropped",
        "high_water",
        "intake",
        "processed",
        "queue",
        "queued",
        "room",
        "scope",
        "senders",
        "state",
        "table",
        "target",
        "waiters",
        "worker",
    )

    def __init__(
        self, dispatcher: Dispatcher, table: Table, capacity: int, intake: Intake = REJECT
    ) -> None:
        self.dispatcher = dispatcher
        self.table = self.accepts = table
        if intake.capacity != capacity:
            intake = intake.sized(capacity)
        self.intake = intake
        self.room = capacity if intake.priority is None else 1
        self.state = STARTING
        self.queued = True
        self.target: Any = None  # first argument of every handler
        self.context: Any = None  # third argument of those that take one
        self.queue: deque[Any] | None = None  # only while there is mail
        self.control: deque[Any] | None = None
        self.senders: OrderedDict[Any, Any] | None = None  # task or Ask -> entry, oldest first
        self.worker: Worker | None = None  # whose pass runs
        self.scope: trio.CancelScope | None = None  # bound when the handler blocks
        self.doomed: Any = None  # why the running turn is being cut; a BaseException fails it
        self.waiters: dict[Task, None] | None = None  # wait for the end of the running pass
        self.processed: int = 0
        self.dropped = 0
        self.high_water = 0
        self.age: Age | None = None  # of the oldest message; see `_age`

    # --- what a subclass decides ------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The name of this mailbox in errors, task dumps and traces."""
        raise NotImplementedError

    def turn_failed(self, entry: Any, error: BaseException) -> None:
        """Account for a turn that raised. Synchronous, and must not raise (derisk R3)."""
        raise NotImplementedError

    def turn_killed(self, entry: Any, error: BaseException | None) -> None:
        """Account for the end of a turn that was doomed. Clears ``doomed``; must not raise."""
        raise NotImplementedError

    def not_taken(self, message: Any, reason: str) -> None:
        """Account for a message that will never have its turn (a dead letter)."""
        raise NotImplementedError

    @property
    def capacity(self) -> int:
        """How many messages may wait."""
        return self.intake.capacity

    # --- sending ----------------------------------------------------------------------------------

    @enable_ki_protection
    def tell(self, message: Any, /) -> None:
        """Put a message in and return at once.

        Raises:
            MailboxFull: There is no room, and the rule is not to drop. A tell never waits.
            NotHandled: The receiver has no handler for this type.
        """
        if message.__class__ not in self.accepts and not self._admits(message):
            return
        q = self.queue
        if q is None:
            try:
                q = self.queue = self.dispatcher.spare.pop()
            except IndexError:
                q = self.queue = deque()
        elif len(q) >= self.room:
            self._take_in(q, message)
            return
        if not self.queued:
            d = self.dispatcher
            if d.parked:
                d.wake()  # first: on another thread it refuses, and nothing was put in
            self.queued = True
            d.ready.append(self)
        q.append(message)

    @enable_ki_protection
    async def send(self, message: Any, /) -> None:
        """Put a message in, waiting for room behind those who wait already.

        Cancelled while it waits, the message was not put in.

        Raises:
            ActorStopped: The receiver is closed, or closed while this waited.
            NotHandled: The receiver has no handler for this type.
        """
        d = self.dispatcher
        d.credit -= 1
        if not d.credit:
            await d.pay()  # before it is put in: a cancelled send sent nothing
        if message.__class__ not in self.accepts:
            self.handler_of(message)
        if d.parked:
            d.require_thread()
        q = self.queue
        if q is None:
            self.new_queue().append(message)
        elif len(q) < self.room:
            q.append(message)
        elif not take_in(self, q, message):
            await self.wait_for_room(message)
            return
        if not self.queued:
            self.queued = True
            d.ready.append(self)
            if d.parked:
                d.wake()

    def put_ask(self, ask: Ask) -> None:
        """Queue a request whose type was checked; on a full mailbox it waits, if that is the rule.

        Raises:
            MailboxFull: There is no room, and the rule is *reject*.
        """
        q = self.queue
        if q is None:
            self.new_queue().append(ask)
        elif len(q) < self.room:
            q.append(ask)
        elif not take_in(self, q, ask):
            if self.intake.overflow == "reject":
                self._overflow()
            park(self, ask, ask)
            return
        if not self.queued:
            self.list_now()

    def forget_ask(self, ask: Ask) -> None:
        """Drop a request that its asker abandoned before it found room."""
        forget(self, ask)

    @enable_ki_protection
    def post(self, message: Any) -> None:
        """Put a message in the control lane: it goes before what waits in the user lane.

        Raises:
            MailboxFull: The control lane is full too.
        """
        if message.__class__ not in self.accepts and not self._admits(message):
            return
        if self.control is not None and len(self.control) >= self.capacity:
            self._overflow()
        lead(self, message)

    def handler_of(self, message: Any) -> Handler:
        """Find who handles a message: its class, then the classes it derives from.

        Raises:
            ActorStopped: This mailbox is closed.
            NotHandled: Nobody does.
        """
        if self.accepts is CLOSED:
            raise ActorStopped(f"{self.path} is {STATE_NAMES[self.state]}", target=self.path)
        return self.find(message)

    def find(self, message: Any) -> Handler:
        """Find who handles a message, also while this mailbox is closed.

        Raises:
            NotHandled: Nobody does.
        """
        table = self.table
        for base in type(message).__mro__:
            handler = table.get(base)
            if handler is not None:
                table[type(message)] = handler  # the table of the class: found at once next time
                return handler
        known = ", ".join(sorted(t.__name__ for t in table if not issubclass(t, (Control, Traced))))
        text = f"{self.path} has no handler for {type(message).__qualname__}; it handles {known}"
        if isinstance(message, type) and message in table:
            text += f". {message.__qualname__} itself is no message: send an instance of it"
        raise NotHandled(text, target=self.path)

    def _admits(self, message: Any) -> bool:
        if self.accepts is CLOSED:
            self.not_taken(message, STATE_NAMES[self.state])
            return False
        self.handler_of(message)
        return True

    def new_queue(self) -> deque[Any]:
        """Take a queue for the mail that comes in now; an idle mailbox has none."""
        spare = self.dispatcher.spare
        self.queue = spare.pop() if spare else deque()
        return self.queue

    def _overflow(self) -> None:
        self.dropped += 1
        raise full(self)

    def _take_in(self, q: deque[Any], message: Any) -> None:
        if not take_in(self, q, message):
            self._overflow()
        if not self.queued:
            self.list_now()

    async def wait_for_room(self, message: Any) -> None:
        """Stand in line until the worker has moved this message in; the slow half of `send`."""
        await wait_in_line(self, message)

    def let_go(self, sender: Task, error: BaseException | None) -> None:
        """Wake a sender from the line: its message is in, or never will be."""
        reschedule(sender, Value(None) if error is None else Error(error))

    # --- life -------------------------------------------------------------------------------------

    def list_now(self) -> None:
        """Stand on `ready`, whatever ``queued`` says."""
        self.queued = True
        d = self.dispatcher
        d.ready.append(self)
        if d.parked:
            d.wake()

    def resume(self) -> None:
        """Begin to handle what is queued (after a start or a restart)."""
        self.state = RUNNING
        if self.queue:
            self.list_now()
        else:
            self.queued = False
            self.queue = None

    def hold_up(self) -> None:
        """Note that no turn begins for a while: from now on the age of the mail counts."""
        hold_up(self)

    def refuse_more(self) -> None:
        """Take nothing more, but handle what is queued."""
        if self.state == RUNNING:
            self.state = DRAINING
            self.accepts = CLOSED
            self._refuse_senders()

    def close(self, reason: str) -> None:
        """Shut the mailbox for good and drop what is queued, as one batch, before any more runs.

        A running turn goes on; it finds the queue empty and ends by itself.
        """
        if self.state >= STOPPING:
            return
        self.state = STOPPING
        self.queued = True
        self.accepts = CLOSED
        self._refuse_senders()
        entries = list(self._entries())
        for lane in (self.queue, self.control):
            if lane:
                lane.clear()  # in place: the running pass holds this very deque
        for entry in entries:
            self.drop(entry, reason)

    def drop(self, entry: Any, reason: str) -> None:
        """Tell whoever waits for this entry that it will never have its turn."""
        self.dropped += 1
        if entry.__class__ is not Ask:
            self.not_taken(entry, reason)
        elif not entry.done:
            entry.fail(ActorStopped(f"{self.path} {reason}", target=self.path))

    def _entries(self) -> Iterator[Any]:
        yield from messages_of(self.control)
        for entry in self.queue or ():
            if entry.__class__ is not Control:
                yield entry

    def _refuse_senders(self) -> None:
        for key in list(self.senders or ()):
            stopped = ActorStopped(f"{self.path} stopped before there was room", target=self.path)
            send_away(self, key, stopped)

    def doom(self, why: Any) -> None:
        """Cut the running turn. Legal at every moment; without a running turn it does nothing.

        A bound scope is cancelled now; a handler that has not blocked yet is cancelled when it
        first does, or found out at the end of its turn (derisk R2). No other turn begins in this
        pass: the end of the pass accounts for one entry only.
        """
        worker = self.worker
        if worker is not None:
            self.doomed = why
            set_mail_aside(self)
            if self.scope is not None:
                worker.burn()

    def pass_over(self) -> None:
        """Wake those who wait for the end of this pass."""
        waiters, self.waiters = self.waiters, None
        for task in waiters or ():
            reschedule(task)

    def pass_ended(self) -> None:
        """Account for the end of a pass in a mailbox that is not (or no longer) RUNNING."""
        self.pass_over()
        if self.state == DRAINING:
            if self.queue:
                self.list_now()
            else:
                self.queued = False
        # else it stays `queued`: who moves it on lists it

    async def wait_pass_over(self) -> None:
        """Wait for the end of the pass that runs or comes next; only once it is not RUNNING."""
        if self.waiters is None:
            self.waiters = {}
        await wait_in(self.waiters)

    def statistics(self) -> MailboxStatistics:
        """Return counts and limits of this mailbox as they are now."""
        depth = sum(1 for _ in self._entries())
        return MailboxStatistics(
            depth=depth,
            high_water=max(self.high_water, depth),
            capacity=self.capacity,
            overflow=self.intake.overflow,
            processed=self.processed,
            dropped=self.dropped,
            oldest_age=age_of(self),
            waiting_senders=len(self.senders or ()),
            state=STATE_NAMES[self.state],
        )

    @property
    def is_busy(self) -> bool:
        """Whether a pass runs now, blocked or not."""
        return self.worker is not None

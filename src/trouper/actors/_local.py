"""The runtime's record of one actor. It *is* the ref: one object, no indirection on the way in.

Field owners: the mailbox part belongs to senders and to the worker whose pass runs; ``state``,
``exit``, ``lives`` and ``life`` to the life-cycle; nothing else writes them. What most actors
never need - children, restart history, waiters for the end - is in `Life`, made on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from trio.lowlevel import checkpoint, current_task, enable_ki_protection

from .._trio import wait_in as wait_in_trap
from ..errors import ActorCrashed, ActorStopped
from ..mailbox import DRAINING, FAILED, STOPPED, STOPPING, Ask, Intake, Mailbox, Table, wait_in
from ..supervision import Exit
from ._accounting import turn_failed, turn_killed
from ._belongings import Belongings, end_instance
from ._dead_letters import DeadLetter
from ._inbox import Inbox
from ._life import Life, SpawnOptions
from ._lifecycle import escalate, request_stop
from ._redelivery import as_sent, is_again
from ._ref import Ref
from ._stash import Stashed, put_aside

if TYPE_CHECKING:
    from ._instruments import How
    from ._runtime import Runtime


class _Direct:
    """Stands for the worker while a direct ask runs a plain handler in the asker's own task."""

    task = None

    def burn(self) -> None:
        """Nothing to cancel: a plain handler cannot block."""


DIRECT: Any = _Direct()


class LocalRef(Mailbox, Ref[Any]):
    """Ref, mailbox and supervision record of an actor in this process."""

    __slots__ = (
        "args",
        "exit",
        "label",
        "life",
        "make",
        "options",
        "parent",
        "system",
    )

    inbox_type: ClassVar[type[Inbox[Any]]] = Inbox  # of a protocol

    def __init__(
        self,
        system: Runtime,
        parent: LocalRef | None,
        label: str | int,
        make: Callable[..., Any],
        args: tuple[Any, ...],
        options: SpawnOptions,
        table: Table,
        capacity: int,
        intake: Intake,
    ) -> None:
        Mailbox.__init__(self, system.dispatcher, table, capacity, intake)
        self.system = system
        self.parent = parent
        self.label = label  # its key among the children; a number when it was not named
        self.make = make
        self.args = args
        self.options = options
        self.life: Life | None = None
        self.exit: Exit | None = None

    def __repr__(self) -> str:
        return f"<Ref {self.path}>"

    # --- names ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        label = self.label
        if isinstance(label, str):
            return label
        return f"{getattr(self.make, '__name__', 'actor')}#{label}"

    @property
    def path(self) -> str:
        life = self.need_life()
        if life.path is None:
            names: list[str] = []
            ref: LocalRef | None = self
            while ref is not None:
                names.append(ref.name)
                ref = ref.parent
            life.path = "/".join(["", *names[::-1]])
        return life.path

    @property
    def incarnation(self) -> int:
        return 1 if self.life is None else self.life.lives

    def need_life(self) -> Life:
        """Return the rarely needed part of the record, made now if it was not there."""
        life = self.life
        if life is None:
            life = self.life = Life()
        return life

    def need_belongings(self) -> Belongings:
        """Return what this actor holds, made now if there was nothing."""
        life = self.need_life()
        if life.belongings is None:
            life.belongings = Belongings()
        return life.belongings

    @property
    def children(self) -> Iterable[LocalRef]:
        """The living children, in start order."""
        return list(self.life.children.values()) if self.life is not None else ()

    def descendants(self) -> list[LocalRef]:
        """The living actors under this one, parents first."""
        found = list(self.children)
        for ref in found:  # grows while it is walked
            found += ref.children
        return found

    def ending_siblings(self) -> list[LocalRef]:
        """Those whose ends come before the next life of this actor, if they restart together."""
        parent = self.parent
        if self.state != FAILED or parent is None or not parent.options.strategy.is_shared:
            return []
        return [ref for ref in parent.children if ref.state >= FAILED and ref is not self]

    @property
    def starts_nothing(self) -> bool:
        """Whether this instance takes on nothing more: it is in its `stopping` hook, or past it."""
        return self.state >= STOPPING or (self.state == FAILED and self.target is None)

    def restart_waits_for(self, asker: LocalRef) -> bool:
        """Whether this actor can live again only after a turn of ``asker`` has ended."""
        return self.system.waits.leads(self, asker)

    def adopt(self, table: Table) -> None:
        """Handle by this table: that of the first life, or of the next one."""
        self.table = table

    def parcel(self, how: How, message: Any) -> Any:
        """Return what is to arrive for a message that this actor orders itself."""
        return message

    # --- asking -----------------------------------------------------------------------------------

    @enable_ki_protection
    async def ask(self, message: Any, /) -> Any:
        handler = self.accepts.get(message.__class__) or self.handler_of(message)
        d = self.dispatcher
        if self.queued or handler[0] or not d.direct:
            return await self._ask_in_turn(message)
        # Direct ask: a plain handler of an idle actor cannot be suspended, so it may run right
        # here, as a turn of that actor, with no task switch.
        self.queued = True
        self.worker = DIRECT
        try:
            fn = handler[2]
            value = (
                fn(self.target, message, self.context) if handler[1] else fn(self.target, message)
            )
        except Stashed:
            self.worker = None
            self._direct_over()
            return await self._ask_in_turn(message, partial(put_aside, self))
        except BaseException as exc:
            if self.options.redeliver:
                return await self._ask_in_turn(message, partial(self._direct_put_back, exc))
            failure = self._direct_failed(message, exc)
            raise failure from failure.__cause__
        self.worker = None
        self.processed += 1
        if self.queue or self.doomed is not None or self.state or self.waiters is not None:
            self._direct_over()
        else:
            self.queued = False
        d.credit -= 1
        if not d.credit:
            await d.pay()
        return value

    def _direct_over(self) -> None:
        """End a direct turn during which something happened to this actor."""
        self.pass_over()
        is_cut = self.doomed is not None
        if is_cut:
            turn_killed(self, None, None)
        if self.state <= DRAINING:
            if self.queue:
                self.list_now()
            else:
                self.queued = False
        if is_cut:
            raise ActorStopped(f"{self.path} was killed while it handled this", target=self.path)

    def _direct_failed(self, message: Any, error: BaseException) -> BaseException:
        """Account for a direct turn that raised; return what its asker gets."""
        ask = Ask(message)
        self.worker = None
        turn_failed(self, ask, error)
        self.doomed = None
        self._direct_over()
        if not isinstance(error, Exception):
            return error  # KeyboardInterrupt hit the asker's own stack: its task must unwind too
        assert ask.error is not None
        return ask.error

    def _direct_put_back(self, error: BaseException, ask: Ask) -> None:
        """Account for a direct turn that raised in an actor that may have its message again."""
        self.worker = None
        turn_failed(self, ask, error)
        self.doomed = None
        self._direct_over()
        if not isinstance(error, Exception):
            raise error

    @enable_ki_protection
    async def _ask_in_turn(self, message: Any, put: Callable[[Ask], None] | None = None) -> Any:
        if message.__class__ not in self.accepts and put is None:
            self.handler_of(message)
        system = self.system
        task = current_task()
        d = self.dispatcher
        known = d.askers.get(task) or d.know(task)
        asker: Any = None  # an outsider: in nobody's turn
        if known.worker is not None or d.home.hosts or d.home.foreign is not None:
            asker = d.running_mailbox()
        ask = Ask(message, asker, self)
        if put is not None:
            put(ask)  # before anything may refuse the wait: the direct turn is accounted for
            if ask.error is not None:
                raise ask.error
        if asker is not None:
            self._enter_wait(asker, ask)
        net = system.asks
        net.pending[ask] = net.now() + net.limit
        if net.asleep:
            net.wake()
        try:
            if put is None:
                self.put_ask(ask)
            if not ask.done:  # from here to the answer it is `Ask.wait`, without its call
                ask.task = task
                known.waiting.ask = ask
                await wait_in_trap(known.trap)
        finally:
            known.waiting.ask = None
            net.forget(ask, None)
            if asker is not None:
                system.waits.leave(asker, self)
            if self.senders is not None:
                self.forget_ask(ask)
        if ask.error is not None:
            raise ask.error
        return ask.value

    def _enter_wait(self, asker: LocalRef, ask: Ask) -> None:
        """Let the graph know of a wait, or refuse it; a request refused here is skipped."""
        try:
            if self.state == FAILED and asker is not self and self.restart_waits_for(asker):
                raise ActorCrashed(
                    f"{self.path} is being restarted, which waits for {asker.path}",
                    target=self.path,
                )
            self.system.waits.enter(asker, self)
        except BaseException:
            ask.done = True
            raise

    def _waiter(self) -> LocalRef | None:
        return cast("LocalRef | None", self.dispatcher.running_mailbox())

    async def wait_for_room(self, message: Any) -> None:
        waiter = self._waiter()
        if waiter is None:
            return await super().wait_for_room(message)
        self.system.waits.enter(waiter, self)
        try:
            await super().wait_for_room(message)
        finally:
            self.system.waits.leave(waiter, self)

    # --- ending -----------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Fail this actor with an error from outside its turns; a running turn is cut."""
        escalate(self, error)

    def close(self, reason: str) -> None:
        """Shut the mailbox for good; the stash is dropped with the queue."""
        end_instance(self)
        super().close(reason)

    @enable_ki_protection
    def stop(self) -> None:
        request_stop(self, "stop")

    @enable_ki_protection
    def drain(self) -> None:
        request_stop(self, "drain")

    @enable_ki_protection
    def kill(self) -> None:
        request_stop(self, "kill")

    async def stopped(self) -> Exit:
        if self.state == STOPPED:
            await checkpoint()
        else:
            waiter = self._waiter()
            if waiter is not None:
                self.system.waits.enter(waiter, self)
            try:
                await self.wait_stopped()
            finally:
                if waiter is not None:
                    self.system.waits.leave(waiter, self)
        assert self.exit is not None
        return self.exit

    async def wait_stopped(self) -> None:
        """Wait for the end, whoever waits; the runtime's own waits are no edges of the graph."""
        if self.state != STOPPED:
            await wait_in(self.need_life().stop_waiters)

    # --- what the worker asks ---------------------------------------------------------------------

    def turn_failed(self, entry: Any, error: BaseException) -> None:
        turn_failed(self, entry, error)

    def turn_killed(self, entry: Any, error: BaseException | None) -> None:
        turn_killed(self, entry, error)

    def drop(self, entry: Any, reason: str) -> None:
        if is_again(self, entry):
            reason = "failed mid-turn"
        super().drop(as_sent(self, entry), reason)

    def not_taken(self, message: Any, reason: str) -> None:
        sender = self._waiter()
        self.system.dead_letters.add(
            DeadLetter(message, self.path, sender.path if sender is not None else None, reason)
        )

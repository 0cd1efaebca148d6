"""Spawning, for a system and for the context of an actor alike."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack, overload

from trio.lowlevel import enable_ki_protection

from ..mailbox import STARTING, Overflow, Priority
from ..supervision import Restart, Strategy
from ._messages import N

if TYPE_CHECKING:
    from ._actor import Actor
    from ._context import Context
    from ._local import LocalRef
    from ._ref import Ref

Ts = TypeVarTuple("Ts")


class Spawner:
    """Starts actors under one parent: the root, or the actor whose context this is."""

    __slots__ = ("_ref",)

    def __init__(self, ref: LocalRef) -> None:
        self._ref = ref

    @overload
    async def spawn(
        self,
        make: Callable[[Unpack[Ts]], Actor[N]],
        /,
        *args: *Ts,
        name: str | None = None,
        mailbox: int | None = None,
        restart: Restart = "never",
        strategy: Strategy | None = None,
        shutdown: float | None = None,
        overflow: Overflow | None = None,
        priority: Priority | None = None,
        redeliver: int = 0,
        dedicated: bool = False,
        significant: bool = False,
    ) -> Ref[N]: ...
    @overload
    async def spawn(
        self,
        make: Callable[[Context[N], Unpack[Ts]], Coroutine[Any, Any, None]],
        /,
        *args: *Ts,
        name: str | None = None,
        mailbox: int | None = None,
        restart: Restart = "never",
        strategy: Strategy | None = None,
        shutdown: float | None = None,
        overflow: Overflow | None = None,
        priority: Priority | None = None,
        dedicated: bool = False,
        significant: bool = False,
    ) -> Ref[N]: ...
    @enable_ki_protection
    async def spawn(
        self,
        make: Callable[[Unpack[Ts]], Any] | Callable[[Any, Unpack[Ts]], Any],
        /,
        *args: *Ts,
        name: str | None = None,
        mailbox: int | None = None,
        restart: Restart = "never",
        strategy: Strategy | None = None,
        shutdown: float | None = None,
        overflow: Overflow | None = None,
        priority: Priority | None = None,
        redeliver: int = 0,
        dedicated: bool = False,
        significant: bool = False,
    ) -> Ref[Any]:
        """Start an actor and return its ref once its ``started`` hook has returned.

        Args:
            make: The actor's class, or anything that makes an instance; called again at restarts.
                Or a coroutine function that takes a context and reads ``ctx.inbox``.
            args: Constructor arguments, or those of the coroutine function after the context;
                keyword ones go through ``functools.partial``.
            name: Unique among its siblings; made from the class's name by default.
            mailbox: Messages it may have waiting; the system's ``mailbox`` by default.
            restart: What happens when it fails: *permanent* and *transient* restart it, *never*
                stops it and fails its parent.
            strategy: How it supervises its own children; `one_for_one` by default.
            shutdown: Seconds for drain and running turn when it stops, and again for its
                ``stopping`` hook; the system's ``shutdown`` by default.
            overflow: What a full mailbox does; the system's ``overflow`` by default. *reject*:
                `tell` and `ask` raise `MailboxFull`, `send` waits. *wait*: `ask` waits too; `tell`
                cannot, and raises. *drop_oldest*, *drop_newest* make room; a dropped message is a
                dead letter, and its asker is told.
            priority: Called with each message: lower values are served first, equal ones in order.
            redeliver: How often a message that the actor crashed on is delivered again, before it
                is a dead letter and its asker is told. Needs ``restart``.
            dedicated: Whether its handlers run in a task of their own, in a copy of the spawner's
                context, and never in their asker's: context variables are its own then.
            significant: Its end may end the parent; see ``auto_shutdown`` of the parent's strategy.
                A stop by the parent itself does not count.

        Raises:
            StartFailed: The constructor or the hook raised; the cause is attached. The name is
                free again, and nothing is left of it.
            NameTaken: A sibling has this name.
            ShuttingDown: The system is stopping.
        """
        home = self._ref
        runtime = home.system
        dispatcher = runtime.dispatcher
        dispatcher.credit -= 1
        if not dispatcher.credit:
            await dispatcher.pay()  # before it is placed: a cancelled spawn leaves nothing
        mail = (overflow, priority, redeliver) if overflow or priority or redeliver else None
        ref = runtime.place(
            home, make, args, name, mailbox, restart, strategy, shutdown, significant, mail
        )
        if dedicated:
            ref.dispatcher = dispatcher.annex()
        if ref.state == STARTING:
            await runtime.bring_up(ref)
        return ref

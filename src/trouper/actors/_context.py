"""What a handler or a hook can do as its actor."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple, Unpack, cast, final

from .._holds import run_in_thread
from ..mailbox import STARTING, Overflow, Priority
from ..supervision import Restart, Strategy
from ._messages import M, N

if TYPE_CHECKING:
    from ._actor import Actor
    from ._local import LocalRef
    from ._ref import Ref

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

_log = logging.getLogger("trouper.actors")


class _ActorLog(logging.LoggerAdapter[logging.Logger]):
    """Names the actor in every record: in the text, and as ``record.actor``."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        extra: dict[str, Any] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return f"{extra['actor']}: {msg}", {**kwargs, "extra": extra}


@final
class Context(Generic[M]):
    """The actor's view of the system. One per actor; it stays the same across restarts."""

    __slots__ = ("_ref",)

    def __init__(self, ref: LocalRef) -> None:
        self._ref = ref

    @property
    def self_ref(self) -> Ref[M]:
        """The ref of this actor."""
        return cast("Ref[M]", self._ref)

    @property
    def parent(self) -> Ref[Any] | None:
        """The ref of the parent; None for an actor that the system itself spawned."""
        parent = self._ref.parent
        return None if parent is None or parent.parent is None else parent

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records name this actor."""
        return _ActorLog(_log, {"actor": self._ref.path})

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
    ) -> Ref[N]:
        """Start a child of this actor; see `ActorSystem.spawn`."""
        runtime = self._ref.system
        dispatcher = runtime.dispatcher
        dispatcher.credit -= 1
        if not dispatcher.credit:
            await dispatcher.pay()  # before it is placed: a cancelled spawn leaves nothing
        mail = overflow, priority, redeliver
        ref = runtime.place(self._ref, make, args, name, mailbox, restart, strategy, shutdown, mail)
        if ref.state == STARTING:
            await runtime.bring_up(ref)
        return ref

    async def to_thread(self, fn: Callable[[Unpack[Ts]], T], /, *args: *Ts) -> T:
        """Run blocking work in a thread of the system's own limiter.

        Cancelling it waits for the thread: a thread cannot be cut.
        """
        return await run_in_thread(fn, *args, limiter=self._ref.system.threads)

    async def aio(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], /, *args: *Ts) -> T:
        """Call an asyncio function and wait for its result, in the system's own asyncio loop.

        What it raises comes out as itself. Being cancelled cancels the asyncio task. The loop lives
        until every actor has stopped, so a client that was opened in `Actor.started` can be closed
        in `Actor.stopping`. Asyncio code may `tell` plainly, and ask with
        ``await trio_asyncio.trio_as_aio(ref.ask)(message)``.

        Raises:
            ModuleNotFoundError: The ``asyncio`` extra is not installed.
            RuntimeError: The asyncio side cancelled the call itself.
        """
        return await self._ref.system.asyncio.call(self._ref, fn, args)

"""What a handler or a hook can do as its actor."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, TypeVarTuple, Unpack, cast, final

from .._holds import run_in_thread
from ._callables import local
from ._messages import M
from ._pipes import start_pipe
from ._spawner import Spawner
from ._stash import stash, unstash_all
from ._timers import cancel_timer, set_timer
from ._watches import link, unlink, unwatch, watch

if TYPE_CHECKING:
    from ._inbox import Inbox
    from ._ref import Ref
    from ._registry import Registry
    from ._topics import Topics

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
class Context(Spawner, Generic[M]):
    """The actor's view of the system. One per actor; it stays the same across restarts."""

    __slots__ = ()

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
    def inbox(self) -> Inbox[M]:
        """What a protocol reads.

        Raises:
            RuntimeError: This actor has handlers.
        """
        inbox = self._ref.need_belongings().inbox
        if inbox is None:
            raise RuntimeError(f"{self._ref.path} has handlers; an inbox is a protocol's")
        return cast("Inbox[M]", inbox)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records name this actor."""
        return _ActorLog(_log, {"actor": self._ref.path})

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
            ExtraMissing: The ``asyncio`` extra is not installed.
            RuntimeError: The asyncio side cancelled the call itself.
        """
        return await self._ref.system.asyncio.call(self._ref, fn, args)

    # --- timers -----------------------------------------------------------------------------------

    def after(self, seconds: float, message: M, *, key: Hashable | None = None) -> Hashable:
        """Let a message come to this actor once, ``seconds`` from now; return the timer's key.

        It goes before user messages. A timer under a key that has one replaces it. Timers end with
        the instance: a crash, a restart and a stop cancel them, and one that was cancelled does not
        come even if its message stood in the mailbox. They run on trio's clock, so a test's virtual
        time moves them.

        Raises:
            ValueError: ``seconds`` is negative or not finite.
            NotHandled: This actor has no handler for the message.
            TimersFull: It has as many timers as its ``mailbox`` has room.
        """
        return set_timer(self._ref, seconds, message, key, repeats=False)

    def every(self, seconds: float, message: M, *, key: Hashable | None = None) -> Hashable:
        """Let a message come again and again, the first time ``seconds`` from now; return its key.

        Due times lie on a fixed grid, start + n * seconds, so lateness does not add up. No tick is
        made up for: while one waits to be handled the next ones are left out, and so are those that
        passed while the loop was busy. Otherwise as `after`; ``seconds`` is more than 0.
        """
        return set_timer(self._ref, seconds, message, key, repeats=True)

    def cancel_timer(self, key: Hashable) -> bool:
        """Cancel the timer of this key; return whether there was one still to come."""
        return cancel_timer(self._ref, key)

    # --- other actors -----------------------------------------------------------------------------

    def watch(self, ref: Ref[Any]) -> None:
        """Get exactly one `Terminated` when that actor has ended, at once if it has already.

        Restarts of it do not count, and restarts of this actor keep the watch. Watching twice is
        watching once; after the message a new watch gives a new message.

        Raises:
            NotHandled: This actor has no handler for `Terminated`.
            ValueError: It is this actor, or one of another system.
        """
        watch(self._ref, local(ref))

    def unwatch(self, ref: Ref[Any]) -> None:
        """End a watch: no `Terminated` comes any more, also if one waits already."""
        unwatch(self._ref, local(ref))

    def link(self, ref: Ref[Any]) -> None:
        """Tie this actor and another: if either crashes for good or is killed, the other fails.

        It fails with `LinkBroken` caused by the first failure, in mid-turn too; what that means is
        its supervisor's business. A stop, a drain, a shutdown and a restart break no link.

        Raises:
            LinkBroken: The other has crashed or was killed already.
            ValueError: It is this actor, or one of another system.
        """
        link(self._ref, local(ref))

    def unlink(self, ref: Ref[Any]) -> None:
        """Untie two linked actors; unlinked ones stay as they are."""
        unlink(self._ref, local(ref))

    @property
    def registry(self) -> Registry:
        """The system's names for actors."""
        return self._ref.system.registry

    @property
    def topics(self) -> Topics:
        """The system's topics."""
        return self._ref.system.topics

    # --- work and mail ----------------------------------------------------------------------------

    def pipe(
        self,
        fn: Callable[[Unpack[Ts]], Awaitable[T]],
        /,
        *args: *Ts,
        to: Callable[[T], M],
        failed: Callable[[Exception], M] | None = None,
    ) -> None:
        """Run ``fn(*args)`` beside the turns of this actor; ``to(result)`` comes as a message.

        The message goes before user messages. Pipes end with the instance: a crash, a restart and a
        stop cancel them and wait for them, and drop what they come to. A message that came before
        is mail like any other: the next instance handles it. Asks in a pipe are nobody's turn:
        asking this very actor is fine.

        Args:
            fn: The work; it runs in a task of its own.
            args: Its arguments.
            to: Makes the message, most simply the message's class.
            failed: Makes a message of an error; without it an error crashes this actor.

        Raises:
            PipesFull: It has as many pipes running as its ``mailbox`` has room.
        """
        start_pipe(self._ref, fn, args, to, failed)

    def stash(self) -> NoReturn:
        """End this turn and put its message aside, for `unstash_all`. Does not return.

        One who asked goes on waiting. A restart puts what was put aside in front of the queue, a
        stop makes it dead letters.

        Raises:
            StashFull: As much was put aside as the ``mailbox`` has room.
        """
        stash(self._ref)

    def unstash_all(self) -> int:
        """Put all that was put aside in front of the queue, in order; return how much it was."""
        return unstash_all(self._ref)

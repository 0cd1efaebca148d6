"""The ref of a durable actor: one that may be out of memory, and is woken by what is sent to it.

It is a `LocalRef`, with its place under the root, its restarts and its stops. Two things differ.
Its mailbox never stands on `ready` itself (``queued`` stays True): its desk does, or decides on a
request right where that is asked. And it may be *asleep*: running, but without a desk and out of
the tree.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

import trio
from trio.lowlevel import current_task, enable_ki_protection

from ..._trio import is_cancelled
from ...mailbox import DRAINING, RUNNING, STOPPING, Ask
from ...supervision import Exit
from .._lifecycle import EXITS, finish
from .._local import LocalRef
from ._unit import Units

if TYPE_CHECKING:
    from ._actor import DurableActor
    from ._home import Home


class Waking:
    """One way from asleep to awake; whoever wants the actor waits for it."""

    __slots__ = ("done", "drains", "error")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.drains = False  # once it is awake
        self.error: BaseException | None = None


class DurableRef(LocalRef):
    """Ref, mailbox and supervision record of the durable actor under one key."""

    __slots__ = ("__weakref__", "home", "home_class", "key", "waking")

    units_type: ClassVar[type[Units]] = Units

    def __init__(self, home: Home, cls: type[DurableActor[Any, Any]], key: str) -> None:
        system, rules = home.system, cls.__rules__
        assert rules is not None
        super().__init__(
            system,
            system.root,
            f"{cls.__name__}#{key}",
            home.desk_of,
            (key,),
            home.options,
            rules.table,
            system.capacity,
            system.intake,
        )
        self.home = home
        self.home_class = cls
        self.key = key
        self.waking: Waking | None = None
        self.state = RUNNING  # and asleep: there is no desk

    @property
    def is_asleep(self) -> bool:
        """Whether it is out of memory, and would be woken."""
        return self.state == RUNNING and self.target is None

    @property
    def is_ending(self) -> bool:
        """Whether it takes no more, and another one has its key once it has ended."""
        is_told = self.waking is not None and self.waking.drains
        return is_told or self.state in (DRAINING, STOPPING)

    # --- sending ----------------------------------------------------------------------------------

    @enable_ki_protection
    def tell(self, message: Any, /) -> None:
        if not self.queue:
            self.dispatcher.require_thread()  # before anything is put in
        super().tell(message)
        if self.queue:
            self._call()

    @enable_ki_protection
    async def send(self, message: Any, /) -> None:
        await super().send(message)
        if self.queue:
            self._call()

    def ask(self, message: Any, /) -> Any:  # a coroutine, which the checkers call differently
        return self._ask_in_turn(message)  # always, so without one more that finds it out

    def put_ask(self, ask: Ask) -> None:
        queue, desk = self.queue, self.target
        if desk is not None and not queue and self.may_take_now() and desk.take_now(ask):
            return
        if queue is None:
            spare = self.dispatcher.spare
            new: deque[Any] = spare.pop() if spare else deque()
            new.append(ask)
            self.queue = new
        elif len(queue) < self.room:
            queue.append(ask)
        else:
            super().put_ask(ask)
        if desk is not None and self.state < STOPPING:
            self.dispatcher.enlist(desk)
        else:
            self._call()

    def may_take_now(self) -> bool:
        """Whether a request may be decided on in the task that asks: one that is not cancelled."""
        return self.state == RUNNING and not is_cancelled(current_task())

    def _call(self) -> None:
        """Let the desk see to the mail; wake the actor if it has none."""
        desk = self.target
        if desk is not None:
            if not desk.listed and self.state < STOPPING:
                self.dispatcher.enlist(desk)
        elif self.state == RUNNING:
            self.home.wake(self)

    # --- life -------------------------------------------------------------------------------------

    def list_now(self) -> None:
        self.queued = True
        self._call()

    def resume(self) -> None:
        self.state = RUNNING
        self.queued = True
        self._call()

    async def wait_pass_over(self) -> None:
        desk = self.target
        if desk is not None and not self.dispatcher.closed:
            self.dispatcher.enlist(desk)  # every pass of one that is not running says so
        await super().wait_pass_over()

    @enable_ki_protection
    def stop(self) -> None:
        if not self._end_asleep("stop"):
            super().stop()

    @enable_ki_protection
    def drain(self) -> None:
        if self.waking is not None:
            self.waking.drains = True
        elif not self._end_asleep("drain"):
            super().drain()

    @enable_ki_protection
    def kill(self) -> None:
        if not self._end_asleep("kill"):
            super().kill()

    def fail(self, error: BaseException) -> None:
        if not self.is_asleep:  # else it is what a restart would make of it
            super().fail(error)

    def _end_asleep(self, kind: Any) -> bool:
        if self.is_asleep:
            self.end(EXITS[kind])
            return True
        return False

    def end(self, why: Exit) -> None:
        """End it now; for one that has no desk."""
        self.close(why.kind)
        finish(self, why)

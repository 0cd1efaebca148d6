"""Opening an actor system, using it, and leaving it in order."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    TypeVar,
    TypeVarTuple,
    final,
)

import trio
from trio.lowlevel import current_task, enable_ki_protection

from .. import _trio
from ..errors import ScopeLeak, WrongTask
from ..mailbox import Dispatcher, DispatcherStatistics, Job, Overflow
from ..supervision import Exit, Strategy, TreeNode, join_failures, one_for_one, unwrap
from ._dead_letters import DeadLetters
from ._lifecycle import shut
from ._messages import N
from ._parts import Parts
from ._runtime import Runtime, check_capacity, check_name, check_strategy
from ._seconds import check_seconds
from ._services import CloseMode, Service
from ._spawner import Spawner
from ._tree import actor_node
from ._verbs import DurableVerbs
from .durable_actors import DurableActor, Home

if TYPE_CHECKING:
    from ._durable import DurableSide
    from ._ref import Ref
    from ._registry import Registry
    from ._topics import Topics

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

log = logging.getLogger("trouper.actors")


@dataclass(frozen=True, slots=True)
class SystemStatistics:
    """One system, now: ``settled`` group children since it opened, ``running`` effects now."""

    actors: int
    dead_letters: int
    asks_pending: int
    settled: int
    running: int
    late_replies: int
    dispatcher: DispatcherStatistics


@final
class ActorSystem(DurableVerbs, Spawner):
    """A running system; made by `open_system`, valid inside its block."""

    def __init__(
        self, runtime: Runtime, durable: DurableSide | None, services: Sequence[Service]
    ) -> None:
        super().__init__(runtime.root)
        self._runtime = runtime
        self._durable = durable
        self._services = [*services] if durable is None else [durable, *services]
        self._opened: list[Service] = []
        self._home: Home | None = None  # of the durable actors, once there is one

    @property
    def name(self) -> str:
        """The name it was opened under."""
        return self._runtime.name

    @property
    def dispatcher(self) -> Dispatcher:
        """The ready queue and its workers."""
        return self._runtime.dispatcher

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages that never had their turn."""
        return self._runtime.dead_letters

    @property
    def registry(self) -> Registry:
        """Names for actors, anywhere in the tree."""
        return self._runtime.registry

    @property
    def topics(self) -> Topics:
        """Messages to whoever subscribed."""
        return self._runtime.topics

    # --- durable work -----------------------------------------------------------------------------

    async def actor(self, cls: type[DurableActor[Any, N]], key: str) -> Ref[N]:
        """Return the durable actor under a key: found, or spawned and recovered from the journal.

        It has recovered when this returns. One that left memory meanwhile keeps its ref, and wakes
        when something is sent to it.

        Args:
            cls: Its class.
            key: Its identity in this store, whatever the class; across restarts too.

        Raises:
            ActorMismatch: The key belongs to an actor of another class.
            StartFailed: Its history cannot be read; the cause is attached. Others go on.
            ValueRefused: A key that is none.
            ShuttingDown: The system is closing.
        """
        home = self._home
        if home is None:
            home = self._home = Home(self._runtime, self._require_durable().store)
        return await home.actor(cls, key)

    # --- looking ----------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End the system with this error, past every supervisor; raised at the ``async with``."""
        self._runtime.fail(error)

    def statistics(self) -> SystemStatistics:
        """Return counts of this system as they are now."""
        runtime = self._runtime
        return SystemStatistics(
            actors=sum(1 for _ in runtime.walk()),
            dead_letters=runtime.dead_letters.total,
            asks_pending=len(runtime.asks.pending),
            settled=0 if self._durable is None else self._durable.host.settled,
            running=0 if self._durable is None else self._durable.host.running,
            late_replies=runtime.dispatcher.late,
            dispatcher=runtime.dispatcher.statistics(),
        )

    def tree(self) -> TreeNode:
        """Return a snapshot of the supervision tree: services first, then actors."""
        runtime = self._runtime
        services = [service.tree() for service in self._opened]
        actors = [actor_node(ref, runtime.waits) for ref in runtime.root.children]
        state = "stopping" if runtime.closing else "running"
        return TreeNode(runtime.name, "system", state, children=(*services, *actors))

    # --- opening and closing; called by the block only --------------------------------------------

    async def open_services(self, nursery: trio.Nursery) -> None:
        """Open the services in order; called by the block only."""
        for service in self._services:
            self._opened.append(service)  # before: a half-open service is closed as well
            await service.open(nursery, self)

    async def _close(self, mode: CloseMode, why: Exit, done: trio.Event) -> None:
        """Close services in reverse, then the actors: a job, since Ctrl-C would cut the host."""
        try:
            for service in reversed(self._opened):
                try:
                    await service.close(mode)
                except Exception as exc:
                    log.exception("a service failed while it closed")
                    self.fail(exc)
            self._opened.clear()
            if self._home is not None and mode == "normal":
                await self._home.see_awake()
            await self._runtime.stop_all("drain" if mode == "normal" else "stop", why)
        finally:
            if self._home is not None:
                self._home.close()
            done.set()

    async def shut_down(self, mode: CloseMode, why: Exit) -> None:
        """Wait in the host task for the end of everything. It does no stopping itself."""
        runtime = self._runtime
        done = trio.Event()
        runtime.dispatcher.run_job(Job("!shutdown", self._close, mode, why, done))
        runtime.closing = True
        while not done.is_set():
            try:
                await done.wait()
            except KeyboardInterrupt as exc:  # the second Ctrl-C: cut turns, hooks still run
                runtime.failure = runtime.failure or exc
                for ref in runtime.walk():
                    shut(ref, "kill")
        runtime.asks.close()
        runtime.asyncio.close()
        runtime.timers.close()
        runtime.dead_letters.close()
        closed = False
        while not closed:
            try:
                await runtime.dispatcher.close()
                closed = True
            except KeyboardInterrupt as exc:
                runtime.failure = runtime.failure or exc


class Block:
    """The async context manager. Checks that the task that leaves is the one that entered."""

    def __init__(self, run: AbstractAsyncContextManager[ActorSystem]) -> None:
        self._run = run
        self._task: trio.lowlevel.Task | None = None

    # Protected: between two of our own steps a Ctrl-C would leave a nursery half closed. The body
    # is not, and the wait for the shutdown takes its Ctrl-C where it waits.
    @enable_ki_protection
    async def __aenter__(self) -> ActorSystem:
        if self._task is not None:
            raise RuntimeError("this block was entered before; call open_system again")
        self._task = current_task()
        return await self._run.__aenter__()

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        task = current_task()
        if task is not self._task:
            assert self._task is not None
            raise WrongTask(
                f"open_system was entered in task {self._task.name!r} and is left in "
                f"{task.name!r}; leave it where it was entered. The system is untouched"
            )
        return await self._run.__aexit__(kind, error, traceback)


@asynccontextmanager
async def run_system(
    name: str,
    *,
    durable: DurableSide | None = None,
    services: Sequence[Service] = (),
    strategy: Strategy | None = None,
    shutdown: float = 5.0,
    ask_safety: float = 30.0,
    mailbox: int = 1024,
    overflow: Overflow = "reject",
    seed: int | None = None,
    parts: Parts | None = None,
) -> AsyncGenerator[ActorSystem]:
    """Run a system around the body; the inside of `open_system`."""
    _trio.check()
    check_name("a system's", name)
    check_seconds("shutdown", shutdown)
    check_seconds("ask_safety", ask_safety)
    check_capacity(mailbox, overflow)
    check_strategy(strategy)
    error: BaseException | None = None
    runtime: Runtime | None = None
    try:
        async with trio.open_nursery() as nursery:
            body = trio.CancelScope()
            runtime = Runtime(
                name,
                nursery,
                body,
                strategy=strategy or one_for_one(),
                shutdown=shutdown,
                ask_safety=ask_safety,
                mailbox=mailbox,
                overflow=overflow,
                seed=seed,
                parts=parts or Parts(),
            )
            system = ActorSystem(runtime, durable, services)
            try:
                with body:
                    await system.open_services(nursery)
                    yield system
            except BaseException as exc:  # held back: the nursery would cancel the workers
                error = exc
            with trio.CancelScope(shield=True):
                await system.shut_down(*_how_it_ended(error, runtime.failure))
    except BaseExceptionGroup as group:
        # Only trio itself raises here: a worker ended with a nursery that a handler left open.
        leak = ScopeLeak("a handler left a nursery open; use `async with trio.open_nursery()`")
        leak.__cause__ = group
        assert runtime is not None
        runtime.failure = runtime.failure or leak
    failure = join_failures(f"system {name}", error, runtime.failure)
    if failure is not None:
        raise failure


def _how_it_ended(
    error: BaseException | None, failure: BaseException | None
) -> tuple[CloseMode, Exit]:
    if error is None and failure is None:
        return "normal", Exit("shutdown")
    if failure is None and error is not None and unwrap(error) is None:
        return "cancel", Exit("shutdown", error)
    return "error", Exit("shutdown", failure or error)

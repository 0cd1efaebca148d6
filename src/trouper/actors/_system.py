"""Opening an actor system, using it, and leaving it in order."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVarTuple, Unpack, final

import trio
from trio.lowlevel import current_task

from .. import _trio
from ..errors import ScopeLeak, WrongTask
from ..mailbox import Dispatcher, DispatcherStatistics, Job
from ..supervision import Exit, Restart, Strategy, TreeNode, join_failures, one_for_one, unwrap
from ._dead_letters import DeadLetters
from ._lifecycle import shut
from ._messages import N
from ._runtime import Runtime, check_capacity, check_seconds
from ._tree import actor_node

if TYPE_CHECKING:
    from ._actor import Actor
    from ._ref import Ref

Ts = TypeVarTuple("Ts")

CloseMode: TypeAlias = Literal["normal", "error", "cancel"]

log = logging.getLogger("trouper.actors")


class Service(Protocol):
    """Something that lives as long as the block: opened before its body, closed before the actors.

    ``open`` runs in the task that opens the system and may keep tasks in ``nursery``; ``close``
    runs once, on a worker, also when a later service failed to open. It ends those tasks. What it
    raises ends the system with that error, after everything else has closed.
    """

    async def open(self, nursery: trio.Nursery, system: ActorSystem) -> None: ...
    async def close(self, mode: CloseMode) -> None: ...
    def tree(self) -> TreeNode: ...


@dataclass(frozen=True, slots=True)
class SystemStatistics:
    """One system, now."""

    actors: int
    dead_letters: int
    asks_pending: int
    late_replies: int
    dispatcher: DispatcherStatistics


@final
class ActorSystem:
    """A running system; made by `open_system`, valid inside its block."""

    def __init__(self, runtime: Runtime, services: Sequence[Service]) -> None:
        self._runtime = runtime
        self._services = list(services)
        self._opened: list[Service] = []

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
    ) -> Ref[N]:
        """Start an actor and return its ref once its ``started`` hook has returned.

        Args:
            make: The actor's class, or anything that makes an instance; called again at restarts.
            args: Constructor arguments; keyword ones go through ``functools.partial``.
            name: Unique among its siblings; made from the class's name by default.
            mailbox: Messages it may have waiting; the system's ``mailbox`` by default.
            restart: What happens when it fails: *permanent* and *transient* restart it, *never*
                stops it and fails its parent.
            strategy: How it supervises its own children.
            shutdown: Seconds for drain and running turn when it stops, and again for its
                ``stopping`` hook; the system's ``shutdown`` by default.

        Raises:
            StartFailed: The constructor or the hook raised; the cause is attached. The name is
                free again, and nothing is left of it.
            NameTaken: A sibling has this name.
            ShuttingDown: The system is stopping.
        """
        runtime = self._runtime
        return await runtime.spawn(
            runtime.root, make, args, name, mailbox, restart, strategy, shutdown
        )

    def fail(self, error: BaseException) -> None:
        """End the system with this error, past every supervisor; raised at the ``async with``."""
        self._runtime.fail(error)

    def statistics(self) -> SystemStatistics:
        """Return counts of this system as they are now."""
        runtime = self._runtime
        return SystemStatistics(
            actors=sum(1 for _ in runtime.walk()),
            dead_letters=runtime.dead_letters.total,
            asks_pending=len(runtime.asks),
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
            await self._runtime.stop_all("drain" if mode == "normal" else "stop", why)
        finally:
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
        closed = False
        while not closed:
            try:
                await runtime.dispatcher.close()
                closed = True
            except KeyboardInterrupt as exc:
                runtime.failure = runtime.failure or exc


class _Block:
    """The async context manager. Checks that the task that leaves is the one that entered."""

    def __init__(self, run: AbstractAsyncContextManager[ActorSystem]) -> None:
        self._run = run
        self._task: trio.lowlevel.Task | None = None

    async def __aenter__(self) -> ActorSystem:
        self._task = current_task()
        return await self._run.__aenter__()

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
    services: Sequence[Service] = (),
    strategy: Strategy | None = None,
    shutdown: float = 5.0,
    ask_safety: float = 30.0,
    mailbox: int = 1024,
    seed: int | None = None,
) -> AsyncGenerator[ActorSystem]:
    """Run a system around the body; the inside of `open_system`."""
    _trio.check()
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
                shutdown=check_seconds("shutdown", shutdown),
                ask_safety=check_seconds("ask_safety", ask_safety),
                mailbox=check_capacity(mailbox),
                seed=seed,
            )
            system = ActorSystem(runtime, services)
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


def open_system(
    name: str,
    *,
    strategy: Strategy | None = None,
    shutdown: float = 5.0,
    ask_safety: float = 30.0,
    mailbox: int = 1024,
    seed: int | None = None,
) -> AbstractAsyncContextManager[ActorSystem]:
    """Open an actor system for the time of an ``async with`` block.

    Leaving the block stops every actor in reverse start order, shielded and within budgets; left
    normally, mailboxes are drained first. A failure that no supervisor took cancels the body and
    is raised at the block, unwrapped; together with an error of the body it is one group.

    Args:
        name: First part of every path.
        strategy: How the system supervises the actors that it spawns itself.
        shutdown: Seconds an actor gets for drain and running turn, and again for its hook.
        ask_safety: Seconds after which a pending ask ends with `AskUnknown`.
        mailbox: Messages an actor may have waiting, unless its spawn says otherwise.
        seed: Of the jitter of restarts.

    Raises:
        WrongTask: Left in another task than it was entered in. The system goes on.
    """
    return _Block(
        run_system(
            name,
            strategy=strategy,
            shutdown=shutdown,
            ask_safety=ask_safety,
            mailbox=mailbox,
            seed=seed,
        )
    )

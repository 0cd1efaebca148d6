"""The inside of an actor system: what the refs share.

Loop-owned state; writers: `fail` and the shutdown write ``failure`` and ``closing``, the life-cycle
writes the tree under ``root``.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, cast, final

import trio
from trio.lowlevel import enable_ki_protection

from ..errors import ActorStopped, NameTaken, ShuttingDown, StartFailed
from ..mailbox import (
    FAILED,
    REJECT,
    RUNNING,
    STOPPING,
    Job,
    Overflow,
    Priority,
    check_overflow,
    make_intake,
)
from ..supervision import (
    Exit,
    Restart,
    Strategy,
    check_restart,
    check_significant,
    one_for_one,
    text_of,
    unwrap,
)
from ._asyncio import AsyncioHost
from ._belongings import wait_pipes
from ._context import Context
from ._dead_letters import DeadLetters
from ._life import SpawnOptions
from ._lifecycle import StopKind, finish, run_started, run_stopping, stop_children
from ._local import LocalRef
from ._parts import Parts
from ._protocol import Protocol, is_protocol
from ._seconds import check_seconds

# What an actor's name must not hold: "/" parts a path, "#" marks a name made by the runtime.
RESERVED: Final = ("/", "#")


@final
class Runtime:
    """Dispatcher, wait-for graph, safety net, dead letters and the root of the tree."""

    def __init__(
        self,
        name: str,
        nursery: trio.Nursery,
        body: trio.CancelScope,
        *,
        strategy: Strategy,
        shutdown: float,
        ask_safety: float,
        mailbox: int,
        overflow: Overflow,
        seed: int | None,
        parts: Parts,
    ) -> None:
        self.name = name
        self.instruments = parts.instruments
        self.ref_type = parts.ref_type
        self.durable_ref_type = parts.durable_ref_type
        self.body = body  # cancelled by a failure that reached the root
        self.failure: BaseException | None = None
        self.closing = False
        self.capacity = mailbox
        self.intake = make_intake(overflow, None).sized(mailbox, "open_system()")
        # The strategy is the system's own; actors take over how often and how fast, not whom.
        theirs = one_for_one(intensity=strategy.intensity, backoff=strategy.backoff)
        self.options = SpawnOptions("never", theirs, shutdown, 0)
        self.random = random.Random(seed)
        self.dispatcher = parts.dispatcher(nursery, self.fail)
        self.dead_letters = DeadLetters()
        self.waits = parts.waits()
        self.asks = parts.asks(nursery, ask_safety)
        self.asyncio = AsyncioHost(nursery, self.fail)
        self.timers = parts.timers(nursery)
        self.registry = parts.registry()
        self.topics = parts.topics(self.dead_letters)
        self.threads = trio.CapacityLimiter(40)
        root = SpawnOptions("never", strategy, shutdown, 0)
        self.root = LocalRef(self, None, name, Runtime, (), root, {}, 1, REJECT)
        self.root.state = RUNNING
        self.root.need_life()
        parts.ready(self)

    def fail(self, error: BaseException) -> None:
        """End the system with this error: past every supervisor. The first one counts."""
        if self.failure is None:
            self.failure = error
        self.body.cancel()

    def end(self) -> None:
        """Leave the block as if its body had returned: significant actors have ended."""
        self.closing = True
        self.body.cancel()

    @enable_ki_protection
    def place(
        self,
        parent: LocalRef,
        make: Callable[..., Any],
        args: tuple[Any, ...],
        name: str | None,
        mailbox: int | None,
        restart: Restart,
        strategy: Strategy | None,
        shutdown: float | None,
        significant: bool,
        mail: tuple[Overflow | None, Priority | None, int] | None,
    ) -> LocalRef:
        """Make an actor under ``parent``; it runs already unless its class has a `started` hook."""
        if self.closing or (parent.state >= FAILED and parent.starts_nothing):
            raise ShuttingDown(f"{parent.path} is stopping; nothing new starts under it")
        options, capacity, intake = self.options, self.capacity, self.intake
        redeliver = 0
        if mail is not None:
            overflow, priority, redeliver = mail
            intake = make_intake(overflow or intake.overflow, priority)
            check_redeliver(redeliver, restart)
        if restart != "never" or strategy is not None or shutdown is not None:
            options = self._options(restart, strategy, shutdown, redeliver)
        if significant:
            check_significant(parent.options.strategy, restart)
            options = replace(options, significant=True)
        check_strategy(strategy)
        if mailbox is not None:
            capacity = check_capacity(mailbox)
        life = parent.life or parent.need_life()
        label: str | int
        if name is None:
            label = life.serial = life.serial + 1
        else:
            label = _free_name(parent, name)
        try:
            if type(make) is not type and is_protocol(make):
                make = Protocol(make, redeliver)
            target = make(*args)
            behaviour = target.__class__.__behaviour__
        except Exception as exc:
            raise _start_failed(parent, make, exc) from exc
        table = behaviour.table
        ref = self.ref_type(self, parent, label, make, args, options, table, capacity, intake)
        life.children[label] = ref
        if significant:
            life.significant += 1
        ref.target = target
        if behaviour.wants_context:
            ref.context = Context(ref)
        if not behaviour.has_started:
            ref.state = RUNNING
            ref.queued = False
        return ref

    @enable_ki_protection
    async def bring_up(self, ref: LocalRef) -> None:
        """Run the hook of a placed actor in the caller's task: its cancellation, its error."""
        spawner = ref.dispatcher.running_mailbox()
        if spawner is not None:
            self.waits.enter(cast("LocalRef", spawner), ref)
        error: BaseException | None = None
        cut: Exit | None = None
        try:
            ref.hold_up()
            try:
                cut = await run_started(ref)
            except BaseException as exc:
                error = exc
            if error is None and cut is None:
                ref.resume()
                return
            is_cancel = error is not None and unwrap(error) is None
            await self._undo(ref, cut or (Exit("stopped") if is_cancel else Exit("crashed", error)))
            if error is None:
                raise ActorStopped(f"{ref.path} was stopped while it started", target=ref.path)
            if isinstance(error, Exception):
                assert ref.parent is not None
                raise _start_failed(ref.parent, ref.make, error) from error
            raise error
        finally:
            del error
            if spawner is not None:
                self.waits.leave(cast("LocalRef", spawner), ref)

    async def _undo(self, ref: LocalRef, why: Exit) -> None:
        """End a start that came to nothing, in a job: a Ctrl-C ends this wait only."""
        ref.need_life().stopping = why  # nobody else drives its end
        ref.close("failed to start")
        done = trio.Event()
        self.dispatcher.run_job(Job((ref, "unstart"), self._unstart, ref, why, done))
        with trio.CancelScope(shield=True):
            await done.wait()

    async def _unstart(self, ref: LocalRef, why: Exit, done: trio.Event) -> None:
        try:
            await wait_pipes(ref)
            await stop_children(ref, "stop", Exit("shutdown", why.cause))
            if ref.need_life().is_up:
                await run_stopping(ref, why)
        finally:
            finish(ref, why)
            done.set()

    def _options(
        self, restart: Restart, strategy: Strategy | None, shutdown: float | None, redeliver: int
    ) -> SpawnOptions:
        check_restart(restart)
        if shutdown is None:
            shutdown = self.options.shutdown
        return SpawnOptions(
            restart,
            strategy or self.options.strategy,
            check_seconds("shutdown", shutdown),
            redeliver,
        )

    def walk(self) -> Iterator[LocalRef]:
        """Yield every living actor, parents first, the root left out."""
        pending = list(self.root.children)[::-1]
        while pending:
            ref = pending.pop()
            yield ref
            pending += list(ref.children)[::-1]

    async def stop_all(self, kind: StopKind, why: Exit) -> None:
        """Stop every actor in reverse start order; runs in a job."""
        self.root.state = STOPPING  # from here on nothing is restarted either
        await stop_children(self.root, kind, why)


def check_capacity(mailbox: Any, overflow: Overflow = "reject") -> int:
    """Refuse a capacity that is none, and a rule that is none.

    Raises:
        ValueError: It is not a whole number above 0, or there is no such rule.
    """
    check_overflow(overflow)
    if not isinstance(mailbox, int) or isinstance(mailbox, bool) or mailbox < 1:
        raise ValueError(f"mailbox must be 1 message or more, a whole number, not {mailbox!r}")
    return mailbox


def check_strategy(strategy: object) -> None:
    """Refuse what is no strategy, above all the function that makes one.

    Raises:
        TypeError: It is none.
    """
    if strategy is not None and not isinstance(strategy, Strategy):
        raise TypeError(f"strategy takes one_for_one() or another of its kind, not {strategy!r}")


def check_redeliver(redeliver: int, restart: Restart) -> None:
    """Refuse a number of redeliveries that is none, or that could never happen.

    Raises:
        ValueError: It is negative, or asked for without a restart.
    """
    if redeliver < 0:
        raise ValueError(f"redeliver must be 0 or more, not {redeliver}")
    if redeliver and restart == "never":
        raise ValueError(f"redeliver={redeliver} needs an actor that restarts; give it restart=")


def check_name(whose: str, name: object) -> str:
    """Refuse a name that could not be a part of a path.

    Raises:
        TypeError, ValueError: Saying whose name it is and what is wrong with it.
    """
    if not isinstance(name, str):
        raise TypeError(f"{whose} name is a str, not {name!r}")
    if not name or any(mark in name for mark in RESERVED):
        raise ValueError(f"{whose} name is not empty and has no '/' or '#': {name!r}")
    return name


def _free_name(parent: LocalRef, name: Any) -> str:
    label = check_name("an actor's", name)
    if label in parent.need_life().children:
        raise NameTaken(f"{parent.path}/{label} lives; stop it first or choose another name=")
    return label


def _start_failed(parent: LocalRef, make: Any, error: Exception) -> StartFailed:
    what = getattr(make, "__qualname__", repr(make))
    is_no_actor = isinstance(error, AttributeError) and error.name == "__behaviour__"
    if is_no_actor or not callable(make):
        return StartFailed(f"{parent.path}: spawn takes {_wanted(make, what)}")
    return StartFailed(f"{what} did not start under {parent.path}: {text_of(error)}")


def _wanted(make: Any, what: str) -> str:
    """Say what should have been given to `spawn` in place of what is no actor."""
    if hasattr(make, "__behaviour__"):
        cls = type(make).__qualname__
        return (
            f"the class and its arguments, spawn({cls}, ...), not an instance of {cls}: a restart "
            "makes a new one"
        )
    if hasattr(make, "__rules__"):
        cls = (make if isinstance(make, type) else type(make)).__qualname__
        return f"an Actor class; a durable one is found by its key, await system.actor({cls}, key)"
    if inspect.iscoroutine(make):
        make.close()  # or Python would warn that it was never awaited
        return f"the coroutine function and its arguments, spawn({what}, ...), not {what}(...)"
    if isinstance(make, LocalRef):
        return f"an Actor class; {make.path} is the ref of an actor that has been spawned"
    return f"an Actor class or a function that makes one, not {what}"

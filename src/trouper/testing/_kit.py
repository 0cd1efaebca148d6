"""One actor under test, with a system around it that nobody has to open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, TypeVarTuple, Unpack, final

import trio

from ..actors import Actor, ActorSystem, Asked, Ref, open_system
from ..supervision import Exit, Restart, Strategy, unwrap
from ._probe import WITHIN

N = TypeVar("N")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)
Ts = TypeVarTuple("Ts")


@final
class TestKit(Generic[N]):
    """Runs one actor for the time of an ``async with`` block and shows how it fares.

    ``async with TestKit(Counter, 10) as kit: assert await kit.ask(Total()) == 10``. The system runs
    beside the block: when the actor crashes, the block goes on, `crashed` returns the failure, and
    a failure that nobody looked at is raised at the end of the block.

    Args:
        make: The actor's class, or what makes an instance.
        args: Constructor arguments.
        restart: What happens when it fails; see `ActorSystem.spawn`.
        strategy: How it supervises its own children.
        options: Keyword arguments of `open_system`.

    Raises:
        StartFailed: It did not start.
    """

    __test__ = False  # pytest collects classes of this name

    def __init__(
        self,
        make: Callable[[Unpack[Ts]], Actor[N]],
        /,
        *args: *Ts,
        restart: Restart = "never",
        strategy: Strategy | None = None,
        **options: Any,
    ) -> None:
        self._spawn = partial(_spawn, make=make, args=args, restart=restart, strategy=strategy)
        self._options = options
        self._manager = trio.open_nursery()
        self._closing = trio.Event()
        self._ended = trio.Event()
        self._crash: BaseException | None = None
        self._is_seen = False  # somebody looked at the crash
        self._ref: Ref[N] | None = None
        self._system: ActorSystem | None = None

    async def __aenter__(self) -> Self:
        nursery = await self._manager.__aenter__()
        try:
            await nursery.start(self._run)
        except BaseException:
            await self._manager.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        await self._manager.__aexit__(None, None, None)
        if self._crash is not None and not self._is_seen:
            if error is None:
                raise self._crash
            error.add_note(f"the actor under test had crashed: {self._crash!r}")

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        has_started = False
        try:
            async with open_system("kit", **self._options) as self._system:
                self._ref = await self._spawn(self._system)
                task_status.started()
                has_started = True
                await self._closing.wait()
        except BaseException as exc:
            if not has_started or unwrap(exc) is None:
                raise
            self._crash = exc
        finally:
            self._ended.set()

    # --- the actor --------------------------------------------------------------------------------

    @property
    def ref(self) -> Ref[N]:
        """The ref of the actor under test."""
        assert self._ref is not None, "use it inside `async with TestKit(...) as kit:`"
        return self._ref

    @property
    def system(self) -> ActorSystem:
        """The system around it."""
        assert self._system is not None, "use it inside `async with TestKit(...) as kit:`"
        return self._system

    @property
    def actor(self) -> Any:
        """The instance itself, to look at its state; another one after a restart.

        Raises:
            LookupError: It has stopped; then there is none.
        """
        local: Any = self.ref
        if local.target is None:
            raise LookupError(f"{self.ref.path} has no instance any more: {local.exit}")
        return local.target

    def tell(self, message: N, /) -> None:
        """See `Ref.tell`."""
        self.ref.tell(message)

    async def send(self, message: N, /) -> None:
        """See `Ref.send`."""
        await self.ref.send(message)

    async def ask(self, message: Asked[N, R], /) -> R:
        """See `Ref.ask`."""
        return await self.ref.ask(message)

    # --- how it ended -----------------------------------------------------------------------------

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it lives."""
        local: Any = self.ref
        why: Exit | None = local.exit
        return why

    async def stopped(self, *, within: float = WITHIN) -> Exit:
        """Wait for its end and return how it ended.

        Raises:
            AssertionError: It still ran after ``within`` seconds.
        """
        with trio.move_on_after(within):
            return await self.ref.stopped()
        raise AssertionError(f"{self.ref.path} still runs after {within} s")

    async def crashed(self, kind: type[E], /, *, within: float = WITHIN) -> E:
        """Wait until it has failed for good and return the failure, which must be of this type.

        Raises:
            AssertionError: It failed otherwise, or not at all.
        """
        with trio.move_on_after(within):
            await self._ended.wait()
        if self._crash is None:
            raise AssertionError(f"{self.ref.path} did not crash within {within} s")
        if not isinstance(self._crash, kind):
            raise AssertionError(f"{self.ref.path} crashed otherwise") from self._crash
        self._is_seen = True
        return self._crash


async def _spawn(
    system: ActorSystem,
    *,
    make: Callable[..., Actor[N]],
    args: tuple[Any, ...],
    restart: Restart,
    strategy: Strategy | None,
) -> Ref[N]:
    return await system.spawn(make, *args, restart=restart, strategy=strategy)

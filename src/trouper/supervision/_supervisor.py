"""Supervises any trio child: async functions, each in a task of its own.

The service-nursery rule: a child is shielded from whatever cancels the block, and is cancelled by
its supervisor instead, in reverse start order, one after the other, each with a budget. That holds
when the block is left normally, by an error, by an outer cancel scope and by KeyboardInterrupt.
Nothing outlives the block.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVarTuple, Unpack, final

import trio

from ..errors import NameTaken, RestartLimitReached, ShuttingDown
from ._exit import Exit
from ._failures import join_failures, unwrap
from ._rules import (
    Forget,
    History,
    Restart,
    RestartAfter,
    Strategy,
    check_restart,
    decide,
    one_for_one,
)
from ._tree import TreeNode

Ts = TypeVarTuple("Ts")

log = logging.getLogger("trouper.supervision")


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How to start one child, and how to treat it."""

    name: str
    fn: Callable[..., Awaitable[object]]
    args: tuple[Any, ...] = ()
    restart: Restart = "permanent"
    shutdown: float = 5.0

    def __post_init__(self) -> None:
        check_restart(self.restart)
        if not self.shutdown >= 0:
            raise ValueError(f"shutdown must be 0 seconds or more, not {self.shutdown}")


class _Child:
    """A running child. Written by its own task and by its supervisor's shutdown."""

    __slots__ = ("ended", "exit", "history", "restarts", "scope", "spec", "state", "stopping")

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.state = "running"
        self.restarts = 0
        self.history = History()
        # One scope for all lives of the child and the waits between them.
        self.scope = trio.CancelScope(shield=True)
        self.stopping: Exit | None = None  # set before the scope is cancelled
        self.exit: Exit | None = None
        self.ended = trio.Event()


@final
class Supervisor:
    """Use it as ``async with Supervisor("name") as supervisor``; children stop when it is left.

    A child that fails beyond its policy cancels the body; its failure comes out of the block,
    unwrapped, or in one group with an error of the body.
    """

    def __init__(
        self,
        name: str = "supervisor",
        *,
        strategy: Strategy | None = None,
        seed: int | None = None,
    ) -> None:
        self.name = name
        self.strategy = strategy or one_for_one()
        self._random = random.Random(seed)
        self._children: dict[str, _Child] = {}
        self._closing = False
        self._failure: BaseException | None = None
        self._nursery: trio.Nursery | None = None
        self._body = trio.CancelScope()
        self._run = self._open()

    async def __aenter__(self) -> Supervisor:
        await self._run.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._run.__aexit__(kind, error, traceback)

    def start(
        self,
        fn: Callable[[Unpack[Ts]], Awaitable[object]],
        /,
        *args: *Ts,
        name: str | None = None,
        restart: Restart = "permanent",
        shutdown: float = 5.0,
    ) -> str:
        """Start a child and return its name.

        Args:
            fn: Called again with the same arguments at each restart.
            args: Its arguments.
            name: Unique among the children; made from the function's name by default.
            restart: *permanent*, *transient* or *never*.
            shutdown: Seconds it gets to end once it is cancelled, before it is reported as late.

        Raises:
            NameTaken: A living child has this name.
            ShuttingDown: The block is being left, or was not entered.
        """
        if self._nursery is None or self._closing:
            raise ShuttingDown(f"supervisor {self.name!r} is not open: nothing starts")
        if name is None:
            name = f"{getattr(fn, '__name__', 'child')}#{len(self._children) + 1}"
        if name in self._children:
            raise NameTaken(f"{self.name}/{name} is running already; choose another name=")
        child = _Child(ChildSpec(name, fn, args, restart, shutdown))
        self._children[name] = child
        self._nursery.start_soon(self._live, child, name=f"{self.name}/{name}")
        return name

    async def stop(self, name: str) -> Exit:
        """Stop one child, wait for its end and return how it ended.

        Raises:
            KeyError: There is no such child.
        """
        child = self._children[name]
        await self._stop(child, Exit("stopped"))
        await child.ended.wait()
        assert child.exit is not None
        return child.exit

    def tree(self) -> TreeNode:
        """Return a snapshot of this supervisor and its children."""
        children = (
            TreeNode(c.spec.name, "task", c.state, {"restarts": c.restarts})
            for c in self._children.values()
        )
        state = "stopping" if self._closing else "running"
        return TreeNode(self.name, "supervisor", state, children=tuple(children))

    # --- life of a child --------------------------------------------------------------------------

    async def _live(self, child: _Child) -> None:
        with child.scope:
            while True:
                error = await self._run_once(child)
                if child.stopping is not None:
                    break
                delay = self._after(child, error)
                if delay is None:
                    break
                child.state = "waiting"
                await trio.sleep(delay)
                child.state = "running"
                child.restarts += 1
        child.exit = child.exit or child.stopping or Exit("finished")
        del self._children[child.spec.name]
        child.ended.set()

    async def _run_once(self, child: _Child) -> BaseException | None:
        spec = child.spec
        try:
            await spec.fn(*spec.args)
        except BaseException as exc:
            error = unwrap(exc)
            if child.stopping is None:
                return error
            if error is not None:
                log.error("%s/%s failed while stopping", self.name, spec.name, exc_info=error)
                if not isinstance(error, Exception):
                    self._fail(error)
        return None

    def _after(self, child: _Child, error: BaseException | None) -> float | None:
        """Apply the verdict; return how long to wait before the next life, or None."""
        spec = child.spec
        if error is not None and not isinstance(error, Exception):
            child.exit = Exit("crashed", error)  # KeyboardInterrupt and SystemExit: never a restart
            self._fail(error)
            return None
        verdict = decide(
            self.strategy,
            spec.restart,
            child.history,
            failed=error is not None,
            now=trio.current_time(),
            chance=self._random.random(),
        )
        if isinstance(verdict, RestartAfter):
            child.history = verdict.history
            return verdict.delay
        if isinstance(verdict, Forget):
            child.exit = Exit("finished")
            return None
        if verdict.is_limit:
            limit = RestartLimitReached(
                f"{self.name}/{spec.name} needed more than {self.strategy.intensity.limit} "
                f"restarts in {self.strategy.intensity.period} s",
                target=f"{self.name}/{spec.name}",
            )
            limit.__cause__ = error
            error = limit
        child.exit = Exit("crashed", error)
        assert error is not None
        self._fail(error)
        return None

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._body.cancel()

    # --- the block --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[None]:
        error: BaseException | None = None
        async with trio.open_nursery() as self._nursery:
            try:
                with self._body:
                    yield
            except BaseException as exc:  # held back: the nursery would cancel the children
                error = exc
            with trio.CancelScope(shield=True):
                await self._shut_down(Exit("shutdown", self._failure or error))
        failure = join_failures(f"supervisor {self.name}", error, self._failure)
        if failure is not None:
            raise failure

    async def _shut_down(self, why: Exit) -> None:
        self._closing = True
        while self._children:
            child = next(reversed(self._children.values()))
            try:
                await self._stop(child, why)
                if not child.ended.is_set():
                    # Reported and passed over: the siblings get their turn, the block still waits.
                    for other in reversed(list(self._children.values())):
                        await self._stop(other, why)
                    await child.ended.wait()
            except KeyboardInterrupt as exc:  # the second one: cut everything that still runs
                self._failure = self._failure or exc
                for other in self._children.values():
                    self._cancel(other, why)

    def _cancel(self, child: _Child, why: Exit) -> None:
        if child.stopping is None:
            child.stopping = why
            child.state = "stopping"
            child.scope.cancel()

    async def _stop(self, child: _Child, why: Exit) -> None:
        self._cancel(child, why)
        with trio.move_on_after(child.spec.shutdown):
            await child.ended.wait()
        if not child.ended.is_set():
            log.warning(
                "%s/%s did not end within its shutdown budget of %s s; still waiting",
                self.name,
                child.spec.name,
                child.spec.shutdown,
            )

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
from types import TracebackType
from typing import TypeVarTuple, Unpack, final

import trio
from trio.lowlevel import disable_ki_protection, enable_ki_protection

from ..errors import NameTaken, RestartLimitReached, ShuttingDown
from ._child import Child, ChildSpec
from ._exit import Exit
from ._failures import join_failures, unwrap
from ._plan import check_significant, ends_parent, plan_restart
from ._rules import (
    Forget,
    History,
    Restart,
    RestartAfter,
    Strategy,
    comes_back,
    decide,
    one_for_one,
)
from ._tree import TreeNode

Ts = TypeVarTuple("Ts")

log = logging.getLogger("trouper.supervision")


@final
class Supervisor:
    """Use it as ``async with Supervisor("name") as supervisor``; children stop when it is left.

    A child that fails beyond its policy cancels the body; its failure comes out of the block,
    unwrapped, or in one group with an error of the body. When significant children end the block
    (``auto_shutdown`` of the strategy), the body is cancelled too, and the block is left normally.

    Args:
        name: In error texts, logs and task names.
        strategy: Whom a failure concerns, how often it may happen, and how long to wait before a
            new life; `one_for_one` by default.
        seed: Of the jitter of the back-off.
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
        self._children: dict[str, Child] = {}  # in start order, whatever was restarted since
        self._serial = 0  # numbers the unnamed children
        self._significant = 0  # of the living children
        self._history = History()  # of all children, when they restart together
        self._reports: dict[Child, BaseException | None] = {}  # ended, and to restart together
        self._mending: trio.CancelScope | None = None  # while a task works on the reports
        self._closing = False
        self._failure: BaseException | None = None
        self._nursery: trio.Nursery | None = None
        self._body = trio.CancelScope()
        self._run = self._open()

    # Protected, as the tasks below are: between two of our own steps a Ctrl-C would leave children
    # that nobody stops. It comes where we wait, in the body and in the code of a child.
    @enable_ki_protection
    async def __aenter__(self) -> Supervisor:
        if self._nursery is not None:
            raise RuntimeError(f"supervisor {self.name!r} was entered before; make another one")
        await self._run.__aenter__()
        return self

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._run.__aexit__(kind, error, traceback)

    @enable_ki_protection
    def start(
        self,
        fn: Callable[[Unpack[Ts]], Awaitable[object]],
        /,
        *args: *Ts,
        name: str | None = None,
        restart: Restart = "permanent",
        shutdown: float = 5.0,
        significant: bool = False,
    ) -> str:
        """Start a child and return its name.

        Args:
            fn: Called again with the same arguments at each restart.
            args: Its arguments.
            name: Unique among the children; made from the function's name by default.
            restart: *permanent*, *transient* or *never*.
            shutdown: Seconds it gets to end once it is cancelled, before it is reported as late.
            significant: The block may end with this child; see ``auto_shutdown`` of the strategy.

        Raises:
            ValueError: A significant child that could never end the block.
            NameTaken: A living child has this name.
            ShuttingDown: The block is being left, or was not entered.
        """
        if self._nursery is None or self._closing:
            raise ShuttingDown(f"supervisor {self.name!r} is not open: nothing starts")
        if name is None:
            while name is None or name in self._children:
                self._serial += 1
                name = f"{getattr(fn, '__name__', 'child')}#{self._serial}"
        if name in self._children:
            raise NameTaken(f"{self.name}/{name} is running already; choose another name=")
        child = Child(ChildSpec(name, fn, args, restart, shutdown, significant))
        if significant:
            check_significant(self.strategy, restart)
        self._children[name] = child
        self._significant += significant
        self._nursery.start_soon(self._live, child, name=f"{self.name}/{name}")
        return name

    @enable_ki_protection
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

    @enable_ki_protection
    async def _live(self, child: Child) -> None:
        with child.scope:
            error = await self._run_once(child)
            while child.stopping is None and await self._wait_for_life(child, error):
                child.restarts += 1
                error = await self._run_once(child)
        is_own_end = child.stopping is None and child.exit == Exit("finished")
        del self._children[child.spec.name]
        child.end()
        if child.spec.significant:
            self._significant -= 1
            if is_own_end and ends_parent(self.strategy.auto_shutdown, self._significant):
                self._closing = True
                self._body.cancel()

    async def _run_once(self, child: Child) -> BaseException | None:
        spec = child.spec
        try:
            with child.begin():
                await _run_code(spec)
        except BaseException as exc:
            error = unwrap(exc)
            if child.stopping is None and not child.is_held:
                return error
            if error is not None:
                log.error("%s/%s failed while stopping", self.name, spec.name, exc_info=error)
                if not isinstance(error, Exception):
                    self._fail(error)
        finally:
            child.life_over.set()
        return None

    async def _wait_for_life(self, child: Child, error: BaseException | None) -> bool:
        """Wait until the child may live again. Return False when it may not."""
        child.state = "waiting"
        if error is not None and not isinstance(error, Exception):
            child.exit = Exit("crashed", error)  # KeyboardInterrupt and SystemExit: never a restart
            self._fail(error)
            return False
        is_shared = self.strategy.is_shared
        if child.is_held:
            pass
        elif is_shared and comes_back(child.spec.restart, failed=error is not None):
            self._report(child, error)
        else:
            delay = self._delay(child, error)
            if delay is not None:
                await trio.sleep(delay)
            return delay is not None
        await child.go.wait()
        return child.exit is None

    def _delay(self, child: Child, error: BaseException | None) -> float | None:
        """Apply the verdict; return how long to wait before the next life, or None."""
        spec, is_shared = child.spec, self.strategy.is_shared
        verdict = decide(
            self.strategy,
            spec.restart,
            self._history if is_shared else child.history,
            failed=error is not None,
            now=trio.current_time(),
            chance=self._random.random(),
        )
        if isinstance(verdict, RestartAfter):
            if is_shared:
                self._history = verdict.history
            else:
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

    # --- restarting several together --------------------------------------------------------------

    def _report(self, child: Child, error: BaseException | None) -> None:
        """Leave it to one task, which restarts whom this end concerns; ends are served in order."""
        self._reports[child] = error
        if self._mending is None and not self._closing:
            assert self._nursery is not None
            self._mending = trio.CancelScope(shield=True)
            self._nursery.start_soon(self._mend, self._mending, name=f"{self.name} restarts")

    @enable_ki_protection
    async def _mend(self, scope: trio.CancelScope) -> None:
        with scope:
            while self._reports:
                # a list: the first of a dict whose beginning was deleted lies behind all the gaps
                for child in list(self._reports):
                    if child not in self._reports:
                        continue  # restarted with a sibling meanwhile
                    error = self._reports.pop(child)
                    if not child.is_ending:
                        await self._restart_with(child, error)
        self._mending = None

    async def _restart_with(self, child: Child, error: BaseException | None) -> None:
        """Restart a child that ended, and those whom the strategy takes along."""
        delay = self._delay(child, error)
        if delay is None:
            child.go.set()
            return
        policies: dict[Child, Restart] = {}
        for each in self._children.values():
            policies[each] = each.spec.restart
        plan = plan_restart(self.strategy, policies, child)
        for each in plan.stop:
            if each is child:
                continue
            if each in plan.start:
                await self._hold(each)
            else:
                await self._stop(each, Exit("shutdown", error))
                await each.ended.wait()
        with trio.move_on_after(delay):
            await child.ended.wait()  # a stop of the one that failed ends the wait
        for each in plan.start:
            if not each.is_ending:
                each.begun = trio.Event()
                each.go.set()
                await each.begun.wait()

    async def _hold(self, child: Child) -> None:
        """End this life of a child and leave it parked, for its next one."""
        await child.begun.wait()  # one that was started in this very tick
        child.is_held = True
        self._reports.pop(child, None)  # it ended by itself as well: one restart serves both
        child.life.cancel()
        with trio.move_on_after(child.spec.shutdown):
            await child.life_over.wait()
        if not child.life_over.is_set():
            self._log_late(child)
            await child.life_over.wait()

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
        if self._mending is not None:
            self._mending.cancel()
        # Nothing is added any more, so one list serves: the last of a dict whose end was deleted is
        # found only past all the gaps, each time.
        left = list(self._children.values())
        late: list[Child] = []
        while left or late:
            try:
                while left:
                    if not left[-1].ended.is_set():
                        await self._stop(left[-1], why)
                    child = left.pop()
                    if not child.ended.is_set():
                        late.append(child)  # reported; its siblings get their turn
                while late:
                    await late[-1].ended.wait()  # but the block waits
                    late.pop()
            except KeyboardInterrupt as exc:  # the second one: cut everything that still runs
                self._failure = self._failure or exc
                for other in self._children.values():
                    self._cancel(other, why)

    def _cancel(self, child: Child, why: Exit) -> None:
        if child.stopping is None:
            child.stopping = why
            child.state = "stopping"
            child.scope.cancel()

    async def _stop(self, child: Child, why: Exit) -> None:
        self._cancel(child, why)
        with trio.move_on_after(child.spec.shutdown):
            await child.ended.wait()
        if not child.ended.is_set():
            self._log_late(child)

    def _log_late(self, child: Child) -> None:
        log.warning(
            "%s/%s did not end within its shutdown budget of %s s; still waiting",
            self.name,
            child.spec.name,
            child.spec.shutdown,
        )


@disable_ki_protection
async def _run_code(spec: ChildSpec) -> None:
    """Run the code of a child: a Ctrl-C may interrupt it, never what is around it."""
    await spec.fn(*spec.args)

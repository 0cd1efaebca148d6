"""The tasks of one host: attempts of runners, and whatever else must end before the host does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import TypeAlias

import trio

from ._carriers import Carriers, Tasks
from ._outcome import Outcome
from ._retries import Retry
from ._runner import EffectContext, Runner, attempt
from ._signals import SignalTake
from ._waiting import INSIDE

log = logging.getLogger("trouper.groups")

Over: TypeAlias = Callable[[Outcome | SignalTake | None], None]
Again: TypeAlias = Callable[[Retry], None]


@trio.lowlevel.enable_ki_protection
def _hand_over(
    context: EffectContext,
    over: Over,
    again: Again | None,
    outcome: Outcome | SignalTake | Retry | None,
) -> None:
    # Ctrl-C may interrupt an effect, never the actor that takes its outcome.
    if not isinstance(outcome, Retry):
        over(outcome)
    elif again is None:
        over(outcome.failed)
    else:
        report_failure(context, outcome)
        again(outcome)


def report_failure(context: EffectContext, retry: Retry) -> None:
    """Say that an attempt failed and what follows: whoever waits learns of the last one only."""
    log.warning(
        "attempt %d of %s failed (%s); the next one is due in %.3g s",
        context.attempt,
        context.key,
        retry.failed.error.message,
        retry.after,
    )


class HostTasks:
    """Runs attempts in the host's nursery, never in a caller's task.

    What a task raises ends the system: an effect's failure never gets here.
    """

    def __init__(self, nursery: Tasks, fail: Callable[[BaseException], None]) -> None:
        self._nursery = nursery
        self._context = copy_context()  # of whoever opened the host: tasks begin in copies of it
        self._carriers = Carriers(nursery, self._context)
        self._fail = fail
        self._attempts: dict[EffectContext, bool] = {}  # running now -> is it releasable
        self.closing = False  # writer: `close`
        self._idle = trio.Event()
        self.running = 0  # tasks between start and their last step

    def attempt(
        self, runner: Runner, context: EffectContext, over: Over, again: Again | None = None
    ) -> None:
        """Run one attempt and hand its outcome to ``over``, or its wish for another to ``again``.

        None means that it ended without a terminal: interrupted, or stuck. Once closing, nothing
        starts. Without ``again`` every failure is the last.
        """
        if self.closing:
            context.interrupt()
        self.running += 1
        self._carriers.start(self._attempt, runner, context, over, again, name=context.name)

    # One coroutine with what `_tracked` does: attempts are the many.
    @trio.lowlevel.enable_ki_protection
    async def _attempt(
        self, runner: Runner, context: EffectContext, over: Over, again: Again | None
    ) -> None:
        try:
            self._attempts[context] = runner.releasable
            INSIDE.set(f"activation {context.key}")
            try:
                outcome = None if self.closing else await attempt(runner, context)
            finally:
                del self._attempts[context]
            _hand_over(context, over, again, outcome)
        except trio.Cancelled:
            raise
        except BaseException as error:
            self._fail(error)
        finally:
            self._ended()

    def start(self, fn: Callable[..., Awaitable[None]], *args: object, name: str) -> None:
        """Start a task of this host; `close` waits for all of them."""
        self.running += 1
        self._context.run(lambda: self._nursery.start_soon(self._tracked, fn, args, name=name))

    @trio.lowlevel.enable_ki_protection
    async def _tracked(self, fn: Callable[..., Awaitable[None]], args: Sequence[object]) -> None:
        try:
            await fn(*args)
        except trio.Cancelled:
            raise
        except BaseException as error:
            self._fail(error)
        finally:
            self._ended()

    def _ended(self) -> None:
        self.running -= 1
        if not self.running:
            self._idle.set()

    async def close(self, grace: float) -> None:
        """Let go of what only waits, give the rest ``grace`` seconds, then end it."""
        self.closing = True
        self._interrupt(only_releasable=True)
        with trio.move_on_after(grace):
            await self._all_ended()
        self._interrupt(only_releasable=False)
        await self._all_ended()
        self._carriers.close()

    def _interrupt(self, *, only_releasable: bool) -> None:
        for context, releasable in list(self._attempts.items()):
            if releasable or not only_releasable:
                context.interrupt()

    async def _all_ended(self) -> None:
        while self.running:
            self._idle = trio.Event()
            await self._idle.wait()

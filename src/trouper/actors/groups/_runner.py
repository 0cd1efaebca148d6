"""Runners: the one and only way from an envelope to code that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import trio

from ...errors import NoExecutor
from ._envelope import EffectEnvelope
from ._outcome import Cancelled, Completed, ErrorRecord, Failed, Outcome
from ._retries import Retry
from ._signals import SignalTake


class EffectContext:
    """What an effect may ask about the attempt it is.

    ``key`` is the idempotency key to hand to the outside world, the same in every attempt.
    ``attempt`` counts the executions whose start was claimed, from 1 and across crashes: those that
    ended with their process too. ``failures`` counts those that failed, which is what the effect's
    ``attempts=`` bounds. ``deadline`` is the time (of `trio.current_time`) at which this attempt is
    ended by the effect's ``timeout=``; infinity without one. ``due`` is the journaled instant (UTC)
    of a timer, or of an attempt that had to wait; 0 for any other.
    """

    __slots__ = (
        "_cancel_asked",
        "_scope",
        "attempt",
        "deadline",
        "due",
        "failures",
        "key",
        "stuck",
    )

    def __init__(self, key: str, attempt: int, due: float = 0.0, failures: int = 0) -> None:
        self.key = key
        self.attempt = attempt
        self.due = due
        self.failures = failures
        self.deadline = float("inf")  # writer: the runner
        self._scope = trio.CancelScope()
        self._cancel_asked = False
        self.stuck: Exception | None = None  # why this attempt can come to no end here

    @property
    def name(self) -> str:
        """What its task is called."""
        return f"effect {self.key}"

    @property
    def cancelled(self) -> bool:
        """Tell whether a journaled cancel reached this attempt. A shutdown is no cancel."""
        return self._cancel_asked

    @property
    def interrupted(self) -> bool:
        """Tell whether this attempt was told to end without a terminal."""
        return self._scope.cancel_called and not self._cancel_asked

    def cancel(self) -> None:
        """Deliver a journaled cancel: the attempt ends and its terminal decides (ruling 2)."""
        self._cancel_asked = True
        self._scope.cancel()

    def interrupt(self) -> None:
        """End the attempt without a terminal: shutdown, or a lost claim."""
        self._scope.cancel()


class Stuck(Exception):
    """Raised by a runner whose work cannot go on here: a routing fact, no outcome.

    Without a reason the system closes, and the work goes on at the next open.
    """

    def __init__(self, reason: Exception | None) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Runner(Protocol):
    """Runs one envelope once; a retry resolves a fresh one.

    ``releasable`` says that it only waits for a journaled fact - a timer, a child activation - so
    that a closing system lets go of it at once instead of spending its budget on it.
    """

    @property
    def releasable(self) -> bool:
        """Tell whether it only waits for a journaled fact."""
        ...

    async def run(self, ctx: EffectContext) -> Any:
        """Return a value or an `Outcome`, or raise; `Retry` asks for one more attempt."""
        ...


RunnerResolver: TypeAlias = Callable[[EffectEnvelope], Runner | None]


async def attempt(runner: Runner, ctx: EffectContext) -> Outcome | Retry | SignalTake | None:
    """Run one attempt to its outcome, or to None when it was interrupted.

    An attempt that a cancel reached is the last one, whatever it came to.

    Only an `Exception` is an outcome. What is not - KeyboardInterrupt, SystemExit, MemoryError -
    travels on and ends the system; nothing is journaled for it.
    """
    result: Any = None
    ended = False
    try:
        with ctx._scope:  # pyright: ignore[reportPrivateUsage] - not for effects to enter
            result = await _run(runner, ctx)
            ended = True
    except MemoryError:
        raise
    except Stuck as stuck:
        ctx.stuck = stuck.reason
        return None
    except Exception as error:
        if ctx.interrupted:
            return None  # raised on the way out of a shutdown: no terminal (ruling 14)
        return Failed(ErrorRecord.of(error))
    if not ended:
        return Cancelled() if ctx.cancelled else None
    if isinstance(result, Retry):
        if ctx.interrupted:
            return None
        return result.failed if ctx.cancelled else result
    if isinstance(result, Completed | Failed | Cancelled):
        return result
    if isinstance(result, SignalTake):
        return Cancelled() if ctx.cancelled else None if ctx.interrupted else result
    return Completed(result)


@trio.lowlevel.disable_ki_protection
async def _run(runner: Runner, ctx: EffectContext) -> Any:
    """Run what an effect is: a Ctrl-C may interrupt it, never what is around it."""
    return await runner.run(ctx)


def no_executor(envelope: EffectEnvelope) -> NoExecutor:
    """Build the error for an envelope that nothing here can run."""
    return NoExecutor(
        f"nothing here runs {envelope.kind} {envelope.name!r} ({envelope.replay_key!r}); import or "
        "list it in open_system, and give what its kind runs in, such as cells= for a guest",
        replay_key=envelope.replay_key,
    )

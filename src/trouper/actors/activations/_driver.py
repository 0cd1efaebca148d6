"""The driver: steps a durable function by hand, synchronously, inside its activation's turn.

The coroutine never belongs to trio. While it runs, trio is out of sight (`_trio.TrioHidden`), so a
trio primitive raises at the user's own line before it touches the worker that carries the turn; any
other foreign await arrives here as something that is not a `Call`. Both end in
`NondeterministicAwait` with that line. The function goes on from answers that the history holds,
and stops at the first step that has none.
"""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from ..._trio import call_hidden, is_hidden, is_hidden_error
from ...errors import ActivationError, HistoryLimit, NondeterministicAwait, ReplayMismatch
from ..groups import Cancelled, Completed, ErrorRecord, Failed, Gathered, Outcome
from . import signals
from ._activation import Activation, Position
from ._call import Call, Step
from ._history import History, Offer, offer

SWALLOW_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Ended:
    """The function is over; its outcome may be journaled."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Waiting:
    """The function waits for this step."""

    step: Offer


@dataclass(frozen=True, slots=True)
class Stuck:
    """The function cannot go on here. Nothing is journaled for it; callers get the error."""

    error: ActivationError | ReplayMismatch


class Driver:
    """One run of one durable function in memory."""

    def __init__(
        self,
        fn: Callable[..., Any],
        key: str,
        scope: str,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        history: History,
        started_at: float,
        history_limit: int,
    ) -> None:
        self._fn = fn
        self._scope = scope
        self.history = history
        self._limit = history_limit
        self._context = contextvars.copy_context()
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._leaving = 0
        self._is_stepping = False
        self._position = Position(started_at)
        self._act = Activation(key, scope, self._position, self._enter)
        self._coro = fn(self._act, *args, **kwargs)
        self._number = 0
        self._effects = 0  # offered so far: a group of n costs n
        self._known = len(history.steps)  # steps that an earlier process offered
        self._wait: Offer | None = None
        self._cancelled = False
        self.cancel_step = -1  # writer: the activation's actor
        self.decided: list[Offer] = []  # group steps answered since the actor last looked
        self.zombie = False

    @property
    def waiting(self) -> Offer | None:
        """Return the step that the function waits for."""
        return self._wait

    def advance(self) -> Ended | Waiting | Stuck:
        """Go on from recorded answers until the function ends or meets a step without one."""
        how, value = self._coro.send, None
        if self._wait is not None:
            move = self._answered(self._wait, recorded=self._wait.number in self.history.steps)
            if move is None:
                return Waiting(self._wait)
            how, value = move
        while True:
            try:
                yielded = self._run(how, value)
            except StopIteration as stop:
                return self._returned(stop.value)
            except signals.ActivationCancelled:
                return self._over(Cancelled())
            except Exception as error:
                return self._raised(error)
            step = self._step_of(yielded)
            if step is None:
                foreign = isinstance(yielded, Call)
                what = "a step of another activation" if foreign else type(yielded).__name__
                return self._refuse(self._foreign(what, None))
            if not step.children:
                how, value = self._coro.send, Gathered[Any]()
                continue
            self._effects += len(step.children)
            if self._effects > self._limit:
                return self._refuse(
                    HistoryLimit(
                        f"{self._scope} took more than {self._limit} steps, a group of n counted "
                        "as n; split the work into child activations",
                        limit=self._limit,
                    )
                )
            self._wait = offered = offer(self._scope, self._number, step)
            self._number += 1
            try:
                recorded = self.history.require_recorded(offered)
            except ReplayMismatch as mismatch:
                return self._refuse(mismatch)
            move = self._answered(offered, recorded=recorded)
            if move is None:
                return Waiting(offered)
            how, value = move

    def _answered(self, step: Offer, *, recorded: bool) -> tuple[Callable[[Any], Any], Any] | None:
        if step.number == self.cancel_step and not self._cancelled:
            # The cancel is recorded at this step: it is seen here on every replay, whatever the
            # step itself came to later.
            self._cancelled = True
            self._wait = None
            if step.group is not None and recorded:
                self.decided.append(step)
            return self._coro.throw, signals.ActivationCancelled("this activation was cancelled")
        found = self.history.answer(step) if recorded else None
        if found is None:
            return None
        verdict, self._position.at = found
        self._wait = None
        if step.group is not None:
            self.decided.append(step)
        if verdict.error is not None:
            return self._coro.throw, verdict.error
        return self._coro.send, verdict.value

    def _step_of(self, yielded: object) -> Step | None:
        if not isinstance(yielded, Call):
            return None
        call = cast("Call[object]", yielded)
        return call.step if call.belongs_to(self._act) else None

    # -- stepping -------------------------------------------------------------------------------

    def _run(self, how: Callable[[Any], Any], value: Any) -> Any:
        self._position.replaying = self._number < self._known
        self._is_stepping = True
        try:
            return self._context.run(call_hidden, how, value, firstiter=self._generators.append)
        finally:
            self._is_stepping = False

    def _enter(self, call: Call[Any]) -> bool:
        if not self._is_stepping:
            if is_hidden():
                return False  # whoever steps the function that awaits it refuses it, by its line
            raise ActivationError(
                f"a step of {self._scope} was awaited outside of it; act belongs to its durable "
                "function, which alone may await act.*"
            )
        if not self._leaving:
            return True
        if self._leaving > SWALLOW_LIMIT:
            return False  # it swallows in a loop: let it yield, so that it can be frozen
        self._leaving += 1
        raise signals.Leaving("the activation leaves memory")

    def _returned(self, value: Any) -> Ended | Stuck:
        if self._cancelled:
            return self._over(Cancelled())
        if self._act.unused:
            return self._refuse(
                ActivationError(
                    f"{self._scope} returned with {self._act.unused} described but never awaited "
                    "step(s); await each act.* or do not describe it"
                )
            )
        return self._over(Completed(value))

    def _over(self, outcome: Outcome) -> Ended | Stuck:
        self._close_generators()
        passed_over = self.history.steps.get(self._number)
        if passed_over is None:
            return Ended(outcome)
        # The code of an earlier process took this step: a shorter one is another one.
        where = f"step {self._number} of {self._scope}"
        return Stuck(
            ReplayMismatch(
                f"{where}: the journal holds {passed_over.combinator} {passed_over.key!r}, the "
                f"code now ends before it ({_end_of(outcome)}); restore the recorded code, or "
                "start under a new key",
                step=where,
                field="step",
                recorded=passed_over.key,
                offered="",
            )
        )

    def _raised(self, error: Exception) -> Ended | Stuck:
        if isinstance(error, MemoryError):
            raise error
        if is_hidden_error(error):
            return self._refuse(self._foreign("trio", error.__traceback__))
        return self._over(Failed(ErrorRecord.of(error)))

    def _refuse(self, error: ActivationError | ReplayMismatch) -> Stuck:
        # The verdict is ours from here on, whatever the function does with what is thrown in.
        self._unwind(signals.Refused(str(error)))
        return Stuck(error)

    def _foreign(self, what: str, trace: TracebackType | None) -> NondeterministicAwait:
        path, line = self._where(trace)
        return NondeterministicAwait(
            f"{path}:{line}: a durable function may await only act.*, this awaits {what}; put the "
            "work into an @effect and await act.call(...)",
            line=line,
            path=path,
        )

    def _where(self, trace: TracebackType | None) -> tuple[str, int]:
        """Find the deepest frame that lies in the durable function's own folder."""
        frames: list[tuple[str, int]] = []
        while trace is not None:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        awaited: Any = self._coro
        while awaited is not None and len(frames) < 200:
            frame = (
                getattr(awaited, "cr_frame", None)
                or getattr(awaited, "ag_frame", None)
                or getattr(awaited, "gi_frame", None)
            )
            if frame is not None:
                frames.append((frame.f_code.co_filename, frame.f_lineno))
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        code = self._fn.__code__
        home = code.co_filename.rpartition("/")[0]
        own = [f for f in frames if f[0].rpartition("/")[0] == home]
        return own[-1] if own else (code.co_filename, code.co_firstlineno)

    # -- leaving memory -------------------------------------------------------------------------

    def evict(self) -> bool:
        """Take the function out of memory; it comes back whole by replay.

        Its ``finally`` blocks run, and every ``act.*`` in them raises again. A function that
        swallows everything is kept, frozen, rather than dropped, since its finaliser would go on
        where we gave up; then the answer is False.
        """
        self._unwind(signals.Leaving("the activation leaves memory"))
        return not self.zombie

    def _unwind(self, signal: signals.Signal) -> None:
        self._leaving = 1
        if getattr(self._coro, "cr_frame", None) is None:
            self._close_generators()
            return
        for _ in range(SWALLOW_LIMIT):
            try:
                self._run(self._coro.throw, signal)
            except BaseException:  # StopIteration included: it is gone, whatever it says
                self._close_generators()
                return
        self.zombie = True
        _FROZEN.append(self._coro)

    def _close_generators(self) -> None:
        self._leaving = self._leaving or 1
        for generator in self._generators:
            closing = generator.aclose()
            try:
                for _ in range(SWALLOW_LIMIT):
                    self._run(closing.__await__().send, None)
            except BaseException:
                continue
        self._generators.clear()


def _end_of(outcome: Outcome) -> str:
    return outcome.error.message[:200] if isinstance(outcome, Failed) else "it returns"


_FROZEN: list[Any] = []

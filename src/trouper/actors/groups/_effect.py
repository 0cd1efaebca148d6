"""`@effect`: a function that touches the world; runs at least once, settles exactly once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import trio

from ..._holds import run_in_thread
from ...errors import NoExecutor, ReplayMismatch
from ...supervision import Backoff
from ._activity import Activity
from ._envelope import EffectEnvelope
from ._outcome import ErrorRecord, Failed, timed_out
from ._retries import ONCE, Retries, Retry
from ._runner import EffectContext, Stuck

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Effect(Activity[P, R_co], Generic[P, R_co]):
    """A registered effect. Calling it calls the plain function: that is for unit tests."""

    kind: ClassVar[str] = "effect"

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        timeout: float | None = None,
        retries: Retries = ONCE,
    ) -> None:
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"timeout must be more than 0 seconds, it is {timeout!r}")
        self.fn = fn
        self.timeout = timeout
        self.retries = retries
        self.is_async = inspect.iscoroutinefunction(fn)
        self.takes_context = _takes_context(fn)
        self._given = int(self.takes_context)
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self._adopt_name(fn, name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function itself: nothing is journaled."""
        return self.fn(*args, **kwargs)


class EffectRunner:
    """Runs one call of an effect: async functions on the loop, plain ones in a worker thread."""

    __slots__ = ("_effect", "_envelope", "_limiter")
    releasable = False

    def __init__(
        self, effect: Effect[..., Any], envelope: EffectEnvelope, limiter: trio.CapacityLimiter
    ) -> None:
        self._effect = effect
        self._envelope = envelope
        self._limiter = limiter

    async def run(self, ctx: EffectContext) -> Any:
        """Run the function; out of time means outcome unknown, never failure (ruling 7).

        A failure that is not definite asks for another attempt while there are any left.
        """
        effect = self._effect
        try:
            args, kwargs = effect.decode_call(self._envelope.arguments)
        except ReplayMismatch as error:
            # The code changed since the call was journaled: this deployment cannot run it.
            raise Stuck(ReplayMismatch(f"{ctx.key!r}: {error}", field=error.field)) from error
        if effect.takes_context:
            args.insert(0, ctx)
        value: Any = None
        scope: trio.CancelScope | None = None
        try:
            if effect.timeout is None:
                value = await self._value(args, kwargs)
            else:
                ctx.deadline = trio.current_time() + effect.timeout
                with trio.CancelScope(deadline=ctx.deadline) as scope:
                    value = await self._value(args, kwargs)
        except (Stuck, MemoryError):
            raise
        except Exception as error:
            if ctx.interrupted or effect.retries.is_definite(error):
                raise
            # Code that turns the end of its time into an error of its own has no answer either.
            is_cut = scope is not None and scope.cancel_called and _comes_of_a_cancel(error)
            return self._failed(ctx, None if is_cut else error)
        if scope is not None and scope.cancelled_caught:
            return self._failed(ctx, None)
        # It ran: a result that cannot be kept is no reason to do it again.
        return effect.shapes.result.to_plain(value, "result")

    def _failed(self, ctx: EffectContext, error: Exception | None) -> Failed | Retry:
        effect = self._effect
        if error is not None:
            failed = Failed(ErrorRecord.of(error))
        else:
            assert effect.timeout is not None
            failed = timed_out(effect.name, ctx.key, effect.timeout)
        return effect.retries.decide(ctx.key, ctx.failures, failed)

    async def _value(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        fn = self._effect.fn
        if self._effect.is_async:
            return await fn(*args, **kwargs)
        call = _ThreadCall(partial(fn, *args, **kwargs))
        try:
            return await run_in_thread(call, limiter=self._limiter)
        except RuntimeError as error:
            if call.started:
                raise
            # It never ran, so there is nothing to settle: it goes on where there are threads.
            raise Stuck(
                NoExecutor(
                    f"no thread could be started for {self._effect.name!r} ({error}); nothing of "
                    "it ran - make room for threads, and open the system again"
                )
            ) from error


def _comes_of_a_cancel(error: BaseException | None) -> bool:
    """Tell whether an error was raised on the way out of a cancelled scope."""
    while error is not None:
        if isinstance(error, trio.Cancelled):
            return True
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            if any(_comes_of_a_cancel(each) for each in group.exceptions):
                return True
        error = error.__context__
    return False


class _ThreadCall:
    """A call that says whether it began."""

    __slots__ = ("_call", "started")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.started = False

    def __call__(self) -> Any:
        self.started = True
        return self._call()


def _takes_context(fn: Callable[..., Any]) -> bool:
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    return first is not None and first.annotation in (EffectContext, "EffectContext")


class _EffectDecorator(Protocol):
    @overload
    def __call__(
        self, fn: Callable[Concatenate[EffectContext, P], Awaitable[R]], /
    ) -> Effect[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Effect[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[EffectContext, P], R], /) -> Effect[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Effect[P, R]: ...


@overload
def effect(fn: Callable[Concatenate[EffectContext, P], Awaitable[R]], /) -> Effect[P, R]: ...
@overload
def effect(fn: Callable[P, Awaitable[R]], /) -> Effect[P, R]: ...
@overload
def effect(fn: Callable[Concatenate[EffectContext, P], R], /) -> Effect[P, R]: ...
@overload
def effect(fn: Callable[P, R], /) -> Effect[P, R]: ...
@overload
def effect(
    *,
    name: str | None = None,
    timeout: float | None = None,
    attempts: int = 1,
    backoff: Backoff | None = None,
    definite: tuple[type[Exception], ...] = (),
) -> _EffectDecorator: ...
def effect(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float | None = None,
    attempts: int = 1,
    backoff: Backoff | None = None,
    definite: tuple[type[Exception], ...] = (),
) -> Any:
    """Mark a function as an effect: journaled, executed at least once, settled exactly once.

    An ``async def`` runs on the loop, a plain ``def`` in a worker thread. A first parameter
    annotated `EffectContext` receives the attempt's context. Arguments and result must be values
    that the journal carries: None, bool, int of 64 bits, float, str, bytes, list, dict with text
    keys, and where the annotations name them dataclasses, enums, datetimes and their like.

    Args:
        fn: The function.
        name: Its durable name; default ``module.qualname``.
        timeout: Seconds for one attempt. Out of time is a failure with an unknown outcome.
        attempts: How many attempts may fail before the effect has; one, unless you say that it may
            be repeated. `Reject`, and what ``definite`` lists, is an answer and never repeated.
        backoff: How long to wait in between; as `Backoff()` by default. Its ``reset`` means nothing
            here. The wait is in the journal, and survives restarts.
        definite: Other types of exception that are an answer.

    Raises:
        ValueError: a timeout or a number of attempts that means nothing.
        TypeError: ``definite`` is not a tuple of exception types.
    """
    retries = Retries(attempts, backoff or Backoff(), definite)

    def mark(fn: Callable[..., Any]) -> Effect[..., Any]:
        return Effect(fn, name=name, timeout=timeout, retries=retries)

    return mark if fn is None else mark(fn)

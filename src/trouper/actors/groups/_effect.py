"""`@effect`: a function that touches the world; runs at least once, settles exactly once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import trio

from ..._holds import run_in_thread
from ...errors import NoExecutor, ReplayMismatch
from ._activity import Activity
from ._envelope import EffectEnvelope
from ._outcome import timed_out
from ._runner import EffectContext, Stuck

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Effect(Activity[P, R_co], Generic[P, R_co]):
    """A registered effect. Calling it calls the plain function: that is for unit tests."""

    kind: ClassVar[str] = "effect"

    def __init__(
        self, fn: Callable[..., Any], *, name: str | None = None, timeout: float | None = None
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, it is {timeout!r}")
        self.fn = fn
        self.timeout = timeout
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
        """Run the function; out of time means outcome unknown, never failure (ruling 7)."""
        effect = self._effect
        try:
            args, kwargs = effect.decode_call(self._envelope.arguments)
        except ReplayMismatch as error:
            # The code changed since the call was journaled: this deployment cannot run it.
            raise Stuck(ReplayMismatch(f"{ctx.key!r}: {error}", field=error.field)) from error
        if effect.takes_context:
            args.insert(0, ctx)
        if effect.timeout is None:
            return await self._call(args, kwargs)
        with trio.move_on_after(effect.timeout) as scope:
            return await self._call(args, kwargs)
        if scope.cancelled_caught:
            return timed_out(effect.name, ctx.key, effect.timeout)
        return None

    async def _call(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        value = await self._value(args, kwargs)
        return self._effect.shapes.result.to_plain(value, "result")

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
def effect(*, name: str | None = None, timeout: float | None = None) -> _EffectDecorator: ...
def effect(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float | None = None,
) -> Any:
    """Mark a function as an effect: journaled, executed at least once, settled exactly once.

    An ``async def`` runs on the loop, a plain ``def`` in a worker thread. A first parameter
    annotated `EffectContext` receives the attempt's context. Arguments and result must be values
    that the journal carries: None, bool, int of 64 bits, float, str, bytes, list, dict with text
    keys, and where the annotations name them dataclasses, enums, datetimes and their like.

    Args:
        fn: The function.
        name: Its durable name; default ``module.qualname``.
        timeout: Seconds for one attempt; out of time settles as outcome unknown.
    """

    def mark(fn: Callable[..., Any]) -> Effect[..., Any]:
        return Effect(fn, name=name, timeout=timeout)

    return mark if fn is None else mark(fn)

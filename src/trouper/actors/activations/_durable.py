"""`@durable`: a function whose steps are journaled, and that resumes where it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload

import trio

from ..groups import Activity

if TYPE_CHECKING:
    from ._activation import Activation

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Durable(Activity[P, R_co], Generic[P, R_co]):
    """A registered durable function."""

    kind: ClassVar[str] = "activation"
    _given = 1  # act

    def __init__(
        self, fn: Callable[..., Coroutine[Any, Any, Any]], *, name: str | None = None
    ) -> None:
        if not inspect.iscoroutinefunction(fn):
            raise TypeError(
                f"@durable needs an `async def` function, {getattr(fn, '__qualname__', fn)} is none"
            )
        self.fn = fn
        # A busy loop between two steps must stay interruptible by Ctrl-C (rule D8).
        trio.lowlevel.disable_ki_protection(fn)
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self._adopt_name(fn, name)

    async def __call__(self, act: Activation, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function inside another's activation: no step of its own."""
        result: R_co = await self.fn(act, *args, **kwargs)
        return result


class _DurableDecorator:
    def __init__(self, name: str | None) -> None:
        self._name = name

    def __call__(
        self, fn: Callable[Concatenate[Activation, P], Coroutine[Any, Any, R]], /
    ) -> Durable[P, R]:
        return Durable(fn, name=self._name)


@overload
def durable(
    fn: Callable[Concatenate[Activation, P], Coroutine[Any, Any, R]], /
) -> Durable[P, R]: ...
@overload
def durable(*, name: str | None = None) -> _DurableDecorator: ...
def durable(fn: Any = None, /, *, name: str | None = None) -> Any:
    """Mark ``async def f(act, ...)`` as durable: replayed deterministically after a crash.

    Only ``act.*`` may be awaited. Code between steps runs again at every replay, so it must have no
    effects; what touches the world is an `effect`.
    """
    made: Any = _DurableDecorator(name) if fn is None else Durable[..., Any](fn, name=name)
    return made

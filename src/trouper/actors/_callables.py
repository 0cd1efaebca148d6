"""Functions and refs that users hand in: refused where they are given, not where they are used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._ref import Ref

if TYPE_CHECKING:
    from ._local import LocalRef

F = TypeVar("F", bound=Callable[..., Any])


def require_function(who: str, fn: Any) -> None:
    """Refuse what cannot be called, above all a coroutine that was made already.

    Raises:
        TypeError: It is no function.
    """
    if callable(fn):
        return
    if inspect.iscoroutine(fn):
        fn.close()  # or Python would warn that it was never awaited
        raise TypeError(
            f"{who} takes the function and its arguments, {who}({fn.__name__}, ...), "
            f"not {fn.__name__}(...)"
        )
    raise TypeError(f"{who} takes a function and its arguments, not {fn!r}")


def require_plain(what: str, fn: F) -> F:
    """Refuse a coroutine function where nobody would await it, and what cannot be called.

    Raises:
        TypeError: It is one of those.
    """
    if not callable(fn):
        raise TypeError(f"{what} is a function, not {fn!r}")
    if inspect.iscoroutinefunction(fn):
        raise TypeError(f"{what} is called, never awaited: make {fn.__name__} a plain def")
    return fn


def local(ref: Any) -> LocalRef:
    """Return the record behind a ref, and refuse what is none.

    Raises:
        TypeError: It is no ref of an actor in this process.
    """
    if not isinstance(ref, Ref):  # not the record's class: a probe stands for one
        raise TypeError(f"this takes the ref of an actor, what spawn returns, not {ref!r}")
    return cast("LocalRef", ref)

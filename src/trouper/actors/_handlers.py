"""From decorated methods to the table a worker dispatches by, checked when the class is made."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, get_args, get_origin, overload

from trio.lowlevel import disable_ki_protection

from ..mailbox import Control, Table, run_control
from ._messages import Asked, Q, R

if TYPE_CHECKING:
    from ._context import Context

A = TypeVar("A")

_MARK: Final = "__trouper_handles__"


class HandlerDecorator(Protocol[Q, R]):
    """Takes ``(self, message[, ctx]) -> R``, plain or async; the method stays callable."""

    @overload
    def __call__(self, fn: Callable[[A, Q], Awaitable[R]], /) -> Callable[[A, Q], Awaitable[R]]: ...
    @overload
    def __call__(self, fn: Callable[[A, Q], R], /) -> Callable[[A, Q], R]: ...
    @overload
    def __call__(
        self, fn: Callable[[A, Q, Context[Any]], Awaitable[R]], /
    ) -> Callable[[A, Q, Context[Any]], Awaitable[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[[A, Q, Context[Any]], R], /
    ) -> Callable[[A, Q, Context[Any]], R]: ...


# A request type is a type[Q] as well; the first match decides, which is what is meant.
@overload
def handles(message: type[Asked[Q, R]], /) -> HandlerDecorator[Q, R]: ...  # type: ignore[overload-overlap]
@overload
def handles(message: type[Q], /) -> HandlerDecorator[Q, None]: ...
def handles(message: Any, /) -> Any:
    """Mark a method as the handler of one message type and of the types that derive from it.

    The method takes ``(self, message)`` or ``(self, message, ctx)``. A plain ``def`` runs inline
    and is the cheapest; an ``async def`` may await. What it returns answers an ask.

    Raises:
        TypeError: ``message`` is not a class, or the method handles another type already.
    """
    if not isinstance(message, type):
        raise TypeError(f"@handles takes the class of a message, {_class_wanted(message)}")

    def mark(fn: Any) -> Any:
        if not inspect.isfunction(fn):
            raise TypeError(f"@handles({message.__qualname__}) marks a method, not {fn!r}")
        if _MARK in vars(fn):
            raise TypeError(
                f"{fn.__qualname__} handles {getattr(fn, _MARK).__qualname__} and cannot handle "
                f"{message.__qualname__} too; write one method for each, or handle a class that "
                "both derive from"
            )
        setattr(fn, _MARK, message)
        disable_ki_protection(fn)  # Ctrl-C may interrupt a stuck handler, never the code around it
        return fn

    return mark


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the runtime knows about an actor class."""

    table: Table
    has_started: bool
    has_stopping: bool
    wants_context: bool


def _class_wanted(given: Any) -> str:
    if inspect.isfunction(given):
        return f"not a function: write @handles(SomeMessage) above {given.__qualname__}"
    if get_origin(given) in (typing.Union, types.UnionType):
        return f"not {given}: write one method for each, or handle a class that all derive from"
    return f"not {given!r}"


def behaviour_of(cls: type[Any], root: type[Any]) -> Behaviour:
    """Build and check the table of an actor class.

    Raises:
        TypeError: Two handlers of one type, a wrong arity, or a declared union that disagrees
            with the handlers.
    """
    table: Table = {Control: (True, False, run_control)}
    for base in reversed(cls.__mro__):
        table.update(_own_handlers(cls, base))
    for base in getattr(cls, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, root):
            _check_declared(cls, _members(get_args(base)[0]), table)
    has_started = cls.started is not root.started
    has_stopping = cls.stopping is not root.stopping
    for name in ("__init__", "started", "stopping"):
        hook = vars(cls).get(name)
        if inspect.isfunction(hook):
            if name != "__init__" and not inspect.iscoroutinefunction(inspect.unwrap(hook)):
                raise TypeError(f"{cls.__qualname__}.{name} is awaited: make it an async def")
            disable_ki_protection(hook)
    wants_context = has_started or has_stopping or any(entry[1] for entry in table.values())
    return Behaviour(table, has_started, has_stopping, wants_context)


def _own_handlers(cls: type[Any], base: type[Any]) -> Table:
    own: dict[type[Any], str] = {}
    found: Table = {}
    for name, fn in vars(base).items():
        message = getattr(fn, _MARK, None)
        if message is None:
            continue
        if message in own:
            raise TypeError(
                f"{base.__qualname__}: {own[message]}() and {name}() both handle "
                f"{message.__qualname__}; keep one"
            )
        own[message] = name
        actual = getattr(cls, name)  # a subclass may override the method without the decorator
        found[message] = (
            inspect.iscoroutinefunction(actual),
            _arity(cls, name, actual) == 3,
            actual,
        )
    return found


def _arity(cls: type[Any], name: str, fn: Any) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fn).parameters.values()
    count = sum(p.kind in kinds for p in parameters)
    shape = f"{cls.__qualname__}.{name} must take (self, message) or (self, message, ctx)"
    if count not in (2, 3):
        raise TypeError(f"{shape}, it takes {count} positional parameters")
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            raise TypeError(f"{shape}; nobody gives it {p.name!r}")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(
            f"{cls.__qualname__}.{name} yields, and would run for nobody; return the answer, or "
            "send each part as a message"
        )
    return count


def _members(declared: Any) -> set[type[Any]] | None:
    """Return the classes of a declared union; None when it is open or cannot be known yet."""
    if type(declared).__name__ == "TypeAliasType":  # `type Messages = A | B`, from 3.12 on
        declared = declared.__value__
    if get_origin(declared) in (typing.Union, types.UnionType):
        out: set[type[Any]] = set()
        for part in get_args(declared):
            members = _members(part)
            if members is None:
                return None
            out |= members
        return out
    cls = get_origin(declared) or declared
    return {cls} if isinstance(cls, type) else None


def _check_declared(cls: type[Any], declared: set[type[Any]] | None, table: Table) -> None:
    if declared is None:
        return
    have = {message for message in table if message is not Control}
    missing = {d for d in declared if not any(issubclass(d, h) for h in have)}
    extra = {h for h in have if not any(issubclass(h, d) for d in declared)}
    if missing or extra:
        problems = [
            f"{label} {', '.join(sorted(t.__qualname__ for t in found))}"
            for label, found in (("no handler for", missing), ("undeclared", extra))
            if found
        ]
        raise TypeError(
            f"{cls.__qualname__}: Actor[...] and @handles disagree: {'; '.join(problems)}"
        )

"""`@decides` and `@applies`: marks on methods, and the checks of what they mark.

What cannot work is refused where the class stands, with the way to mend it in the text: a program
that starts has rules for everything it may have to apply at the next recovery.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Never, NoReturn, Protocol, TypeVar, get_args, get_origin, overload

from trio.lowlevel import disable_ki_protection

from ...errors import Reject
from ...store import is_record
from .._messages import Asked, Q, R
from ._decision import Decision

A = TypeVar("A")
S = TypeVar("S")
E = TypeVar("E")
K = TypeVar("K")

DECIDES: Final = "__trouper_decides__"
APPLIES: Final = "__trouper_applies__"

# Plain values that a state may be: immutable ones. What holds more is a record.
LEAVES: Final = (type(None), bool, int, float, str, bytes)


class DecideDecorator(Protocol[Q, R]):
    """Takes ``(self, state, message) -> Decision[records, R]``, or one that may `Reject`."""

    @overload
    def __call__(
        self, fn: Callable[[A, S, Q], Decision[E, R]], /
    ) -> Callable[[A, S, Q], Decision[E, R]]: ...
    @overload
    def __call__(
        self, fn: Callable[[A, S, Q], Decision[E, R] | Reject], /
    ) -> Callable[[A, S, Q], Decision[E, R] | Reject]: ...


class ApplyDecorator(Protocol[K]):
    """Takes ``(self, state, record) -> state``."""

    def __call__(self, fn: Callable[[A, S, K], S], /) -> Callable[[A, S, K], S]: ...


# A request type is a type[Q] as well; the first match decides, which is what is meant.
@overload
def decides(message: type[Asked[Q, R]], /) -> DecideDecorator[Q, R]: ...  # type: ignore[overload-overlap]
@overload
def decides(message: type[Q], /) -> DecideDecorator[Q, None]: ...
def decides(message: Any, /) -> Any:
    """Mark a method as the pure function that decides on one message type, and those below it.

    It takes ``(self, state, message)`` and returns a `Decision`, or a `Reject`; its annotation says
    which records: ``-> Decision[Withdrawn, int] | Reject``. It sees what is committed and the
    decisions before it that are on their way. It has no effects, reads no clock and awaits nothing.

    Raises:
        TypeError: ``message`` is not a class.
    """
    return _marker("decides", "message", DECIDES, message)


def applies(record: type[K], /) -> ApplyDecorator[K]:
    """Mark a method as the pure function that applies one record type to the state.

    It takes ``(self, state, record)`` and returns the next state. It runs when the record is
    decided and again at every recovery, so it refuses nothing.

    Raises:
        TypeError: ``record`` is not a class.
    """
    decorator: ApplyDecorator[K] = _marker("applies", "record", APPLIES, record)
    return decorator


def _marker(word: str, what: str, mark: str, cls: Any) -> Any:
    if not isinstance(cls, type):
        raise TypeError(f"@{word} takes the class of a {what}, not {cls!r}")

    def decorate(fn: Any) -> Any:
        if not inspect.isfunction(fn):
            raise TypeError(f"@{word}({cls.__qualname__}) marks a method, not {fn!r}")
        if hasattr(fn, DECIDES) or hasattr(fn, APPLIES):
            raise TypeError(f"{fn.__qualname__} is marked already; write one method for each")
        setattr(fn, mark, cls)
        disable_ki_protection(fn)  # Ctrl-C may interrupt a stuck rule, never the code around it
        return fn

    return decorate


def marked(cls: type[Any], mark: str, what: str) -> dict[type[Any], tuple[str, Any]]:
    """Return the methods under a mark, by the type they are for; a subclass may override one.

    Raises:
        TypeError: One class has two for one type.
    """
    found: dict[type[Any], tuple[str, Any]] = {}
    for base in reversed(cls.__mro__):
        own: dict[type[Any], str] = {}
        for name, fn in vars(base).items():
            subject = getattr(fn, mark, None)
            if subject is None:
                continue
            if subject in own:
                raise TypeError(
                    f"{base.__qualname__}: {own[subject]}() and {name}() both {what} "
                    f"{subject.__qualname__}; keep one"
                )
            own[subject] = name
            found[subject] = (name, getattr(cls, name))
    return found


def check_shape(cls: type[Any], name: str, fn: Any, what: str) -> None:
    """Refuse a rule that is not a plain ``(self, state, message or record)``.

    Raises:
        TypeError: It is asynchronous, a generator, or takes something else.
    """
    where = f"{cls.__qualname__}.{name}"
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(
            f"{where} is async, and a rule is pure: write a plain def. Await what it needs before "
            "the message is sent, and put it in the message"
        )
    if inspect.isgeneratorfunction(fn):
        raise TypeError(f"{where} yields; return a Decision, or the next state")
    parameters = list(inspect.signature(fn).parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) != 3 or any(p.kind not in kinds for p in parameters):
        raise TypeError(f"{where} must take (self, state, {what})")


def hints_of(cls: type[Any], name: str, fn: Any, names: Mapping[str, Any]) -> list[Any]:
    """Return the annotations of state, message or record, and result.

    Raises:
        TypeError: One is missing, or names what is not there when the class is made.
    """
    where = f"{cls.__qualname__}.{name}"
    known = fn.__annotations__
    parts = [*list(inspect.signature(fn).parameters)[1:], "return"]
    missing = [part for part in parts if part not in known]
    if missing:
        raise TypeError(
            f"{where} does not say of what type {' and '.join(missing)} is; annotate it: the rules "
            "of a class are checked by what they say"
        )
    try:
        hints = typing.get_type_hints(fn, localns=dict(names))
    except Exception as error:
        raise TypeError(
            f"{where}: its annotations cannot be read ({error}); define or import what they name "
            "above the class, not under TYPE_CHECKING"
        ) from error
    return [hints[part] for part in parts]


def records_in(cls: type[Any], name: str, result: Any) -> set[type[Any]]:
    """Return the record types that a decide function says it may return.

    Raises:
        TypeError: It says something else than ``Decision[records, reply]``, with or without
            ``| Reject``.
    """
    found: set[type[Any]] = set()
    decision = False
    for part in union_of(result):
        if part is Reject or (isinstance(part, type) and issubclass(part, Reject)):
            continue
        if get_origin(part) is not Decision:
            raise TypeError(
                f"{cls.__qualname__}.{name} must return Decision[records, reply], or that | Reject,"
                f" not {result}; Decision[Never, reply] keeps nothing"
            )
        decision = True
        for kind in union_of(get_args(part)[0]):
            if kind in (Never, NoReturn, Any) or isinstance(kind, TypeVar):
                continue
            if not (isinstance(kind, type) and is_record(kind)):
                raise TypeError(
                    f"{cls.__qualname__}.{name} returns {kind!r} as a record, which no journal can "
                    'bring back; decorate its class with @record("some.kind") above '
                    "@dataclass(frozen=True, slots=True)"
                )
            found.add(kind)
    if not decision:
        raise TypeError(f"{cls.__qualname__}.{name} only rejects; let it return a Decision too")
    return found


def members(declared: Any) -> set[type[Any]] | None:
    """Return the classes of a declared union; None when it is open."""
    found: set[type[Any]] = set()
    for part in union_of(declared):
        plain = get_origin(part) or part
        if not isinstance(plain, type):
            return None
        found.add(plain)
    return found


def union_of(declared: Any) -> Iterator[Any]:
    """Yield the members of a union, or the one type that it is."""
    if type(declared).__name__ == "TypeAliasType":  # `type Records = A | B`, from 3.12 on
        declared = declared.__value__
    if get_origin(declared) in (typing.Union, types.UnionType):
        for part in get_args(declared):
            yield from union_of(part)
    else:
        yield declared


def is_flat(record: type[Any]) -> bool:
    """Tell whether a record holds plain immutable values only: it is what its row gives back."""
    try:
        hints = typing.get_type_hints(record)
    except Exception:
        return False
    return all(
        part in LEAVES
        for field in dataclasses.fields(record)
        for part in union_of(hints[field.name])
    )

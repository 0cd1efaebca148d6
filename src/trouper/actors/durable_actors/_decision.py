"""What a decision is: the records to keep, the reply, and the messages to send when they are kept.

A decision is data. It is made by a pure function, and nothing of it happens before its records are
in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, overload

from .._messages import N
from .._ref import Ref

if TYPE_CHECKING:
    # default= is for the checkers only; at run time `__class_getitem__` fills it in
    from typing_extensions import TypeVar

    E_co = TypeVar("E_co", covariant=True)
    R_co = TypeVar("R_co", covariant=True, default=None)
else:
    from typing import TypeVar

    E_co = TypeVar("E_co", covariant=True)
    R_co = TypeVar("R_co", covariant=True)


E = TypeVar("E")


class Tell(Generic[N]):
    """A message that is told once the records beside it are durable.

    It is told once, and at most once: a crash between the commit and the tell loses it. What must
    arrive is sent again by whoever finds it in the state, under an idempotency id.
    """

    __slots__ = ("message", "to")

    def __init__(self, to: Ref[N], message: N) -> None:
        if not callable(getattr(to, "tell", None)):
            raise TypeError(f"Tell takes a ref and a message for it, not {to!r}")
        self.to = to
        self.message = message

    def __repr__(self) -> str:
        return f"Tell({self.to!r}, {self.message!r})"


class Decision(Generic[E_co, R_co]):
    """What a `decides` function returns: ``Decision[Withdrawn, int]`` keeps one, replies the other.

    ``Decision[Noted]`` replies None; ``Decision[Never, int]`` keeps nothing, it is a read.

    Args:
        records: What happened, in order. Each has an `applies` function and is a `record`.
        reply: The answer of a `Request`.
        tells: Messages for others, sent once the records are durable.

    Raises:
        TypeError: Records or tells come alone instead of in a list, or a tell is none.
    """

    __slots__ = ("records", "reply", "tells")

    @overload
    def __init__(
        self: Decision[E, None],
        records: Iterable[E] = (),
        *,
        tells: Iterable[Tell[Any]] = (),
    ) -> None: ...
    @overload
    def __init__(
        self, records: Iterable[E_co] = (), *, reply: R_co, tells: Iterable[Tell[Any]] = ()
    ) -> None: ...
    def __init__(
        self,
        records: Iterable[Any] = (),
        *,
        reply: Any = None,
        tells: Iterable[Tell[Any]] = (),
    ) -> None:
        try:
            self.records: tuple[E_co, ...] = tuple(records)
            self.tells: tuple[Tell[Any], ...] = tuple(tells)
        except TypeError:
            _require_several(records, "a Decision takes its records in a list")
            _require_several(tells, "tells= takes a list of Tell(ref, message)")
            raise  # what they are made from raised it
        self.reply: R_co = reply
        for tell in self.tells:
            if tell.__class__ is not Tell:
                raise TypeError(f"tells= takes Tell(ref, message), not {tell!r}")

    def __repr__(self) -> str:
        return f"Decision({list(self.records)!r}, reply={self.reply!r}, tells={self.tells!r})"

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Decision and _parts(self) == _parts(other)

    __hash__ = None  # type: ignore[assignment]

    if not TYPE_CHECKING:

        def __class_getitem__(cls, params):
            """Take one parameter as well: the reply is None then."""
            return super().__class_getitem__(
                params if isinstance(params, tuple) else (params, None)
            )


def _require_several(value: Any, what: str) -> None:
    if not hasattr(value.__class__, "__iter__"):
        raise TypeError(f"{what}, not {value!r:.80}") from None


def _parts(decision: Any) -> tuple[Any, ...]:
    return decision.records, decision.reply, decision.tells

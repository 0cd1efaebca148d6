"""The typing of messages, with no plugin: who takes what, and what comes back.

A request carries its own type and its reply type in a phantom method whose parameter is
``Takes[Self]``. `Takes` and `Ref` are contravariant, so ``Total`` matches ``Asked[Add | Total, R]``
exactly when the union holds it, and R is inferred in the same match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, Self

if TYPE_CHECKING:
    # default= is for the checkers only; at run time the standard library's TypeVar will do
    from typing_extensions import TypeVar

    M = TypeVar("M", default=Any)
else:
    from typing import TypeVar

    M = TypeVar("M")

N = TypeVar("N")
Q = TypeVar("Q")
R = TypeVar("R")
M_contra = TypeVar("M_contra", contravariant=True)
Q_co = TypeVar("Q_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class Takes(Protocol[M_contra]):
    """Phantom: who takes ``Add | Total`` takes ``Total``."""

    def __takes__(self, message: M_contra, /) -> None: ...


class Request(Generic[R_co]):
    """Base of messages that are answered; the reply type lives on the message.

    ``class Total(Request[int])`` makes ``await ref.ask(Total())`` an ``int``.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __reply__(self, taker: Takes[Self], /) -> R_co: ...


class Asked(Protocol[Q_co, R_co]):
    """The intersection of "is one of Q" and "is answered with R", by structure."""

    def __reply__(self, taker: Takes[Q_co], /) -> R_co: ...

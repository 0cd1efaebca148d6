"""The right to settle one child, which cannot be made, copied or kept beyond its ledger."""

from __future__ import annotations

from typing import Any, NoReturn, final

from ..errors import OwnershipError
from ._budget import Grant


@final
class Reservation:
    """What a `Ledger` reserved for one child. Whoever holds it may settle that child, once.

    It is good only at the ledger that issued it, and only as that very object: a ledger looks for
    the object itself among those it holds. What is journaled is the `Reserved` behind it; after a
    recovery `Ledger.reservation` gives a new one, and those of the former process are void. It
    stays with the host: a child is told its grant, never given this.
    """

    __slots__ = ("child", "grant", "number", "owner")

    owner: str
    number: int
    child: str
    grant: Grant

    def __init__(self) -> None:
        raise TypeError("a Reservation is issued by its ledger; call Ledger.reserve")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Reservation does not change: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Reservation does not change: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reservation) and _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))

    def __repr__(self) -> str:
        return f"<Reservation {self.number} of {self.owner!r} for {self.child!r}>"

    def __copy__(self) -> NoReturn:
        raise _uncopied(self)

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise _uncopied(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise _uncopied(self)


def issue(owner: str, number: int, child: str, grant: Grant) -> Reservation:
    """Make a reservation. For `Ledger.apply` only."""
    made = object.__new__(Reservation)
    write: Any = object.__setattr__
    write(made, "owner", owner)
    write(made, "number", number)
    write(made, "child", child)
    write(made, "grant", grant)
    return made


def _content(reservation: Reservation) -> tuple[str, int, str, Grant]:
    return reservation.owner, reservation.number, reservation.child, reservation.grant


def _uncopied(reservation: Reservation) -> OwnershipError:
    return OwnershipError(
        f"{reservation!r} cannot be copied or pickled; journal the `Reserved` behind it, and ask "
        "the recovered ledger for its own",
        kind="copied",
    )

"""What an aggregate gives: the results in the order of the call, and the order of their ends.

Below every package: the codec has to know these two classes, and groups make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, TypeVarTuple, cast, final

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@final
class Gathered(list[T]):
    """The list that `all_of` and `all_settled` give; ``.order`` says who settled first.

    A list in every other way: it equals one, and its slices, sums and `copy` are plain ones. The
    journal carries it as the list it equals, so what comes back from there has no ``.order``.
    """

    __slots__ = ("_order",)

    def __init__(self, values: Iterable[T] = (), order: Iterable[int] = ()) -> None:
        super().__init__(values)
        self._order = tuple(order)

    @property
    def order(self) -> tuple[int, ...]:
        """The positions of the call in the order of their ranks, to look at; no rule reads it."""
        return self._order


@final
class GatheredTuple(tuple[*Ts]):
    """`Gathered` as a tuple: of different calls, each place keeps its type."""

    _order: tuple[int, ...]

    def __new__(cls, values: Iterable[Any] = (), order: Iterable[int] = ()) -> GatheredTuple[*Ts]:
        """Make it of values, and the order in which they came."""
        made = super().__new__(cls, cast("Any", values))
        made._order = tuple(order)
        return made

    @property
    def order(self) -> tuple[int, ...]:
        """The positions of the call in the order of their ranks, to look at; no rule reads it."""
        return self._order


CARRIED_AS: Final[dict[type[Any], type[Any]]] = {Gathered: list, GatheredTuple: tuple}
"""The classes that are journaled as what they equal, and do not come back as themselves."""

# type() itself would narrow Any to a partially unknown type
_type_of: Final = cast("Callable[[Any], type[Any]]", type)


def carried_type(value: Any) -> type[Any]:
    """Return the exact type of a value, as the journal sees it."""
    kind = _type_of(value)
    return CARRIED_AS.get(kind, kind)

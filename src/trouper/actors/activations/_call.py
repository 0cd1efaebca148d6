"""A step as described by user code: nothing starts before it is awaited or grouped."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from ...errors import ActivationError
from ..groups import Combinator, Disposition, EffectCall

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: how its children's ends become one answer, and what becomes of losers."""

    combinator: Combinator
    children: tuple[EffectCall[Any], ...]
    disposition: Disposition = Disposition.RUN_TO_COMPLETION


class Stepping(Protocol):
    """Who hands out calls: told when one is awaited."""

    def enter(self, call: Call[Any]) -> bool:
        """Allow the await, or raise; False: let it yield, but do not count it."""
        ...

    def described(self) -> None:
        """Count a call that was handed out."""
        ...

    def used(self) -> None:
        """Count a call that was awaited or grouped."""
        ...


class Call(Generic[R_co]):
    """A described step, good for one await or for one place in a combinator."""

    __slots__ = ("_owner", "_then", "_used", "step")

    def __init__(self, owner: Stepping, step: Step) -> None:
        self._owner = owner
        self.step = step
        self._then: Callable[[Any], Any] | None = None
        self._used = False
        owner.described()

    def __await__(self) -> Generator[Any, Any, R_co]:
        if self._owner.enter(self):
            self.use()
        answer = yield self
        found: R_co = answer if self._then is None else self._then(answer)
        return found

    def then(self, fn: Callable[[R_co], T]) -> Call[T]:
        """Let the await give ``fn`` of the answer. For what is made of a step, not for users."""
        changed = cast("Call[T]", self)
        changed._then = fn
        return changed

    def use(self) -> None:
        """Mark the call as used; a second use is a mistake that replay could not repeat."""
        if self._used:
            raise ActivationError(
                "this step was used before; a step is awaited, or given to one combinator, once: "
                "describe it again with act.call(...)"
            )
        self._used = True
        self._owner.used()

    def belongs_to(self, owner: Stepping) -> bool:
        """Tell whether this activation handed it out."""
        return self._owner is owner

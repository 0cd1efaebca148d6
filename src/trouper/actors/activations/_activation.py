"""`Activation`: what a durable function is handed as ``act``."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from ...errors import EmptyGroup
from ..groups import (
    Activity,
    Combinator,
    Disposition,
    Gathered,
    GatheredTuple,
    Losers,
    Outcome,
    Won,
    in_time,
    require_activity,
    signal,
    timer,
)
from ._call import Call, Step

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")


class Position:
    """Where a run is: the time of the last settlement it consumed, and whether it only repeats
    what an earlier process did. Writer: its driver."""

    __slots__ = ("at", "replaying")

    def __init__(self, at: float) -> None:
        self.at = at
        self.replaying = False


_SILENT = logging.Logger("silent")
_SILENT.disabled = True


class Activation:
    """The steps a durable function may take. Describing one starts nothing; awaiting it does.

    Steps are matched with the journal by their place in the sequence and their fingerprint.
    """

    def __init__(
        self, key: str, scope: str, position: Position, enter: Callable[[Call[Any]], bool]
    ) -> None:
        self.key = key
        self._log = logging.getLogger("trouper.activation")
        self._enter = enter
        self._position = position
        self._random = random.Random(scope)
        self.unused = 0  # calls described and neither awaited nor grouped

    @property
    def log(self) -> logging.Logger:
        """The logger ``trouper.activation``; silent while a replay repeats what was logged."""
        return _SILENT if self._position.replaying else self._log

    def enter(self, call: Call[Any]) -> bool:
        """Let the driver allow or refuse an await (`Stepping`)."""
        return self._enter(call)

    def described(self) -> None:
        """Count a call that was handed out (`Stepping`)."""
        self.unused += 1

    def used(self) -> None:
        """Count a call that was awaited or grouped (`Stepping`)."""
        self.unused -= 1

    def call(self, what: Activity[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Describe a call of an effect, a durable function (as a child activation) or a guest.

        Raises:
            ValueRefused: an argument that the journal cannot carry, with its place.
            TypeError: it is none of these, or does not take these arguments.
        """
        child = require_activity(what).call(*args, **kwargs)
        return Call(self, Step(Combinator.ONE, (child,)))

    def sleep(self, seconds: float, /) -> Call[None]:
        """Describe a timer. Its due instant is journaled when it opens and survives restarts."""
        return Call(self, Step(Combinator.ONE, (timer(seconds),)))

    def wait_signal(self, name: str, /) -> Call[Any]:
        """Describe a wait for a signal; it gives the payload of the oldest one not yet taken.

        One that came before the wait counts too. As a child of a group, the wait ends with the
        interest in the group; a signal that it took and the answer left out goes back to its place.

        Raises:
            ValueRefused: a name that is none.
        """
        return Call(self, Step(Combinator.ONE, (signal(name),)))

    def signal(self, name: str, /) -> Call[Any]:
        """Describe a wait for a signal: `wait_signal`, by the name it has in a group on a host."""
        return self.wait_signal(name)

    def move_on_after(self, seconds: float, call: Call[R], /) -> Call[Won[R] | None]:
        """Describe a call with a deadline: a race with a timer, whose loser is cancelled.

        None when the time was up first. The call may be winding down then, and what it did is
        unknown; the deadline is journaled, and survives restarts.
        """
        pair = self.race(call, self.sleep(seconds), losers="cancel")
        return pair.then(in_time)

    @overload
    def race(self, a: Call[A], b: Call[B], /, *, losers: Losers = ...) -> Call[Won[A | B]]: ...
    @overload
    def race(
        self, a: Call[A], b: Call[B], c: Call[C], /, *, losers: Losers = ...
    ) -> Call[Won[A | B | C]]: ...
    @overload
    def race(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], /, *, losers: Losers = ...
    ) -> Call[Won[A | B | C | D]]: ...
    @overload
    def race(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], e: Call[E], /, *, losers: Losers = ...
    ) -> Call[Won[A | B | C | D | E]]: ...
    @overload
    def race(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        /,
        *,
        losers: Losers = ...,
    ) -> Call[Won[A | B | C | D | E | F]]: ...
    @overload
    def race(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        g: Call[G],
        /,
        *,
        losers: Losers = ...,
    ) -> Call[Won[A | B | C | D | E | F | G]]: ...
    @overload
    def race(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        g: Call[G],
        h: Call[H],
        /,
        *,
        losers: Losers = ...,
    ) -> Call[Won[A | B | C | D | E | F | G | H]]: ...
    @overload
    def race(self, *calls: Call[A], losers: Losers = ...) -> Call[Won[A]]: ...
    def race(self, *calls: Call[Any], losers: Losers = "run_to_completion") -> Call[Any]:
        """Describe a race: the first settlement decides, a failed one is raised."""
        return self._group(Combinator.RACE, calls, losers)

    @overload
    def any_of(self, a: Call[A], b: Call[B], /, *, losers: Losers = ...) -> Call[Won[A | B]]: ...
    @overload
    def any_of(
        self, a: Call[A], b: Call[B], c: Call[C], /, *, losers: Losers = ...
    ) -> Call[Won[A | B | C]]: ...
    @overload
    def any_of(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], /, *, losers: Losers = ...
    ) -> Call[Won[A | B | C | D]]: ...
    @overload
    def any_of(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], e: Call[E], /, *, losers: Losers = ...
    ) -> Call[Won[A | B | C | D | E]]: ...
    @overload
    def any_of(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        /,
        *,
        losers: Losers = ...,
    ) -> Call[Won[A | B | C | D | E | F]]: ...
    @overload
    def any_of(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        g: Call[G],
        /,
        *,
        losers: Losers = ...,
    ) -> Call[Won[A | B | C | D | E | F | G]]: ...
    @overload
    def any_of(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        g: Call[G],
        h: Call[H],
        /,
        *,
        losers: Losers = ...,
    ) -> Call[Won[A | B | C | D | E | F | G | H]]: ...
    @overload
    def any_of(self, *calls: Call[A], losers: Losers = ...) -> Call[Won[A]]: ...
    def any_of(self, *calls: Call[Any], losers: Losers = "run_to_completion") -> Call[Any]:
        """Describe a wait for the first success; all failed is one group in input order."""
        return self._group(Combinator.ANY_OF, calls, losers)

    # Overlap on purpose: at run time each form gives a list; its type is a tuple where the places
    # differ (the convention of asyncio.gather in typeshed, ADR 0002).
    @overload
    def all_of(  # pyright: ignore[reportOverlappingOverload]
        self, a: Call[A], b: Call[B], /
    ) -> Call[GatheredTuple[A, B]]: ...
    @overload
    def all_of(self, a: Call[A], b: Call[B], c: Call[C], /) -> Call[GatheredTuple[A, B, C]]: ...
    @overload
    def all_of(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], /
    ) -> Call[GatheredTuple[A, B, C, D]]: ...
    @overload
    def all_of(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], e: Call[E], /
    ) -> Call[GatheredTuple[A, B, C, D, E]]: ...
    @overload
    def all_of(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], e: Call[E], f: Call[F], /
    ) -> Call[GatheredTuple[A, B, C, D, E, F]]: ...
    @overload
    def all_of(
        self, a: Call[A], b: Call[B], c: Call[C], d: Call[D], e: Call[E], f: Call[F], g: Call[G], /
    ) -> Call[GatheredTuple[A, B, C, D, E, F, G]]: ...
    @overload
    def all_of(
        self,
        a: Call[A],
        b: Call[B],
        c: Call[C],
        d: Call[D],
        e: Call[E],
        f: Call[F],
        g: Call[G],
        h: Call[H],
        /,
    ) -> Call[GatheredTuple[A, B, C, D, E, F, G, H]]: ...
    @overload
    def all_of(self, *calls: Call[A]) -> Call[Gathered[A]]: ...
    def all_of(self, *calls: Call[Any]) -> Call[Any]:
        """Describe a wait for all values, in input order; the first failure by rank is raised.

        ``.order`` of what it gives says which came first.
        """
        return self._group(Combinator.ALL_OF, calls, "run_to_completion")

    def all_settled(self, *calls: Call[Any]) -> Call[Gathered[Outcome]]:
        """Describe a wait for all outcomes, in input order; none is raised.

        ``.order`` of what it gives says which came first.
        """
        return self._group(Combinator.ALL_SETTLED, calls, "run_to_completion")

    def now(self) -> float:
        """Return the time of the last settlement consumed (UTC, seconds); the same on replay."""
        return self._position.at

    def random(self) -> float:
        """Return the next number of this activation's own sequence, in [0, 1)."""
        return self._random.random()

    def new_id(self) -> str:
        """Return the next identifier of this activation's own sequence (a UUID, as text)."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _group(
        self, combinator: Combinator, calls: tuple[Call[Any], ...], losers: str
    ) -> Call[Any]:
        if losers not in tuple(Disposition):
            raise ValueError(f"losers= takes one of {', '.join(Disposition)}, it got {losers!r}")
        disposition = Disposition(losers)
        if not calls and combinator in (Combinator.RACE, Combinator.ANY_OF):
            raise EmptyGroup(f"act.{combinator} of nothing would wait for ever; give it a step")
        for call in calls:
            if len(call.step.children) != 1 or call.step.combinator is not Combinator.ONE:
                raise TypeError(
                    f"act.{combinator} takes single steps; wrap nested groups in a durable function"
                )
            call.use()
        children = tuple(call.step.children[0] for call in calls)
        return Call(self, Step(combinator, children, disposition))

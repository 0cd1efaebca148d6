"""Groups on a host directly, without a durable function around them.

The caller chooses the key, which is the scope as well; calling again under the same key, also after
a crash, reads the same ranks and gives the same answer. What is left of the group when the answer
is there belongs to the drain.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, cast, final, overload

from ..._gathered import Gathered, GatheredTuple
from ...errors import EmptyGroup, HandleClosed
from .._key import require_text
from ._calls import EffectCall, timer
from ._carried import rebuilt
from ._combinators import Combinator, Rank, Verdict, Won, in_time, may_decide, verdict
from ._contract import EffectHostBase
from ._group import EffectGroup
from ._handle import GroupHandle, Settlement
from ._outcome import Outcome
from ._policy import Disposition, WakePolicy, read_word

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")
Losers = Literal["run_to_completion", "cancel"]
Wake = Literal["first", "first_success", "all"]


async def race(
    host: EffectHostBase,
    key: str,
    calls: Sequence[EffectCall[R]],
    *,
    losers: Losers = "run_to_completion",
) -> Won[R]:
    """Run calls side by side; the first settlement decides, a failed one is raised.

    Cancelling the wait leaves the group open: call again under the key, or close it.

    Raises:
        EmptyGroup: no calls.
        Exception: what the call that settled first failed with.
        GroupShapeError, ReplayMismatch: the key was used for other calls.
        GroupRetired: the key was retired.
    """
    return cast("Won[R]", await _decided(host, key, Combinator.RACE, calls, losers))


async def any_of(
    host: EffectHostBase,
    key: str,
    calls: Sequence[EffectCall[R]],
    *,
    losers: Losers = "run_to_completion",
) -> Won[R]:
    """Run calls side by side; the first success decides. Waits and refuses as `race` does.

    Raises:
        ExceptionGroup: all failed; their errors in the order of the calls.
    """
    return cast("Won[R]", await _decided(host, key, Combinator.ANY_OF, calls, losers))


@overload
async def all_of(
    host: EffectHostBase, key: str, calls: tuple[EffectCall[A], EffectCall[B]]
) -> GatheredTuple[A, B]: ...
@overload
async def all_of(
    host: EffectHostBase, key: str, calls: tuple[EffectCall[A], EffectCall[B], EffectCall[C]]
) -> GatheredTuple[A, B, C]: ...
@overload
async def all_of(
    host: EffectHostBase,
    key: str,
    calls: tuple[EffectCall[A], EffectCall[B], EffectCall[C], EffectCall[D]],
) -> GatheredTuple[A, B, C, D]: ...
@overload
async def all_of(
    host: EffectHostBase,
    key: str,
    calls: tuple[EffectCall[A], EffectCall[B], EffectCall[C], EffectCall[D], EffectCall[E]],
) -> GatheredTuple[A, B, C, D, E]: ...
@overload
async def all_of(
    host: EffectHostBase,
    key: str,
    calls: tuple[
        EffectCall[A], EffectCall[B], EffectCall[C], EffectCall[D], EffectCall[E], EffectCall[F]
    ],
) -> GatheredTuple[A, B, C, D, E, F]: ...
@overload
async def all_of(
    host: EffectHostBase,
    key: str,
    calls: tuple[
        EffectCall[A],
        EffectCall[B],
        EffectCall[C],
        EffectCall[D],
        EffectCall[E],
        EffectCall[F],
        EffectCall[G],
    ],
) -> GatheredTuple[A, B, C, D, E, F, G]: ...
@overload
async def all_of(
    host: EffectHostBase,
    key: str,
    calls: tuple[
        EffectCall[A],
        EffectCall[B],
        EffectCall[C],
        EffectCall[D],
        EffectCall[E],
        EffectCall[F],
        EffectCall[G],
        EffectCall[H],
    ],
) -> GatheredTuple[A, B, C, D, E, F, G, H]: ...
@overload
async def all_of(host: EffectHostBase, key: str, calls: list[EffectCall[R]]) -> Gathered[R]: ...
async def all_of(
    host: EffectHostBase, key: str, calls: list[EffectCall[Any]] | tuple[EffectCall[Any], ...]
) -> Any:
    """Run calls side by side and return their values in the order of the calls.

    A list of calls gives a list, a tuple of different ones a tuple; ``.order`` of either says which
    came first. The first failure by rank is raised. Waits and refuses as `race` does; no calls give
    no values.
    """
    found = await _decided(host, key, Combinator.ALL_OF, calls, "run_to_completion")
    values = cast("Gathered[Any]", found)
    if isinstance(calls, list):
        return values
    different: GatheredTuple[*tuple[Any, ...]] = GatheredTuple(values, values.order)
    return different


async def all_settled(
    host: EffectHostBase, key: str, calls: Sequence[EffectCall[Any]]
) -> Gathered[Outcome]:
    """Run calls side by side and return their outcomes in the order of the calls; none is raised.

    ``.order`` says which came first. Waits and refuses as `race` does; no calls give an empty list.
    """
    found = await _decided(host, key, Combinator.ALL_SETTLED, calls, "run_to_completion")
    return cast("Gathered[Outcome]", found)


async def move_on_after(
    host: EffectHostBase, key: str, seconds: float, call: EffectCall[R]
) -> Won[R] | None:
    """Run a call until a deadline that is journaled: a race with a timer, whose loser is cancelled.

    None when the time was up first. The call may be winding down then, and what it did is unknown;
    its terminal is the later rank of the group.
    """
    return in_time(await race(host, key, [call, timer(seconds)], losers="cancel"))


async def _decided(
    host: EffectHostBase,
    key: str,
    kind: Combinator,
    calls: Sequence[EffectCall[Any]],
    losers: str,
) -> Any:
    require_text(key, "a group")
    if not calls:
        if kind in (Combinator.RACE, Combinator.ANY_OF):
            raise EmptyGroup(f"{kind} of nothing would wait for ever; give it a call", key=key)
        return Gathered[Any]()
    group = OpenGroup(host, _group_of(key, calls, kind.wake, _word(losers)), calls)
    async with group:
        found = await group.decide(kind)
    if found.error is not None:
        raise found.error
    return found.value


def open_group(
    host: EffectHostBase,
    key: str,
    calls: Sequence[EffectCall[R]],
    *,
    wake: Wake = "all",
    losers: Losers = "run_to_completion",
    consumed: int = 0,
) -> OpenGroup[R]:
    """Open or reopen a group as an async context: ``async for settlement in group``.

    Leaving the block closes the group as declared by ``losers``; an error does so too. A shutdown,
    a cancellation and a crash leave it open: opening it again goes on where ``consumed`` says.
    """
    group = _group_of(key, calls, read_word(WakePolicy, wake), _word(losers))
    return OpenGroup(host, group, calls, consumed)


@final
class OpenGroup(Generic[R_co]):
    """A group while its caller is interested; an iterator of its settlements, by rank."""

    __slots__ = ("_calls", "_consumed", "_handle", "_host", "group")

    def __init__(
        self,
        host: EffectHostBase,
        group: EffectGroup,
        calls: Sequence[EffectCall[R_co]],
        consumed: int = 0,
    ) -> None:
        self.group = group
        self._host = host
        self._calls = tuple(calls)
        self._consumed = consumed
        self._handle: GroupHandle | None = None

    @property
    def handle(self) -> GroupHandle:
        """The cursor: what `GroupHandle.to_dict` saves of it continues in another process."""
        if self._handle is None:
            raise RuntimeError(f"group {self.group.key!r} is open inside its `async with` only")
        return self._handle

    async def __aenter__(self) -> Self:
        self._handle = await self._host.open_group(self.group, consumed=self._consumed)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):
            await self._host.close_group(self.handle, self.group.disposition)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Settlement:
        handle = self.handle
        if handle.exhausted:
            raise StopAsyncIteration
        return await self._host.next_settlement(handle)

    async def decide(self, kind: Combinator) -> Verdict:
        """Wait until the ranks decide. Another caller that closes the group changes no rank."""
        ranks: list[Rank] = []
        while True:
            known = len(ranks)
            try:
                settled = await self._host.next_settlements(self.handle)
            except HandleClosed:
                self._handle = await self._host.open_group(self.group, consumed=known)
                continue
            ranks += [self._rank(settlement) for settlement in settled]
            if may_decide(kind, len(self._calls), ranks, known):
                found = verdict(kind, len(self._calls), ranks)
                if found is not None:
                    return found

    def _rank(self, settlement: Settlement) -> Rank:
        shape = self._calls[settlement.position].result
        return settlement.position, rebuilt(settlement.outcome, shape, settlement.replay_key)


def _group_of(
    key: str, calls: Sequence[EffectCall[Any]], wake: WakePolicy, losers: Disposition
) -> EffectGroup:
    require_text(key, "a group")
    children = [call.envelope(key, f"{key}/{place}") for place, call in enumerate(calls)]
    return EffectGroup.of(key, children, wake=wake, disposition=losers)


def _word(losers: str) -> Disposition:
    if losers not in tuple(Disposition):
        raise ValueError(f"losers= takes one of {', '.join(Disposition)}, it got {losers!r}")
    return Disposition(losers)

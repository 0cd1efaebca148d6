"""An actor through which a test talks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast, final, overload

import trio
from trio.testing import wait_all_tasks_blocked

from ..actors import Actor, ActorSystem, Asked, Context, Ref, Request, handles
from ..errors import Reject
from ..mailbox import MailboxStatistics
from ..supervision import Exit

M = TypeVar("M")
Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")

WITHIN: Final = 3.0
"""Seconds, of the run's clock, that an expectation waits by default."""


@dataclass(frozen=True, slots=True)
class _Watch(Request[None]):
    ref: Ref[Any]


class _Recorder(Actor):
    def __init__(self, take: Callable[[Any], Any]) -> None:
        self._take = take

    @handles(object)
    def take(self, message: object) -> Any:
        return self._take(message)

    @handles(_Watch)
    def watch(self, message: _Watch, ctx: Context[Any]) -> None:
        ctx.watch(message.ref)


@final
class Probe(Ref[M], Generic[M]):
    """A ref to hand out, and the messages that came in, in order.

    ``probe = await Probe[Changed].open(system)`` fits wherever a ``Ref[Changed]`` does, and equals
    ``probe.ref``, the actor's own. Expectations take messages off the front and fail with
    `AssertionError`.
    """

    def __init__(self) -> None:
        self._received: deque[Any] = deque()
        self._answers: dict[type[Any], Callable[[Any], Any]] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._ref: Ref[Any] | None = None

    @classmethod
    async def open(cls, system: ActorSystem, *, name: str | None = None) -> Self:
        """Spawn a probe; it stops with its system."""
        probe = cls()
        probe._ref = await system.spawn(_Recorder, probe._take, name=name)
        return probe

    def answers(self, request: type[Asked[Q, R]], reply: Callable[[Q], R], /) -> None:
        """From now on answer requests of this type with what ``reply`` makes of them.

        A request that nobody was told to answer is refused with `Reject`. Both kinds are recorded.
        """
        self._answers[request] = reply

    async def watch(self, ref: Ref[Any], /) -> None:
        """Let a `Terminated` come in when that actor has ended; see `Context.watch`."""
        recorder: Ref[Any] = self.ref
        await recorder.ask(_Watch(ref))

    # --- expectations -----------------------------------------------------------------------------

    @overload
    async def expect(self, what: type[T], /, *, within: float = ...) -> T: ...
    @overload
    async def expect(self, what: T, /, *, within: float = ...) -> T: ...
    async def expect(self, what: Any, /, *, within: float = WITHIN) -> Any:
        """Wait for the next message and return it; it must be of this type, or equal to this one.

        Raises:
            AssertionError: Another message came, or none ``within`` that many seconds.
        """
        is_type = isinstance(what, type)
        wanted = f"a message of type {what.__qualname__}" if is_type else f"{what!r}"
        message = await self._next(wanted, within)
        if not (isinstance(message, what) if is_type else message == what):
            raise AssertionError(f"{self.path} expected {wanted}, got {message!r}")
        return message

    async def expect_none(self, *, for_: float = 0.0) -> None:
        """Fail when a message is there, or comes within ``for_`` seconds.

        0, the default, waits until every task of the run waits: what is under way arrives.
        """
        await wait_all_tasks_blocked()
        if not self._received and for_:
            with trio.move_on_after(for_):
                await self._lot.park()
        if self._received:
            raise AssertionError(f"{self.path} expected no message, got {self._received[0]!r}")

    async def fish(self, predicate: Callable[[Any], bool], /, *, within: float = WITHIN) -> M:
        """Return the first message that ``predicate`` accepts, dropping those before it.

        Raises:
            AssertionError: None came ``within`` that many seconds.
        """
        dropped: list[Any] = []
        deadline = trio.current_time() + within
        while True:
            wanted = "a message that the predicate accepts"
            if dropped:
                wanted += f" (it did not accept {dropped!r:.300})"
            message = await self._next(wanted, deadline - trio.current_time())
            if predicate(message):
                return cast("M", message)
            dropped.append(message)

    async def expect_stopped(self, ref: Ref[Any], /, *, within: float = WITHIN) -> Exit:
        """Wait for the end of an actor and return how it ended.

        Raises:
            AssertionError: It still ran after ``within`` seconds.
        """
        with trio.move_on_after(within):
            return await ref.stopped()
        raise AssertionError(f"{ref.path} still runs after {within} s: {ref.statistics()}")

    def received(self) -> tuple[M, ...]:
        """Return what came in and was not taken by an expectation yet."""
        return tuple(self._received)

    def _take(self, message: Any) -> Any:
        self._received.append(message)
        self._lot.unpark_all()
        if not isinstance(message, Request):
            return None
        for base in type(cast("Any", message)).__mro__:
            if base in self._answers:
                return self._answers[base](message)
        raise Reject(
            f"{self.path} has no answer to {type(cast('Any', message)).__qualname__}; "
            "give it one with probe.answers(...)"
        )

    async def _next(self, wanted: str, within: float) -> Any:
        if not self._received:
            with trio.move_on_after(max(0.0, within)):
                while not self._received:
                    await self._lot.park()
        if not self._received:
            raise AssertionError(f"{self.path} expected {wanted}, got nothing within {within} s")
        return self._received.popleft()

    # --- the ref ----------------------------------------------------------------------------------

    @property
    def ref(self) -> Ref[M]:
        """The ref of the actor behind it, for whoever compares refs by identity."""
        if self._ref is None:
            raise RuntimeError("make a probe with `await Probe.open(system)`")
        return self._ref

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.ref

    def __hash__(self) -> int:
        return hash(self.ref)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self.ref, name)  # what the runtime needs of a ref that it is handed

    @property
    def name(self) -> str:
        """See `Ref.name`."""
        return self.ref.name

    @property
    def path(self) -> str:
        """See `Ref.path`."""
        return self.ref.path

    @property
    def incarnation(self) -> int:
        """See `Ref.incarnation`."""
        return self.ref.incarnation

    def tell(self, message: M, /) -> None:
        """See `Ref.tell`."""
        self.ref.tell(message)

    async def send(self, message: M, /) -> None:
        """See `Ref.send`."""
        await self.ref.send(message)

    async def ask(self, message: Asked[M, R], /) -> R:
        """See `Ref.ask`."""
        return await self.ref.ask(message)

    def stop(self) -> None:
        """See `Ref.stop`."""
        self.ref.stop()

    def drain(self) -> None:
        """See `Ref.drain`."""
        self.ref.drain()

    def kill(self) -> None:
        """See `Ref.kill`."""
        self.ref.kill()

    async def stopped(self) -> Exit:
        """See `Ref.stopped`."""
        return await self.ref.stopped()

    def statistics(self) -> MailboxStatistics:
        """See `Ref.statistics`."""
        return self.ref.statistics()

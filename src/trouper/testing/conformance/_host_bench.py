"""Where the host laws run: a bench that can crash, hold flushes and move the clock.

`HostBench` is the protocol a tier implements; `EmbeddedBench` is the one for the embedded host, on
any `Store`.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

import trio
import trio.testing
from outcome import Outcome

from ..._ids import Incarnation
from ...actors.groups import (
    EffectEnvelope,
    EffectHost,
    EmbeddedHost,
    Runner,
    RunnerResolver,
    SignalRunner,
    open_host,
)
from ...errors import CorruptRecord, StoreClosed
from ...store import TABLES, Store, Submission, Unit
from ...store._base import BaseStore

T = TypeVar("T")
Ending = Literal["shutdown", "crash"]


class Runtime(Protocol):
    """One life on a journal: hosts that share its opening and end with it."""

    async def host(
        self, resolver: RunnerResolver | None = None, *, lease: float = 30.0
    ) -> EffectHost:
        """Start a host; an unwired one when there is no resolver."""
        ...

    async def stop(self, host: EffectHost) -> None:
        """End one host in good order, with no grace; the others live on."""
        ...

    def waits(self, envelope: EffectEnvelope) -> Runner:
        """Return the runner of a wait for a signal, for a resolver of this life to hand out."""
        ...

    def advance(self, seconds: float) -> None:
        """Move the clock of all hosts, at once: no task runs in between."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Return a block in which nothing becomes durable; what was submitted then follows."""
        ...

    async def crash_after(self, units: int) -> None:
        """Return once so many more units are durable. Of the last nobody is told: it is a crash."""
        ...

    def journal(self) -> object:
        """Return everything that is durable, to be compared with ``==``."""
        ...


class HostBench(Protocol):
    """One journal, and the lives it has one after the other."""

    def key(self, name: str) -> str:
        """Return a key that no other run uses."""
        ...

    def runtime(self, ends: Ending = "shutdown") -> AbstractAsyncContextManager[Runtime]:
        """Start a life. Leaving it is an orderly shutdown without grace, or a crash.

        A crash destroys the whole runtime: what was not durable is lost, and nobody is told.
        """
        ...


Subject = Callable[[], Store | EmbeddedHost[Any]]
"""Makes what an embedded bench tries."""


def _store_of(subject: Store | EmbeddedHost[Any]) -> Store:
    """Return the store under a host: the bench starts several on it, and lies between."""
    return subject.store if isinstance(subject, EmbeddedHost) else subject


class EmbeddedBench:
    """The bench of the embedded host: of `MemoryHost`, of `LmdbHost`, or on any other store.

    Args:
        make: Returns the host of this journal, or its store, closed; called for each life.
        clock: The clock of the running loop.
    """

    def __init__(self, make: Subject, clock: trio.testing.MockClock) -> None:
        self._make = make
        self._clock = clock
        self._run = secrets.token_hex(4)

    def key(self, name: str) -> str:
        """See `HostBench.key`."""
        return f"{self._run}/{name}"

    @asynccontextmanager
    async def runtime(self, ends: Ending = "shutdown") -> AsyncGenerator[Runtime, None]:
        """See `HostBench.runtime`."""
        failure: Exception | None = None
        async with HoldableStore(_store_of(self._make())) as store, trio.open_nursery() as nursery:
            life = _Life(store, nursery, self._clock)
            try:
                yield life
            except Exception as error:
                failure = error  # a law's own error, not wrapped in a group by the nursery
            finally:
                if ends == "crash" or failure is not None:
                    store.cut()
                await life.end()
        if failure is not None:
            raise failure


class _Life:
    def __init__(
        self, store: HoldableStore, nursery: trio.Nursery, clock: trio.testing.MockClock
    ) -> None:
        self._store = store
        self._nursery = nursery
        self._clock = clock
        self._stops: dict[Incarnation, tuple[trio.Event, trio.Event]] = {}
        self.hold = store.hold
        self.crash_after = store.crash_after
        self.advance = clock.jump

    async def host(
        self, resolver: RunnerResolver | None = None, *, lease: float = 30.0
    ) -> EffectHost:
        """See `Runtime.host`."""
        host: EffectHost = await self._nursery.start(self._serve, resolver, lease)
        return host

    async def _serve(
        self,
        resolver: RunnerResolver | None,
        lease: float,
        task_status: trio.TaskStatus[EffectHost],
    ) -> None:
        asked, ended = trio.Event(), trio.Event()
        try:
            async with open_host(self._store, resolver, lease=lease, shutdown=0) as host:
                self._stops[host.owner] = (asked, ended)
                task_status.started(host)
                await asked.wait()
        except BaseException:
            if not self._store.is_cut:
                raise
        finally:
            ended.set()

    def waits(self, envelope: EffectEnvelope) -> Runner:
        """See `Runtime.waits`."""
        return SignalRunner(self._store, envelope)

    async def stop(self, host: EffectHost) -> None:
        """See `Runtime.stop`."""
        asked, ended = self._stops[host.owner]
        asked.set()
        await ended.wait()

    async def end(self) -> None:
        """End every host."""
        with trio.CancelScope(shield=True):
            for asked, _ in self._stops.values():
                asked.set()
            for _, ended in self._stops.values():
                await ended.wait()

    def journal(self) -> object:
        """See `Runtime.journal`."""
        return {table: self._store.scan(table, b"", object) for table in TABLES}


@dataclass(frozen=True, slots=True)
class _Sent:
    outer: Submission
    unit: Unit[Any]
    inner: Submission


class HoldableStore(BaseStore):
    """A store whose flushes can be held back, and which can be cut off as by ``kill -9``."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._holds = False
        self._held: deque[Submission] = deque()
        self._sent: deque[_Sent] = deque()  # without a verdict yet
        self._units = -1  # left until the crash, when one is arranged
        self._crashed = trio.Event()
        self.is_cut = False

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        self.epoch = self._inner.epoch
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    @property
    def name(self) -> str:
        """See `Store.name`."""
        return self._inner.name

    @property
    def is_open(self) -> bool:
        """See `Store.is_open`."""
        return self._inner.is_open

    def next_owner(self) -> Incarnation:
        """See `Store.next_owner`."""
        return self._inner.next_owner()

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Store.get`."""
        return self._inner.get(table, key, kind)

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[T],
        *,
        after: bytes = b"",
        limit: int | None = None,
        damaged: Callable[[CorruptRecord], None] | None = None,
    ) -> list[tuple[bytes, T]]:
        """See `Store.scan`."""
        return self._inner.scan(table, prefix, kind, after=after, limit=limit, damaged=damaged)

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """See `Store.submit`."""
        if self.is_cut:
            raise StoreClosed("this life is over", store=self.name)

        def tell(verdict: Outcome[Any]) -> None:
            self._units -= 1
            if self._units == 0:
                self.cut()
            if not self.is_cut:
                self._sent.popleft()
                done(verdict)

        submission = Submission(unit, tell)
        if self._holds:
            self._held.append(submission)
        else:
            self._forward(submission)
        return submission

    def _forward(self, submission: Submission) -> None:
        unit = submission.take()
        if unit is not None:
            inner = self._inner.submit(unit, submission.done)
            self._sent.append(_Sent(submission, unit, inner))

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """See `Runtime.hold`."""
        self._holds = True
        try:
            yield
        finally:
            self._holds = False
            while self._held and not self.is_cut:
                self._forward(self._held.popleft())

    async def crash_after(self, units: int) -> None:
        """See `Runtime.crash_after`."""
        self._units = units
        if units == 0:
            self.cut()
        await self._crashed.wait()

    def cut(self) -> None:
        """Lose what the writer has not picked up, and tell nobody about the rest."""
        self.is_cut = True
        self._held.clear()
        for sent in self._sent:
            sent.inner.withdraw()
            sent.outer.orphan(sent.unit)  # nobody answers: whoever waits may leave
        self._sent.clear()
        self._crashed.set()

"""The durable side of a system: store, effect host, activations and runner kinds, wired together.

Order matters: the resolver is registered, then the deployment is validated, then recovery runs; and
on the way out activations leave memory before the host stops their running work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import trio

from ..errors import ShuttingDown
from ..mailbox import Dispatcher
from ..store import Store
from ..supervision import TreeNode
from ._drain_first import require_drained
from .activations import ActivationRunner, Activations
from .groups import (
    Activity,
    ActivityRegistry,
    Clock,
    Effect,
    EffectEnvelope,
    EffectHost,
    EffectRunner,
    Runner,
    SignalRunner,
    TimerRunner,
)
from .operations import Operations

if TYPE_CHECKING:
    from ._parts import Parts

T = TypeVar("T")
Drifted = Literal["refuse", "park"]
THREADS = max(4, 2 * (os.cpu_count() or 2))


class Owner(Protocol):
    """What this needs of the system that it serves."""

    @property
    def dispatcher(self) -> Dispatcher:
        """Return the ready queue and its workers."""
        ...

    def fail(self, error: BaseException) -> None:
        """End the system with this error."""
        ...


class RunnerKind(Protocol):
    """A kind of runner that a system is given from outside, such as a pool of cells."""

    @property
    def kind(self) -> str:
        """Return the envelope kind that it runs."""
        ...

    def resolve(self, activity: Activity[..., Any], envelope: EffectEnvelope) -> Runner | None:
        """Return a fresh, single-use runner, or None: a routing fact."""
        ...

    async def __aenter__(self) -> object:
        """Open."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None:
        """Close; everything it ran has ended."""
        ...

    def tree(self) -> TreeNode:
        """Return its part of the supervision tree."""
        ...


class DurableSide:
    """Store, effect host, activations and operations of one system; one of its services.

    ``store`` and ``kinds`` are open before this opens, and close after it.
    """

    def __init__(
        self,
        store: Store,
        kinds: Iterable[RunnerKind],
        listed: Iterable[Activity[..., Any]],
        *,
        shutdown: float,
        history_limit: int,
        signal_limit: int,
        keep_groups: bool,
        drifted: Drifted,
        parts: Parts,
    ) -> None:
        if drifted not in ("refuse", "park"):
            raise ValueError(f"drifted takes 'refuse' or 'park', not {drifted!r}")
        self.store = store
        self.registry = ActivityRegistry(listed)
        self._kinds: Mapping[str, RunnerKind] = {kind.kind: kind for kind in kinds}
        self._shutdown = shutdown
        self._history_limit = history_limit
        self._signal_limit = signal_limit
        self._keep_groups = keep_groups
        self._drifted = drifted
        self._parts = parts
        self._threads = trio.CapacityLimiter(THREADS)
        self._clock: Clock
        self._own: trio.CancelScope | None = None
        self._host: EffectHost | None = None
        self._activations: Activations | None = None
        self._operations: Operations | None = None

    @property
    def host(self) -> EffectHost:
        """Return the effect host."""
        return _opened(self._host)

    @property
    def activations(self) -> Activations:
        """Return the activations."""
        return _opened(self._activations)

    @property
    def operations(self) -> Operations:
        """Return the operations."""
        return _opened(self._operations)

    async def open(self, nursery: trio.Nursery, system: Owner) -> None:
        """Wire, validate, then recover."""
        self._clock = self._parts.clock()
        self._own = trio.CancelScope()
        ready = _Ready()
        nursery.start_soon(_own_nursery, self._own, ready)
        with trio.CancelScope(shield=True):  # it comes in the next tick
            await ready.event.wait()
        own = self._parts.tasks(ready.nursery)
        host = EffectHost(
            self.store,
            system.dispatcher,
            own,
            self._clock,
            system.fail,
            signal_limit=self._signal_limit,
        )
        self._host = host
        self._activations = Activations(
            host,
            self.registry,
            new_key=self._parts.new_key,
            history_limit=self._history_limit,
            keep_groups=self._keep_groups,
        )
        self._operations = Operations(host)
        host.register(self.resolve)
        self.registry.require_unambiguous()
        if self._drifted == "refuse":
            require_drained(self.store, self.registry)
        self._activations.recover()

    def resolve(self, envelope: EffectEnvelope) -> Runner | None:
        """Compose the runner kinds of this system into the host's one resolver."""
        if envelope.kind == "timer":
            return TimerRunner(self._clock)
        if envelope.kind == "signal":
            return SignalRunner(self.store, envelope)
        if envelope.kind == "activation":
            # A child whose code is unknown is created and parked, visible, rather than refused.
            return ActivationRunner(self.activations, envelope)
        activity = self.registry.find(envelope.kind, envelope.name)
        if activity is None:
            return None
        if isinstance(activity, Effect):
            return EffectRunner(activity, envelope, self._threads)
        kind = self._kinds.get(envelope.kind)
        return None if kind is None else kind.resolve(activity, envelope)

    async def close(self, mode: str) -> None:
        """Give running effects their budget, then end them; nothing is cancelled (ruling 14)."""
        try:
            if self._activations is not None:
                self._activations.begin_close()
            if self._host is not None:
                await self._host.close(self._shutdown if mode == "normal" else 0.0)
        finally:
            if self._activations is not None:
                self._activations.close()
            if self._own is not None:
                self._own.cancel()

    def tree(self) -> TreeNode:
        """Return the durable part of the supervision tree."""
        counts = {"running": self.host.running, "settled": self.host.settled}
        kinds = tuple(kind.tree() for kind in self._kinds.values())
        return TreeNode("host", "service", "running", counts, (self.activations.tree(), *kinds))


class _Ready:
    """Where the nursery of the durable side says that it is open."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        self.event = trio.Event()


@trio.lowlevel.enable_ki_protection
async def _own_nursery(scope: trio.CancelScope, ready: _Ready) -> None:
    # Shielded: an outer cancel must not reach running effects before the host closes in order. Not
    # by `nursery.start`: interrupted, that waits for what its cancel cannot reach.
    scope.shield = True
    with scope:
        async with trio.open_nursery() as ready.nursery:
            ready.event.set()
            await trio.sleep_forever()


def _opened(part: T | None) -> T:
    if part is None:
        raise ShuttingDown("the system is not open yet, or not any more")
    return part

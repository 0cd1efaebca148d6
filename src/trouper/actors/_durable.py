"""The durable side of a system: store, effect host, activations and runner kinds, wired together.

Order matters: the resolver is registered, then the deployment is validated, then recovery runs; and
on the way out activations leave memory before the host stops their running work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import trio

from ..errors import TrouperError
from ..mailbox import Dispatcher
from ..store import Store
from ..supervision import TreeNode
from .activations import ActivationRunner, Activations
from .groups import (
    Activity,
    ActivityRegistry,
    Effect,
    EffectEnvelope,
    EffectHost,
    EffectRunner,
    Runner,
    TimerRunner,
    WallClock,
)
from .operations import Operations

THREADS = max(4, 2 * (os.cpu_count() or 2))


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

    async def __aexit__(self, *exc_info: object) -> object:
        """Close; everything it ran has ended."""
        ...

    def tree(self) -> TreeNode:
        """Return its part of the supervision tree."""
        ...


class DurableSide:
    """What `open_system` opens beside the messaging core. One per system."""

    def __init__(
        self,
        store: Store,
        kinds: Iterable[RunnerKind],
        listed: Iterable[Activity[..., Any]],
        *,
        shutdown: float,
        history_limit: int,
    ) -> None:
        self._history_limit = history_limit
        self.store = store
        self.registry = ActivityRegistry(listed)
        self._kinds: Mapping[str, RunnerKind] = {kind.kind: kind for kind in kinds}
        self._shutdown = shutdown
        self._threads = trio.CapacityLimiter(THREADS)
        self.host: EffectHost
        self.activations: Activations
        self.operations: Operations
        self._clock: WallClock

    def open(
        self,
        nursery: trio.Nursery,
        dispatcher: Dispatcher,
        fail: Callable[[BaseException], None],
    ) -> None:
        """Wire, validate, then recover. The store is open."""
        self._clock = WallClock()
        self.host = EffectHost(self.store, dispatcher, nursery, self._clock, fail)
        self.activations = Activations(self.host, self.registry, history_limit=self._history_limit)
        self.operations = Operations(self.host)
        self.host.register(self.resolve)
        self.registry.require_unambiguous()
        if not self.host.supports_groups:
            raise TrouperError("the effect host came up without a runner resolver")
        self.activations.recover()

    def resolve(self, envelope: EffectEnvelope) -> Runner | None:
        """Compose the runner kinds of this system into the host's one resolver."""
        if envelope.kind == "timer":
            return TimerRunner(self._clock)
        activity = self.registry.find(envelope.kind, envelope.name)
        if envelope.kind == "activation":
            # A child whose code is unknown is created and parked, visible, rather than refused.
            return ActivationRunner(self.activations, envelope)
        if activity is None:
            return None
        if isinstance(activity, Effect):
            return EffectRunner(activity, envelope, self._threads)
        kind = self._kinds.get(envelope.kind)
        return None if kind is None else kind.resolve(activity, envelope)

    async def close(self) -> None:
        """Give running effects their budget, then end them; nothing is cancelled (ruling 14)."""
        self.activations.closing = True
        await self.host.close(self._shutdown)
        self.activations.close()

    def tree(self) -> list[TreeNode]:
        """Return the durable part of the supervision tree."""
        return [self.activations.tree(), *(kind.tree() for kind in self._kinds.values())]

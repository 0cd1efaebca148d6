"""Where the operation laws run: owners of operations on one journal, in lives that may crash."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    suppress,
)
from typing import Any, Protocol

import trio
import trio.testing

from ...actors.groups import EffectHost
from ...actors.groups._roster import roster_of
from ...actors.operations import Operation, Operations, OperationState
from ...errors import TrouperError
from ._host_bench import EmbeddedBench, Ending, Runtime, Subject


class OperationOwner(Protocol):
    """Whoever gives out operations: `Operations` of one host, or what stands for them."""

    async def open(self, key: str, request: Any) -> Operation:
        """Return the operation of that key, recording the request on first use."""
        ...

    async def forget(self, key: str) -> None:
        """Take an operation out of the journal."""
        ...


class OperationRuntime(Protocol):
    """One life on a journal, with any number of owners that share its opening."""

    async def owner(self, *, observations: int = 32) -> OperationOwner:
        """Start an owner whose records keep so many observations."""
        ...

    async def stop(self, owner: OperationOwner) -> None:
        """End one owner in good order, with no grace; the others live on."""
        ...

    def presume_dead(self, owner: OperationOwner) -> None:
        """Tell everybody that an owner is gone, while it still runs: claims of it are free."""
        ...

    def advance(self, seconds: float) -> None:
        """Move the clock, at once: no task runs in between."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Return a block in which nothing becomes durable; what was submitted then follows."""
        ...

    def journal(self) -> object:
        """Return everything that is durable, to be compared with ``==``."""
        ...


class OperationBench(Protocol):
    """One journal, and the lives it has one after the other."""

    def key(self, name: str) -> str:
        """Return a key that no other run uses."""
        ...

    def runtime(self, ends: Ending = "shutdown") -> AbstractAsyncContextManager[OperationRuntime]:
        """Start a life. Leaving it is an orderly shutdown without grace, or a crash."""
        ...


class EmbeddedOperations:
    """The bench of the embedded operations.

    Args:
        make: Returns the host of this journal, or its store, closed; called for each life.
        clock: The clock of the running loop.
    """

    def __init__(self, make: Subject, clock: trio.testing.MockClock) -> None:
        self._bench = EmbeddedBench(make, clock)
        self.key = self._bench.key

    @asynccontextmanager
    async def runtime(self, ends: Ending = "shutdown") -> AsyncGenerator[OperationRuntime, None]:
        """See `OperationBench.runtime`."""
        async with self._bench.runtime(ends) as life:
            yield _Life(life)


class _Life:
    def __init__(self, life: Runtime) -> None:
        self._life = life
        self._hosts: dict[OperationOwner, EffectHost] = {}
        self.hold, self.advance, self.journal = life.hold, life.advance, life.journal

    async def owner(self, *, observations: int = 32) -> OperationOwner:
        """See `OperationRuntime.owner`."""
        host = await self._life.host()
        owner = Operations(host, observations=observations)
        self._hosts[owner] = host
        return owner

    async def stop(self, owner: OperationOwner) -> None:
        """See `OperationRuntime.stop`."""
        await self._life.stop(self._hosts[owner])

    def presume_dead(self, owner: OperationOwner) -> None:
        """See `OperationRuntime.presume_dead`."""
        host = self._hosts[owner]
        roster_of(host.store).leave(host)


async def tried(call: Awaitable[object]) -> None:
    """Call, where it does not matter what this caller is told."""
    with suppress(TrouperError):
        await call


async def read(life: OperationRuntime, key: str) -> OperationState:
    """Read a record from the journal, behind everything that is on its way to it."""
    found = OperationState()
    for _ in range(3):  # a writer has one unit in flight, and what waits behind it
        await trio.testing.wait_all_tasks_blocked()
        operation = await (await life.owner()).open(key, None)  # a unit behind all others
        found = operation.record
    return found


class Attempts:
    """What an operation runs in a law: counts attempts, and holds each at a gate of its own."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results) or [7]  # by attempt; the last one serves all that follow
        self.keys: list[str] = []
        self.gates: list[trio.Event] = [trio.Event() for _ in range(8)]
        self.ended = [trio.Event() for _ in range(8)]
        self.begun = [trio.Event() for _ in range(8)]

    async def run(self, key: str) -> Any:
        """Wait at the gate; then return the result, or raise it."""
        number = len(self.keys)
        self.keys.append(key)
        self.begun[number].set()
        try:
            await self.gates[number].wait()
        finally:
            self.ended[number].set()
        result = self.results[min(number, len(self.results) - 1)]
        if isinstance(result, Exception):
            raise result
        return result

    def release(self) -> None:
        """Open every gate."""
        for gate in self.gates:
            gate.set()

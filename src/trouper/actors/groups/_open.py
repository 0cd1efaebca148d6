"""A bare host: groups without a system, for whoever brings a resolver of his own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from ...mailbox import Dispatcher
from ...store import Store
from ._host import LEASE, EffectHost
from ._runner import RunnerResolver
from ._signals import SIGNALS_KEPT
from ._timer import WallClock


@asynccontextmanager
async def open_host(
    store: Store,
    resolver: RunnerResolver | None = None,
    *,
    lease: float = LEASE,
    shutdown: float = 5.0,
    signal_limit: int = SIGNALS_KEPT,
) -> AsyncGenerator[EffectHost, None]:
    """Open an effect host on a store that is open, or open the store with it.

    Leaving the block gives running children ``shutdown`` seconds, then ends them without a
    terminal: whoever opens the group again goes on where it was. Without a resolver the host is
    unwired.
    """
    failure: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        owned = not store.is_open
        if owned:
            await store.__aenter__()

        def fail(error: BaseException) -> None:
            failure.append(error)
            body.cancel()

        dispatcher = Dispatcher(nursery, fail)
        host = EffectHost(
            store, dispatcher, nursery, WallClock(), fail, lease=lease, signal_limit=signal_limit
        )
        if resolver is not None:
            host.register(resolver)
        try:
            with trio.CancelScope() as body:
                yield host
        finally:
            with trio.CancelScope(shield=True):
                try:
                    await host.close(shutdown)
                finally:  # workers end with the dispatcher only, never by a cancel
                    await dispatcher.close()
                    if owned:
                        await store.__aexit__(None, None, None)
            nursery.cancel_scope.cancel()
    if failure:
        raise failure[0]

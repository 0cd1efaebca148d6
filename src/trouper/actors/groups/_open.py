"""A bare host: groups without a system, for whoever brings a resolver of his own."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from ...mailbox import Dispatcher
from ...store import Store
from .._seconds import check_seconds
from ._host import LEASE, EffectHost
from ._runner import RunnerResolver
from ._signals import SIGNALS_KEPT
from ._timer import WallClock


def check_terms(lease: float, shutdown: float) -> None:
    """Refuse terms on which no host could hold a claim, or end.

    Raises:
        TypeError, ValueError: Saying which one it is, and what is wrong with it.
    """
    check_seconds("shutdown", shutdown)
    if not 0 < check_seconds("lease", lease) < math.inf:
        raise ValueError(f"lease must be more than 0 seconds, and finite, not {lease}")


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
    unwired. An error of the block leaves it as itself.

    Raises:
        TypeError, ValueError: An option cannot be. The store stays as it is.
    """
    check_terms(lease, shutdown)
    failures: list[BaseException] = []
    async with AsyncExitStack() as around:
        if not store.is_open:
            await around.enter_async_context(store)
        async with trio.open_nursery() as nursery:
            body = trio.CancelScope()

            def fail(error: BaseException) -> None:
                failures.append(error)
                body.cancel()

            host: EffectHost | None = None
            dispatcher = Dispatcher(nursery, fail)
            try:
                host = EffectHost(
                    store,
                    dispatcher,
                    nursery,
                    WallClock(),
                    fail,
                    lease=lease,
                    signal_limit=signal_limit,
                )
                if resolver is not None:
                    host.register(resolver)
                with body:
                    yield host
            except BaseException as error:
                failures.append(error)  # to leave as itself, and not in a group of the nursery
            finally:
                with trio.CancelScope(shield=True):
                    try:
                        if host is not None:
                            await host.close(shutdown)
                    finally:  # workers end with the dispatcher only, never by a cancel
                        await dispatcher.close()
                nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]

"""The two embedded tiers by name: the one host there is, on the one store or on the other."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar, final

from ...store import LmdbStore, MemoryStore, Store
from ._host import LEASE, EffectHost
from ._open import check_terms, open_host
from ._runner import RunnerResolver
from ._signals import SIGNALS_KEPT

S_co = TypeVar("S_co", bound=Store, covariant=True)


class EmbeddedHost(Generic[S_co]):
    """What a tier has in common: a store, and a host on it for the length of a block.

    Entering it gives an `EffectHost`, as `open_host` does; entering it again afterwards is the next
    life of the same journal. For several hosts on one store, open the store around them.

    Args:
        store: The journal. One that is not open is opened and closed with the block.
        resolver: The one way from an envelope to a runner; without it the host is unwired.
        lease: Seconds for which a claim holds; its host renews it while the work runs.
        shutdown: Seconds that running children have when the block is left.
        signal_limit: Signals kept for one name at one address.

    Raises:
        TypeError, ValueError: An option cannot be, or what is given is no resolver.
    """

    def __init__(
        self,
        store: S_co,
        resolver: RunnerResolver | None,
        lease: float,
        shutdown: float,
        signal_limit: int,
    ) -> None:
        if resolver is not None and not callable(resolver):
            raise TypeError(
                f"a resolver is a function from an envelope to a runner, {resolver!r:.80} is none"
            )
        check_terms(lease, shutdown)
        self.store = store
        self._resolver = resolver
        self._lease = lease
        self._shutdown = shutdown
        self._signal_limit = signal_limit
        self._open: AbstractAsyncContextManager[EffectHost] | None = None

    async def __aenter__(self) -> EffectHost:
        if self._open is not None:
            raise RuntimeError(
                f"this {type(self).__name__} is open already; for a second host on its store, "
                "make another one of `.store`"
            )
        self._open = open_host(
            self.store,
            self._resolver,
            lease=self._lease,
            shutdown=self._shutdown,
            signal_limit=self._signal_limit,
        )
        try:
            return await self._open.__aenter__()
        except BaseException:
            self._open = None
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        opened, self._open = self._open, None
        assert opened is not None
        return await opened.__aexit__(kind, error, traceback)


@final
class MemoryHost(EmbeddedHost[MemoryStore]):
    """The tier for tests and for work that need not outlive the process.

        async with MemoryHost(resolver) as host:
            handle = await host.open_group(group)

    The journal is ``.store`` and lives as long as this object, or the store that was given.
    """

    def __init__(
        self,
        resolver: RunnerResolver | None = None,
        *,
        store: MemoryStore | None = None,
        lease: float = LEASE,
        shutdown: float = 5.0,
        signal_limit: int = SIGNALS_KEPT,
    ) -> None:
        journal = MemoryStore() if store is None else store
        _require_own(journal, MemoryStore, "MemoryHost(store=)")
        super().__init__(journal, resolver, lease, shutdown, signal_limit)


@final
class LmdbHost(EmbeddedHost[LmdbStore]):
    """The tier that survives ``kill -9``: a journal in a directory.

        async with LmdbHost("jobs", resolver) as host:
            handle = await host.open_group(group)

    Args:
        store: A path, or an `LmdbStore` with options of its own.
        resolver: As in `MemoryHost`, like all that follows.
    """

    def __init__(
        self,
        store: LmdbStore | str | os.PathLike[str],
        resolver: RunnerResolver | None = None,
        *,
        lease: float = LEASE,
        shutdown: float = 5.0,
        signal_limit: int = SIGNALS_KEPT,
    ) -> None:
        journal = LmdbStore(store) if isinstance(store, str | os.PathLike) else store
        _require_own(journal, LmdbStore, "LmdbHost()")
        super().__init__(journal, resolver, lease, shutdown, signal_limit)


def _require_own(store: object, kind: type[Any], what: str) -> None:
    if not isinstance(store, kind):
        raise TypeError(
            f"{what} takes {'a path or an' if kind is LmdbStore else 'a'} {kind.__name__}, it got "
            f"{store!r:.80}; on any other store, `open_host(store)` opens a host"
        )

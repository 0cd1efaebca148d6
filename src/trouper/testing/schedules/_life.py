"""One life of the system under test: from its start to its end, or to a crash."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import trio

from ...actors import ActorSystem
from ...actors._lifecycle import shut
from ...actors._open import open_staged
from ...store import Store

if TYPE_CHECKING:
    from ._engine import GatedParts

NAME: Final = "sim"

_LOGGER: Final = "trouper"
_MUTE: Final = logging.CRITICAL + 1


class _Crashed(Exception):
    """Ends the block of a system that has crashed."""


@final
class Life:
    """A task that holds a system open, and the clients beside it."""

    def __init__(self, parts: GatedParts, store: Store, options: dict[str, Any]) -> None:
        self._open: Callable[[], Any] = lambda: open_staged(parts, NAME, store=store, **options)
        self._over = trio.Event()
        self._crashed = False
        self._level: int | None = None  # of the logger, while this life logs nothing
        self.up = trio.Event()
        self.ended = trio.Event()
        self.is_leaving = False  # the system ends, whoever wanted that
        self.error: BaseException | None = None
        self.system: ActorSystem
        self.clients: trio.Nursery

    async def run(self, begin: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Open the system, begin, and hold it open until it is over. Never raises."""
        try:
            async with self._open() as self.system:
                try:
                    async with trio.open_nursery() as self.clients:
                        for fn in begin:
                            await fn()
                        self.up.set()
                        await self._over.wait()
                        self.clients.cancel_scope.cancel()
                finally:
                    self.is_leaving = True
                if self._crashed:
                    raise _Crashed
        except BaseException as exc:
            if not self._crashed:
                self.error = exc
        finally:
            self.is_leaving = True
            if self._level is not None:
                logging.getLogger(_LOGGER).setLevel(self._level)
                self._level = None
            self.ended.set()
            self.up.set()

    def end(self) -> None:
        """Let the system close."""
        self._over.set()

    def crash(self) -> None:
        """End it without its doing anything more: no turn goes on, no hook runs.

        Nor does it log: that the journal is gone is news to no process that was killed.
        """
        self._crashed = True
        logger = logging.getLogger(_LOGGER)
        if self._level is None:
            self._level = logger.level
            logger.setLevel(_MUTE)
        if hasattr(self, "system"):  # else it is not even open
            for ref in self.system._runtime.walk():  # pyright: ignore[reportPrivateUsage]
                shut(ref, "kill")
                ref.target = None
        self._over.set()

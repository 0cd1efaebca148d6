"""asyncio inside actors: one asyncio loop per system, on top of trio, opened by its first use.

It outlives the actors, so that what an actor opened in ``started`` it can close in ``stopping``.
trio-asyncio is an extra and is imported by the first call.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, final

import trio

from ..errors import ExtraMissing, ShuttingDown
from ._callables import require_function

if TYPE_CHECKING:
    from ..mailbox import Mailbox
    from ._local import LocalRef

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

log = logging.getLogger("trouper.actors")


class ForeignCall:
    """A call into asyncio. Tasks that it makes there wait on behalf of ``box`` until it is over."""

    __slots__ = ("box",)

    def __init__(self, box: Mailbox) -> None:
        self.box: Mailbox | None = box


FOREIGN: ContextVar[ForeignCall | None] = ContextVar("trouper foreign call", default=None)


@final
class AsyncioHost:
    """Opens the loop on first use, in a task of its own, and closes it when told.

    Args:
        nursery: Of the system.
        fail: Ends the system with an error; told what ends the loop before its time.
    """

    def __init__(self, nursery: trio.Nursery, fail: Callable[[BaseException], None]) -> None:
        self._nursery = nursery
        self._fail = fail
        self._module: Any = None
        self._loop: Any = None
        self._is_open = trio.Event()  # or has failed to
        self._closing = trio.Event()

    async def call(
        self, ref: LocalRef, fn: Callable[[Unpack[Ts]], Awaitable[T]], args: tuple[*Ts]
    ) -> T:
        """Call an asyncio function for an actor and wait for it. See `Context.aio`."""
        from asyncio import CancelledError

        require_function("ctx.aio", fn)
        if self._module is None:
            self._module = _trio_asyncio()
            self._nursery.start_soon(self._run, name="trouper asyncio loop")
        await self._is_open.wait()
        if self._loop is None or self._closing.is_set():
            raise ShuttingDown("the asyncio loop of this system has ended")
        ref.dispatcher.home.foreign = FOREIGN
        call = ForeignCall(ref)
        before = FOREIGN.set(call)
        # asyncio code finds the way back (`trio_as_aio`) through this variable.
        loop_before = self._module.current_loop.set(self._loop)
        try:
            result: T = await self._module.aio_as_trio(fn, loop=self._loop)(*args)
            return result
        except CancelledError as exc:  # trio's own cancellation comes out as Cancelled
            raise RuntimeError(f"{ref.path}: asyncio code was cancelled from inside") from exc
        finally:
            call.box = None
            self._module.current_loop.reset(loop_before)
            FOREIGN.reset(before)

    def close(self) -> None:
        """End the loop and its tasks; the nursery waits for them."""
        self._closing.set()

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        # Shielded: an outer cancel must not end it before the actors have stopped in order.
        try:
            with trio.CancelScope(shield=True):
                async with self._module.open_loop() as loop:
                    loop.set_exception_handler(_log)
                    self._loop = loop
                    self._is_open.set()
                    await self._closing.wait()
        except BaseException as exc:
            self._fail(exc)
        finally:
            self._loop = None
            self._is_open.set()


def _log(loop: Any, context: dict[str, Any]) -> None:
    """Treat what nobody awaited as asyncio does, which logs it; trio-asyncio would end the loop."""
    log.error("asyncio: %s", context.get("message"), exc_info=context.get("exception"))


def _trio_asyncio() -> Any:
    try:
        with warnings.catch_warnings():
            # From Python 3.12 on asyncio deprecates a class that trio-asyncio derives from.
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module("trio_asyncio")
    except ModuleNotFoundError as missing:
        if missing.name != "trio_asyncio":
            raise
        raise ExtraMissing(
            "ctx.aio needs trio-asyncio: pip install 'trouper[asyncio]'",
            name=missing.name,
            extra="asyncio",
        ) from None

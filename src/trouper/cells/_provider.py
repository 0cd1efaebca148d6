"""Running providers: tasks and threads that belong to the activation, not to the guest's call.

A provider holds its permit and its bytes until it is physically done, whatever became of the
guest. An ``async`` one runs in a task of the pool's nursery, inside the activation's own cancel
scope; a plain one runs in a worker thread, which cannot be cancelled and is therefore waited for,
by the cell, up to the cleanup cap.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import outcome
import trio

from ._activation import Activation, trapped
from ._guest import Guest, Import, ProviderContext
from ._transport import Transport

Closer = Callable[[outcome.Outcome[object]], None]

log = logging.getLogger("trouper.cells")


def begin(
    activation: Activation,
    name: str,
    request: bytes,
    nursery: trio.Nursery,
    transport: Transport,
    closed: Closer,
) -> None:
    """Start a provider; ``closed`` is called on the loop's thread when it is physically done."""
    provider = activation.guest.imports[name]
    context = ProviderContext(activation.key, activation.guest.name, activation.ordinal)
    activation.ordinal += 1
    arguments = (request, context) if provider.wants_context else (request,)
    if provider.is_async:
        activation.requests.append((provider, arguments, closed))
        if activation.served is None:
            activation.served = trio.lowlevel.ParkingLot()
            activation.context.run(nursery.start_soon, _serve, activation, activation.served)
        else:
            activation.served.unpark()
    else:
        transport.provide(partial(activation.context.run, provider.call, *arguments), closed)


@trio.lowlevel.enable_ki_protection
async def _serve(activation: Activation, lot: trio.lowlevel.ParkingLot) -> None:
    # One task for all calls of a run: the guest waits for each, so there is one at a time.
    with activation.providers:
        while True:
            while not activation.requests:
                await lot.park()
            provider, arguments, closed = activation.requests.pop()
            result = await outcome.acapture(_call, provider, arguments)
            dying = activation.bridge.dying
            closed(result)
            if isinstance(result, outcome.Error):
                _let_cancelled_go(result.error, dying)
            del result


@trio.lowlevel.disable_ki_protection
async def _call(provider: Import, arguments: tuple[Any, ...]) -> object:
    result: object = await provider.call(*arguments)
    return result


def _let_cancelled_go(error: BaseException, dying: bool) -> None:
    """Raise what of ``error`` is trio's cancellation: it belongs to the scope it is on its way to.

    Anything else went to the caller - or, after a kill, to the log, for nobody waits for it.
    """
    cancelled, rest = _split(error)
    if dying and rest is not None:
        log.warning("a provider failed after its run was killed", exc_info=rest)
    if cancelled is not None:
        raise cancelled


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return what of ``error`` is trio's cancellation, and what is not."""
    if isinstance(error, trio.Cancelled):
        return error, None
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(trio.Cancelled)
    return None, error


def answer(guest: Guest, size: int, result: outcome.Outcome[object]) -> bytes | BaseException:
    """Return the response for the guest, or the error its run ends with."""
    if isinstance(result, outcome.Error):
        error = result.error
        if _split(error)[0] is not None:
            # Only the kill cancels a provider, and then nobody asks: this one was kept and raised.
            return RuntimeError(
                f"a provider of guest {guest.name!r} raised a trio.Cancelled that no scope sent"
            )
        return error
    assert isinstance(result, outcome.Value)
    value: object = result.value
    if not isinstance(value, bytes | bytearray | memoryview):
        if inspect.iscoroutine(value):
            value.close()
        return TypeError(
            f"a provider of guest {guest.name!r} must return bytes, not {type(value).__name__}"
        )
    response = bytes(cast("bytes", value))
    if size + len(response) > guest.limits.staged_bytes:
        return trapped(
            guest,
            "staged_bytes",
            f"a request of {size} bytes got a response of {len(response)}, together more than "
            f"{guest.limits.staged_bytes}: raise GuestLimits(staged_bytes=) or answer in parts",
        )
    return response

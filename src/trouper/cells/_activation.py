"""One run of a guest as the loop sees it: who waits for it, what it was decided to be."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import outcome
import trio

from ..errors import GuestTrapped, OutOfFuel, TrouperError
from ._guest import Guest, Import
from ._shim import Bridge

if TYPE_CHECKING:
    from ._wasm import Frame, Image


class Activation:
    """Written on the loop's thread only, but for the bridge's queue.

    The first decision stands: a result that arrived before the cancel is the result, and a result
    that arrives after it is dropped. Only a KeyboardInterrupt is never traded for a decision.
    """

    __slots__ = (
        "_decided",
        "_raise_cancel",
        "_task",
        "bridge",
        "context",
        "data",
        "guest",
        "image",
        "key",
        "ordinal",
        "providers",
        "requests",
        "scope",
        "served",
    )

    def __init__(self, guest: Guest, image: Image, data: bytes, key: str) -> None:
        self.guest = guest
        self.image = image
        self.data = data
        self.key = key
        self.bridge = Bridge()
        self.scope = trio.CancelScope()  # of the caller's wait; its deadline starts with the run
        # Of the async providers; ends with the run, and by nothing else: whoever waits for the run
        # may be shielded from what cancels the block of the pool, and then so are they.
        self.providers = trio.CancelScope(shield=True)
        self.context = contextvars.copy_context()
        self.ordinal = 0  # provider calls so far
        # For the serving task; at most one, since the guest waits for it.
        self.requests: list[tuple[Import, tuple[Any, ...], Callable[[Any], None]]] = []
        self.served: trio.lowlevel.ParkingLot | None = None  # where the serving task waits
        self._task: trio.lowlevel.Task | None = None
        self._decided: outcome.Outcome[bytes] | None = None
        self._raise_cancel: Callable[[], Any] | None = None

    def decide(self, result: outcome.Outcome[bytes]) -> None:
        """Record what the run comes to, unless that is decided."""
        if self._decided is None and self._raise_cancel is None:
            self._decided = result

    async def wait(self, cancel: Callable[[], bool]) -> bytes:
        """Wait for `finish`. ``cancel`` is asked once; True means the run never had a cell."""

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            self._raise_cancel = raise_cancel
            return trio.lowlevel.Abort.SUCCEEDED if cancel() else trio.lowlevel.Abort.FAILED

        self._task = trio.lowlevel.current_task()
        try:
            result: bytes = await trio.lowlevel.wait_task_rescheduled(abort)
            return result
        finally:
            self._task = None
            self._raise_cancel = None

    def finish(self) -> None:
        """Wake the caller with the decision; its cell is free, or quarantined, by now."""
        self.providers.cancel()
        result = self._decided
        if self._raise_cancel is not None:
            raised = outcome.capture(self._raise_cancel)
            interrupted = not isinstance(_error(raised), trio.Cancelled)
            if result is None or interrupted:
                result = raised
        self._decided = None
        assert result is not None
        if self._task is not None:
            trio.lowlevel.reschedule(self._task, result)


def _error(result: outcome.Outcome[Any]) -> BaseException | None:
    return result.error if isinstance(result, outcome.Error) else None


def result_of(guest: Guest, frame: Frame) -> outcome.Outcome[bytes]:
    """Return what the frame of a run that nobody ended says about it."""
    if frame.output is not None:
        return outcome.Value(frame.output)
    return outcome.Error(trapped(guest, *(frame.trap or ("trap", ""))))


def trapped(guest: Guest, kind: str, detail: str) -> TrouperError:
    """Return the error for a guest that ended in a trap of that kind."""
    if kind == "out_of_fuel":
        return OutOfFuel(
            f"guest {guest.name!r} used up its {guest.limits.fuel} fuel: "
            "raise GuestLimits(fuel=) or give it less to do",
            kind=kind,
        )
    told = f": {detail}" if detail else ""
    return GuestTrapped(f"guest {guest.name!r} trapped ({kind}){told}", kind=kind)

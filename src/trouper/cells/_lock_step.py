"""The transport for deterministic tests: the loop stands still while guest code runs.

The guest keeps its thread, since wasmtime has no other way to wait in the middle of a call; but
one of the two always waits for the other. What the guest does next - a request, the end of its
frame - is known before the loop goes on, and reaches the slot through the loop's own queue, as from
the threaded transport.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import outcome
import trio

from ._thread import CellThread

if TYPE_CHECKING:
    from ._shim import Bridge
    from ._transport import Listener
    from ._wasm import Job, Runtime

PATIENCE: Final = 10.0
"""Seconds of real time that guest code may run at a stretch: a run that its fuel does not end
would else stop the loop, and every deadline with it."""


class LockStepThread(CellThread):
    """See `Transport`; here `start`, `resume` and `kill` return at the guest's next event."""

    def __init__(
        self, name: str, runtime: Runtime, token: trio.lowlevel.TrioToken, listener: Listener
    ) -> None:
        super().__init__(name, runtime, token, listener)
        self._holds = None  # the clock cannot jump while the loop stands still
        self._events: SimpleQueue[tuple[Callable[..., None], tuple[object, ...]]] = SimpleQueue()
        self._has_frame = True  # nothing of the guest's is to be waited for
        self._is_overrun = False  # it was told to end, after it had taken too long
        self._is_late = False  # it did not even do that: its events come when they come
        self._turn = threading.Lock()  # of ``_is_late`` and the last look at the events
        self._generation = 0

    def start(self, job: Job) -> None:
        """See `Transport.start`."""
        self._generation = job.generation
        self._has_frame = self._is_overrun = self._is_late = False
        super().start(job)
        self._step()

    def resume(self, bridge: Bridge, response: bytes) -> None:
        """See `Transport.resume`."""
        super().resume(bridge, response)
        self._step()

    def kill(self, bridge: Bridge) -> None:
        """See `Transport.kill`."""
        super().kill(bridge)
        self._step()

    def provide(self, call: Callable[[], object], closed: Callable[[Any], None]) -> None:
        """Run a plain provider here and now: whoever waits for it stands still anyway."""
        self._post(closed, outcome.capture(call))

    def retire(self) -> None:
        """See `Transport.retire`."""
        super().retire()
        if self._has_frame:
            self._thread.join()

    def _step(self) -> None:
        """Let the guest run to its next event."""
        if self._has_frame or self._is_late:
            return
        try:
            event, args = self._events.get(timeout=PATIENCE)
        except Empty:
            if not self._is_overrun:
                self._is_overrun = True
                self._listener.on_overrun(self._generation)  # kills it, and is back in here
                return
            with self._turn:
                if self._events.empty():
                    self._is_late = True
                    return
            event, args = self._events.get()
        self._has_frame = event == self._returned
        self._post(event, *args)

    def _returned(self, generation: int, frame: Any) -> None:
        self._has_frame = True
        super()._returned(generation, frame)

    def _emit(self, event: Callable[..., None], *args: object) -> bool:
        with self._turn:
            if not self._is_late:
                self._events.put((event, args))
                return True
        return self._post(event, *args)

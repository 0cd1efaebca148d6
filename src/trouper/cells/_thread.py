"""One daemon thread per cell, fed by a queue: the transport that lets the loop go on.

Not one of trio's: a thread that is stuck must not hold up the end of ``trio.run`` or of the
process. It knows one run at a time, and what it sends carries the generation of that run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import outcome
import trio

from .._holds import holds_of_run

if TYPE_CHECKING:
    from ._shim import Asker, Bridge
    from ._transport import Listener
    from ._wasm import Job, Runtime


class CellThread:
    """See `Transport`: the threaded one, and the base of the other."""

    def __init__(
        self, name: str, runtime: Runtime, token: trio.lowlevel.TrioToken, listener: Listener
    ) -> None:
        self.ended = trio.Event()
        self._runtime = runtime
        self._token = token
        self._listener = listener
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A virtual clock stands still while guest code runs, not while a guest waits for the loop.
        self._holds = holds_of_run()
        self._is_out = self._is_held = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    # --- on the loop's thread -----------------------------------------------------------------

    def open(self) -> None:
        """See `Transport.open`."""
        self._thread.start()

    def start(self, job: Job) -> None:
        """See `Transport.start`."""
        self._is_out = True
        self._hold_clock()
        self._jobs.put(job)

    def resume(self, bridge: Bridge, response: bytes) -> None:
        """See `Transport.resume`."""
        self._hold_clock()
        bridge.replies.put(response)

    def kill(self, bridge: Bridge) -> None:
        """See `Transport.kill`."""
        self._hold_clock()
        bridge.replies.put(None)
        if self._is_out:
            self._runtime.bump()

    def provide(self, call: Callable[[], object], closed: Callable[[Any], None]) -> None:
        """See `Transport.provide`."""

        def deliver(result: outcome.Outcome[object]) -> None:
            self._post(closed, result)

        trio.lowlevel.start_thread_soon(call, deliver, "trouper-provider")

    def retire(self) -> None:
        """See `Transport.retire`."""
        self._jobs.put(None)

    def _requested(self, generation: int, name: str, request: bytes) -> None:
        if self._listener.on_request(generation, name, request):
            self._drop_clock()

    def _returned(self, generation: int, frame: Any) -> None:
        self._is_out = False
        self._drop_clock()
        self._listener.on_frame(generation, frame)

    def _hold_clock(self) -> None:
        if self._holds is not None and self._is_out and not self._is_held:
            self._is_held = True
            self._holds.take()

    def _drop_clock(self) -> None:
        if self._holds is not None and self._is_held:
            self._is_held = False
            self._holds.drop()

    # --- on the cell's thread -----------------------------------------------------------------

    def asker(self, generation: int, bridge: Bridge) -> Asker:
        """See `Transport.asker`."""

        def ask(name: str, request: bytes) -> bytes | None:
            # A kill that comes now has poisoned the replies already.
            if not self._emit(self._requested, generation, name, request):
                return None
            return bridge.replies.get()

        return ask

    def _main(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                break
            generation, frame = job.generation, self._runtime.run(job)
            del job  # or the bytes of a run would live until the next one
            if not self._emit(self._returned, generation, frame):
                break
            del frame
        self._runtime.close()
        self._post(self.ended.set)

    def _emit(self, event: Callable[..., None], *args: object) -> bool:
        """Tell the loop; False if there is none any more."""
        return self._post(event, *args)

    def _post(self, event: Callable[..., None], *args: object) -> bool:
        # When the loop is over, so is the cell that this would be evidence for.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(event, *args)
            return True
        return False

"""One daemon thread per cell, fed by a queue.

Not one of trio's: a thread that is stuck must not hold up the end of ``trio.run`` or of the
process. It knows one run at a time, and what it sends carries the generation of that run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

import trio

from .._holds import holds_of_run

if TYPE_CHECKING:
    from ._wasm import Frame, Job, Runtime


class CellThread:
    """Runs the jobs of one cell. ``post`` and ``stop`` are called on the loop's thread."""

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        token: trio.lowlevel.TrioToken,
        on_frame: Callable[[int, Frame], None],
    ) -> None:
        self._runtime = runtime
        self._token = token
        self._on_frame = on_frame
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.ended = trio.Event()
        # A virtual clock stands still while guest code runs, not while a guest waits for the loop.
        self._holds = holds_of_run()
        self._is_out = self._is_held = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, job: Job) -> None:
        """Give the thread its next run."""
        self._is_out = True
        self.hold_clock()
        self._jobs.put(job)

    def hold_clock(self) -> None:
        """Note that the thread goes on with its run, if it has one."""
        if self._holds is not None and self._is_out and not self._is_held:
            self._is_held = True
            self._holds.take()

    def drop_clock(self) -> None:
        """Note that the thread waits for the loop."""
        if self._holds is not None and self._is_held:
            self._is_held = False
            self._holds.drop()

    def returned(self) -> None:
        """Note that the run's frame has come back."""
        self._is_out = False
        self.drop_clock()

    def stop(self) -> None:
        """Let the thread end after the run it may still be in."""
        self._jobs.put(None)

    def _main(self) -> None:
        try:
            while True:
                job = self._jobs.get()
                if job is None:
                    break
                generation, frame = job.generation, self._runtime.run(job)
                del job  # or the bytes of a run would live until the next one
                self._token.run_sync_soon(self._on_frame, generation, frame)
                del frame
            self._runtime.close()
            self._token.run_sync_soon(self.ended.set)
        except trio.RunFinishedError:
            self._runtime.close()

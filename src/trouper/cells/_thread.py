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
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, job: Job) -> None:
        """Give the thread its next run."""
        self._jobs.put(job)

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

"""The systems run in processes of their own; one request at a time, so only one of them works."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from .sample import Sample

HERE = Path(__file__).parents[1]
# A bench takes about 0.1 s. Beyond this it hangs, and the whole run must not.
PATIENCE = 120.0


class SystemFailed(Exception):
    """The process of a system ended, or hung, instead of answering."""


class System:
    """A process that serves the benches of one system; see `_peers.serve` for the protocol."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(self, bench: str, ops: int, actors: int) -> Sample:
        """Run one bench.

        Raises:
            SystemFailed: No answer came; its error output says why.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        watchdog.start()
        try:
            print(json.dumps([bench, ops, actors]), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watchdog.cancel()
        if not answer:
            raise SystemFailed(f"{self._name} gave no answer to {bench}; see its error above")
        return Sample(**json.loads(answer))

    def __enter__(self) -> System:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()  # closes its input, which ends it


def python(module: str) -> list[str]:
    """Return the command of a system that is a module of `_peers`."""
    return [sys.executable, "-m", "_peers.serve", module]

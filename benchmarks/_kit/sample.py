"""One measurement, and the clock that makes it."""

from __future__ import annotations

import gc
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

Measure: TypeAlias = Literal["cpu", "wall", "bytes", "count"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of both clocks, or bytes of memory, for so many operations."""

    ops: int
    wall: float = 0.0
    cpu: float = 0.0
    size: int = 0

    def per_op(self, measure: Measure) -> float:
        """Return nanoseconds, or bytes, per operation."""
        if measure == "bytes":
            return self.size / self.ops
        return (self.cpu if measure == "cpu" else self.wall) / self.ops * 1e9


class Stopwatch:
    """Both clocks around a ``with`` block; the collector starts it with nothing to do."""

    def __enter__(self) -> Stopwatch:
        gc.collect()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cpu = time.process_time() - self._cpu
        self._wall = time.perf_counter() - self._wall

    def sample(self, ops: int) -> Sample:
        """Return what the block took."""
        return Sample(ops, wall=self._wall, cpu=self._cpu)


STATM = Path("/proc/self/statm")


class Scales:
    """How much the resident memory of this process grows from here on."""

    def __init__(self) -> None:
        self._before = _resident()

    def sample(self, ops: int) -> Sample:
        """Return the growth, spread over so many things."""
        return Sample(ops, size=_resident() - self._before)


def _resident() -> int:
    gc.collect()
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def available() -> int:
    """Return how many bytes of memory the machine has to give."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0

"""What the journals of a benchmark have in common: a place on disk, the same rows, the same marks.

The place is below ``results``, on the disk that the benchmarks lie on: a temporary directory may be
memory, where a flush costs nothing and compares nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from _kit.sample import Sample, Stopwatch

SCRATCH = Path(__file__).parents[1] / "results"
VALUE = b"v" * 160
WARM = 5  # commits before the clock starts
_NULL = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def row_key(ident: str, number: int) -> bytes:
    """Return a key of the shape that trouper's have: tag, hash of an identity, number."""
    return b"E" + blake2b(ident.encode(), digest_size=16).digest() + number.to_bytes(8, "big")


@contextmanager
def place() -> Generator[Path]:
    """Give a directory on disk for one bench."""
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=SCRATCH) as name:
        yield Path(name)


def file_system(place: Path) -> str:
    """Return what kind of file system a directory is on: in memory, a flush costs nothing."""
    best, kind = -1, "unknown"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return kind
    for line in mounts:
        left, _, right = line.partition(" - ")
        point = left.split()[4].rstrip("/")
        if str(place).startswith(point + "/") and len(point) >= best:
            best, kind = len(point), right.split()[0]
    return kind


class Marked(Stopwatch):
    """A stopwatch that `_kit.traced` sees in a trace of system calls."""

    def __enter__(self) -> Marked:
        super().__enter__()
        os.write(_NULL, b"trouper begin")
        return self

    def __exit__(self, *args: object) -> None:
        super().__exit__(None, None, None)
        os.write(_NULL, b"trouper end")


__all__ = ("VALUE", "WARM", "Marked", "Sample", "file_system", "place", "row_key")

"""Write a copy of a store into a directory of its own: what backup and compaction share.

LMDB writes a copy to a descriptor, in one call that cannot be stopped. It is given a pipe, and what
comes out of it is written here, bit by bit: that is where progress is seen, where Ctrl-C and
cancellation get in (nobody reads on, and the copy ends), and where files get their mode.

A copy is verified before anybody may take it for one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..errors import PathRefused, StoreDamaged, StoreFull
from ._meaning import NO_ROOM
from ._place import DATA_FILE, Identity, write_identity
from ._verify import Progress, Report, verify

CHUNK: Final = 1024 * 1024

Copy = Callable[[int], None]
"""Writes a whole data file to a descriptor; runs on a thread of its own."""


def write_copy(
    copy: Copy, directory: Path, identity: Identity, size: int, progress: Progress
) -> Report:
    """Make a store of what `copy` writes, durable and verified, in an empty directory.

    Args:
        copy: The source.
        directory: Where to; nobody else knows it yet.
        identity: Which store it is.
        size: About how many bytes there will be, for the progress.
        progress: Told how many bytes are written, of how many, and the same again while they are
            verified. What it raises ends the copy.

    Raises:
        StoreFull: No room there.
        PathRefused: It cannot be written there.
        StoreDamaged: The copy is not sound: neither is what it was made from.
    """
    try:
        written = _pump(copy, directory / DATA_FILE, size, progress)
        write_identity(directory, identity)
    except OSError as error:
        raise cannot_write(directory, error) from error
    report = verify(directory, progress=lambda _, __: progress(written, written))
    if not report.ok:
        raise StoreDamaged(
            f"the copy is not sound ({report.findings[0]}), and was thrown away: look at its "
            f"source with `trouper store check`, and restore an older backup if need be",
            path=str(directory),
            where=str(report.findings[0]),
        )
    progress(written, written)
    return report


def silent(_: int, __: int) -> None:
    """Take progress, and say nothing."""


def cannot_write(directory: Path, error: OSError) -> StoreFull | PathRefused:
    """Return what a failure to write a copy means."""
    reason = error.strerror or str(error)
    if error.errno in NO_ROOM:
        return StoreFull(
            f"no room for a copy at {str(directory.parent)!r}: it was thrown away, and the store "
            f"is as it was; make room and retry",
            store=str(directory),
        )
    return PathRefused(
        f"no copy can be written at {str(directory.parent)!r}: {reason}; the store is as it was",
        path=str(directory),
        reason=reason,
    )


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _pump(copy: Copy, target: Path, size: int, progress: Progress) -> int:
    """Write what `copy` gives into a new file, durably; return how many bytes that was."""
    failure: list[BaseException] = []
    source, sink = os.pipe()

    def run() -> None:
        try:
            copy(sink)
        except BaseException as error:
            failure.append(error)
        finally:
            os.close(sink)

    with suppress(OSError):  # a wider pipe is a kindness of Linux
        fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, CHUNK)
    thread = threading.Thread(target=run, name="trouper-store-copy", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        os.close(source)
        os.close(sink)
        raise OSError(errno.EAGAIN, "no thread to be had") from error
    written = 0
    try:
        with open(target, "xb", buffering=0, opener=_owner_only) as file:
            while chunk := os.read(source, CHUNK):
                _write_all(file.fileno(), chunk)
                written += len(chunk)
                progress(min(written, size), max(written, size))
            os.fsync(file.fileno())
    finally:
        os.close(source)  # first: a copy that is not wanted any more ends at its next write
        thread.join()
    if failure:
        raise failure[0]
    return written


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _write_all(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        count = os.write(fd, view)
        if not count:
            raise OSError(errno.EIO, "nothing was written")
        view = view[count:]

"""Who owns a store directory: one process, proven by a lock the kernel drops when it dies.

LMDB lets a second writer wait for ever, and two of them lose commits when its lock file is
removed. So ownership is ours: an exclusive `flock` on ``owner.lock``. The file also carries the
owner's pid and, after a clean close, a stamp of the data file; a data file that does not match its
stamp is verified before it is mapped.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, final
from weakref import WeakSet

from ..errors import PathRefused, StoreOwned
from ._shortage import is_shortage

LOCK_FILE: Final = "owner.lock"
_PID_TRIES: Final = 20
_PID_PAUSE: Final = 0.01


class Stamp(NamedTuple):
    """What the data file looked like when its owner closed it."""

    size: int
    mtime_ns: int
    ctime_ns: int  # which, unlike the others, nobody can set back
    inode: int


def stamp_of(data: Path) -> Stamp:
    """Return the stamp of a data file as it is now."""
    found = data.stat()
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@final
class Owner:
    """The lock on one store directory, held from `acquire` to `release`.

    Attributes:
        clean: The stamp that the last owner left, None if it did not close.
    """

    def __init__(self, path: Path, fd: int, clean: Stamp | None) -> None:
        self.path = path
        self.clean = clean
        self._fd = fd
        _HELD.add(self)

    @classmethod
    def acquire(cls, directory: Path) -> Owner:
        """Take the lock, or say who has it; never waits for it.

        Raises:
            StoreOwned: A live process owns the store; ``pid`` names it.
            PathRefused: The lock file cannot be made here.
        """
        path = directory / LOCK_FILE
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if is_shortage(error.errno):
                raise
            raise PathRefused(
                f"cannot lock the store at {str(directory)!r}: {error.strerror}; the owner of a "
                f"store needs to write in its directory",
                path=str(directory),
                reason=str(error.strerror),
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _owner_pid(fd)
            os.close(fd)
            raise _owned(directory, pid) from None
        except OSError as error:
            os.close(fd)
            if is_shortage(error.errno):
                raise
            raise PathRefused(
                f"cannot lock the store at {str(directory)!r}: {error.strerror}; this file system "
                f"has no flock, put the store on a local disk",
                path=str(directory),
                reason=str(error.strerror),
            ) from error
        owner = cls(path, fd, _stamp_in(_read(fd)))
        owner._write(owner.clean)
        return owner

    def mark(self, clean: Stamp | None) -> None:
        """Record, durably, that the data file is in use (None) or was closed as `clean` says."""
        self._write(clean)
        os.fsync(self._fd)

    def _write(self, clean: Stamp | None) -> None:
        line = json.dumps({"pid": os.getpid(), "clean": clean}).encode() + b"\n"
        os.pwrite(self._fd, line, 0)
        os.ftruncate(self._fd, len(line))

    def inode(self) -> tuple[int, int]:
        """Return device and inode of the lock that is held, wherever its name points now."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def unowned(directory: Path) -> Generator[None, None, None]:
    """Keep owners away from a store while somebody reads its files; writes nothing.

    Raises:
        StoreOwned: A live process owns it.
    """
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # a copy of the data alone, or a store that was never opened
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _owned(directory, _owner_pid(fd)) from None
        yield
    finally:
        os.close(fd)


def was_closed(directory: Path, data: Path) -> bool:
    """Tell whether a data file is as its last owner left it, who verified or wrote all of it."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        clean = _stamp_in(_read(fd))
    finally:
        os.close(fd)
    return clean is not None and clean == stamp_of(data)


_HELD: Final[WeakSet[Owner]] = WeakSet()


def _drop_inherited() -> None:
    # A forked child shares the lock: while it lived, a dead parent's store would stay owned.
    for owner in list(_HELD):
        owner.release()


os.register_at_fork(after_in_child=_drop_inherited)


def _read(fd: int) -> dict[str, Any]:
    try:
        found: Any = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        return {}  # new, or torn by a power cut: then nobody closed it cleanly
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _stamp_in(content: dict[str, Any]) -> Stamp | None:
    clean: Any = content.get("clean")
    return Stamp(*clean) if isinstance(clean, list) and len(clean) == len(Stamp._fields) else None  # pyright: ignore[reportUnknownArgumentType]


def _owner_pid(fd: int) -> int:
    """Return the pid of the live owner; 0 if it has not written it yet.

    The owner writes right after locking. Until then the file names the owner before it, which is
    dead: look again rather than name a dead process.
    """
    for _ in range(_PID_TRIES):
        pid: Any = _read(fd).get("pid")
        if isinstance(pid, int) and _alive(pid):
            return pid
        time.sleep(_PID_PAUSE)
    return 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _owned(directory: Path, pid: int) -> StoreOwned:
    if pid == os.getpid():
        who = "this process has it open already"
    else:
        who = f"process {pid} owns it" if pid else "another process owns it"
    return StoreOwned(
        f"store {str(directory)!r} is in use: {who}. Use that one, stop it, or take another path.",
        pid=pid,
        path=str(directory),
    )

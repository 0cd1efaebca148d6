"""Is this path a place for a store, and does it hold one? Asked before anything is mapped.

A mapped damaged file does not raise, it kills the process (SIGBUS, SIGABRT). So all that can be
known from outside is checked from outside: the directory, the file system, the identity file, the
file's first page.

``store.json`` is the identity: written once, after the first commit. Without it a data file of zero
bytes is a store whose creation was cut short; with it, a store that lost its data.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..errors import FormatTooNew, PathRefused, StoreDamaged, WrongEngine
from ._shortage import is_shortage

FORMAT: Final = 2
"""Version of the store's layout. 1: six tables, frames of version 1."""

IDENTITY_FILE: Final = "store.json"
DATA_FILE: Final = "data.mdb"
MAP_LOCK_FILE: Final = "lock.mdb"

_MAGIC: Final = (0xBEEFC0DE).to_bytes(4, sys.byteorder)
_MAGIC_AT: Final = 16  # behind the page header of LMDB 0.9
_DATA_VERSION: Final = (1).to_bytes(4, sys.byteorder)
_TXN_AT: Final = 144  # the last field of a meta page
_SECTOR: Final = 512
_UNBORN_AT_MOST: Final = 2 * 32 * 1024  # two pages of the largest size
_NETWORK: Final = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "ceph",
        "glusterfs",
        "lustre",
        "afs",
        "gpfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.rclone",
        "fuse.gcsfuse",
    ]
)


class Identity(NamedTuple):
    """Which store lives in a directory."""

    format: int
    uuid: str


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return a path in full, that of the current directory only where it is meant.

    Raises:
        PathRefused: It is empty, as a variable that was not set is, or no path at all.
    """
    name = os.fspath(path)
    if not name:
        raise PathRefused(
            "an empty path names no store; give its directory, '.' for the current one",
            path="",
            reason="it is empty",
        )
    if "\0" in name:
        raise PathRefused(f"{name!r} is no path: it holds a null", path=name, reason="a null")
    return Path(os.path.abspath(name))


def prepare(directory: Path, *, create: bool) -> None:
    """Make sure that `directory` is a local directory, making it if `create`.

    Raises:
        PathRefused: It is not, or cannot be.
    """
    system = network_system(directory, _mounts())
    if system is not None:
        raise _refused(
            directory,
            f"it is on a network file system ({system}), where locks and mapped pages of two hosts "
            f"do not agree",
            "use a local disk",
        )
    check_directory(directory, create=create)


def check_directory(directory: Path, *, create: bool) -> None:
    """Make sure that `directory` is a directory that can be read, making it if `create`.

    Raises:
        PathRefused: It is not, or cannot be.
    """
    try:
        if create:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_directory = directory.is_dir()
        entries = os.access(directory, os.R_OK | os.X_OK)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else str(error.strerror)
        raise _refused(directory, reason, "give the path of a directory") from error
    if not is_directory:
        missing = not os.path.lexists(directory)
        reason = "there is nothing" if missing else "it is not a directory"
        raise _refused(directory, reason, "give the path of a store's directory")
    if not entries:
        raise _refused(directory, "no permission to read it", "check its owner and mode")


def read_identity(directory: Path) -> Identity | None:
    """Return which store lives here; None if none was ever completed here.

    Raises:
        FormatTooNew: A newer trouper laid it out.
        StoreDamaged: The identity file is not readable as one.
    """
    path = directory / IDENTITY_FILE
    try:
        found: Any = json.loads(path.read_bytes())
        identity = Identity(int(found["format"]), str(found["uuid"]))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise _refused(directory, "no permission to read its files", "check their owner") from error
    except OSError as error:
        if not isinstance(error, IsADirectoryError):
            raise
        raise damaged(directory, IDENTITY_FILE, "it is a directory") from error
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(directory, IDENTITY_FILE, "it is not a store's identity file") from error
    check_format(directory, identity.format)
    return identity


def check_format(directory: Path, version: int) -> None:
    """Refuse a layout that this program does not know."""
    if version != FORMAT:
        raise FormatTooNew(
            f"store {str(directory)!r} has format {version}, this program reads format {FORMAT}; "
            f"it was left as it is. Use the trouper version that wrote it.",
            path=str(directory),
            format=version,
        )


def write_identity(directory: Path, identity: Identity) -> None:
    """Write the identity file, whole or not at all, durably."""
    path = directory / IDENTITY_FILE
    draft = path.with_suffix(".json.new")
    with open(draft, "w", encoding="ascii", opener=_owner_only) as file:
        json.dump(identity._asdict(), file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def has_data(directory: Path, identity: Identity | None, *, writable: bool = True) -> bool:
    """Tell whether there is a data file to open; check its first page if so.

    Without an identity, what a creation that was cut short left of one is no data.

    Raises:
        StoreDamaged: A store lived here and its data is gone, or this is no LMDB file.
        WrongEngine: It is an LMDB file of another data format.
        PathRefused: It cannot be read, or `writable` and it cannot be written.
    """
    data = directory / DATA_FILE
    try:
        with data.open("r+b" if writable else "rb") as file:
            head = file.read(_UNBORN_AT_MOST + 1)
    except FileNotFoundError:
        head = b""
    except OSError as error:
        if is_shortage(error.errno):
            raise
        raise _refused(
            directory,
            f"its data file cannot be read{' and written' if writable else ''} ({error.strerror})",
            "check owner and mode of the files in it",
        ) from error
    if not head:
        if identity is not None:
            raise damaged(
                directory, DATA_FILE, f"store {identity.uuid} lived here, its data is gone"
            )
        return False
    if identity is None and _is_unborn(head):
        return False
    if head[_MAGIC_AT : _MAGIC_AT + 4] == _MAGIC:
        if head[_MAGIC_AT + 4 : _MAGIC_AT + 8] == _DATA_VERSION:
            return True
        raise wrong_engine(directory)
    if head[_MAGIC_AT + 8 : _MAGIC_AT + 12] == _MAGIC:  # LMDB 1.0 has a longer page header
        raise wrong_engine(directory)
    raise damaged(directory, DATA_FILE, "it is not an LMDB file of this machine's kind")


def _is_unborn(content: bytes) -> bool:
    """Tell whether this is what a power cut left of a file that LMDB was just making.

    Its first write is two meta pages that say "nothing was committed". Any sector of them may be
    missing, and nothing else may be there.
    """
    if len(content) > _UNBORN_AT_MOST:
        return False
    metas = 0
    for at in range(0, len(content), _SECTOR):
        sector = content[at : at + _SECTOR]
        if any(sector):
            magic, nothing = sector[_MAGIC_AT : _MAGIC_AT + 8], sector[_TXN_AT : _TXN_AT + 8]
            if magic != _MAGIC + _DATA_VERSION or any(nothing) or any(sector[_TXN_AT + 8 :]):
                return False
            metas += 1
    return metas < 2


def damaged(directory: Path, where: str, what: str) -> StoreDamaged:
    """Return the refusal of a store that is not sound."""
    return StoreDamaged(
        f"store {str(directory)!r} is damaged at {where}: {what}. Nothing was changed; restore a "
        f"backup, or move the directory away to start anew.",
        path=str(directory),
        where=where,
    )


def network_system(path: Path, mounts: Iterable[str]) -> str | None:
    """Return the type of the network file system that `path` is on, None for a local one.

    Args:
        path: A path; it need not exist.
        mounts: Lines in the form of ``/proc/self/mountinfo``.
    """
    here = os.path.realpath(path)
    best, system = -1, ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = fields[4].replace("\\040", " ").rstrip("/")
        # the last mount on one point hides those before it
        if (here == point or here.startswith(point + "/")) and len(point) >= best:
            best, system = len(point), right.split()[0]
    return system if system in _NETWORK else None


def _mounts() -> list[str]:
    try:
        return Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []  # no /proc: not Linux, where the flock of `Owner` still guards the store


def _refused(directory: Path, reason: str, advice: str) -> PathRefused:
    return PathRefused(
        f"no store can be opened at {str(directory)!r}: {reason}; {advice}",
        path=str(directory),
        reason=reason,
    )


def wrong_engine(directory: Path) -> WrongEngine:
    """Return the refusal of an LMDB file that another LMDB wrote."""
    return WrongEngine(
        f"{str(directory / DATA_FILE)!r} is an LMDB file of another data format than trouper's "
        f"(0.9); it was left as it is. Give another path.",
        path=str(directory),
    )

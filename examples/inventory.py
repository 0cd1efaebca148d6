"""What the audit does to a tree: its effects, its guest, and the durable functions around them.

One root activation, one child activation per directory, and per file, side by side, a SHA-256 in a
worker thread and a word and line count by a WebAssembly guest in a cell. Every directory races with
a deadline.

Names of files are bytes all the way, since not every name is text.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from pathlib import Path
from typing import Any, BinaryIO

import trio

from trouper import Activation, GuestLimits, Reject, durable, effect, guest
from trouper.actors.groups import Completed, Failed, Outcome

DIRECTORIES_AT_ONCE = 8
FILES_AT_ONCE = 16
MOST_ENTRIES = 25_000  # all entries of the report are one outcome in the journal: 8 MiB at most
PIECE = 1 << 20
# Derived or foreign files would change between two runs over the same standard library.
SKIPPED = (b"__pycache__", b"site-packages")

Row = dict[str, Any]


# --- evidence --------------------------------------------------------------------------------


class Trace:
    """An append-only file of what was really executed, written by the effects themselves.

    It knows nothing of the journal, so the demo can hold the two against each other.
    """

    def __init__(self) -> None:
        self._file = -1

    def open(self, path: Path) -> None:
        """Start writing."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def ran(self, what: str, path: bytes) -> None:
        """Note one execution."""
        if self._file >= 0:
            os.write(self._file, json.dumps([what, shown(path)]).encode() + b"\n")


TRACE = Trace()


def shown(path: bytes) -> str:
    """Return a path as text: what is no UTF-8 in it becomes ``\\xNN``."""
    return path.decode("utf-8", "backslashreplace")


# --- effects: what touches the world ---------------------------------------------------------


@effect
def scan(root: bytes) -> list[bytes]:
    """List the directories below a root, the root included, as paths relative to it.

    One that cannot be read is listed as well: its own `listing` says why.
    """
    TRACE.ran("scan", b".")
    found: list[bytes] = []
    entries = 0
    for path, names, files in os.walk(root, onerror=lambda e: found.append(e.filename)):
        names[:] = sorted(name for name in names if name not in SKIPPED)
        found.append(path)
        entries += 1 + len(files)
        if entries > MOST_ENTRIES:
            raise Reject(f"{shown(root)} has more than {MOST_ENTRIES} entries; give a smaller tree")
    return [os.path.relpath(path, root) for path in found]


@effect
def listing(root: bytes, directory: bytes) -> list[list[Any]]:
    """List the entries of one directory that are not directories: [name, is it a plain file]."""
    TRACE.ran("listing", directory)
    with os.scandir(os.path.join(root, directory)) as entries:
        return sorted(
            [entry.name, entry.is_file(follow_symlinks=False)]
            for entry in entries
            if not entry.is_dir(follow_symlinks=False)
        )


@effect
def digest(root: bytes, path: bytes) -> Row:
    """Hash one file; say whether it is binary (a zero byte near its start, as git does)."""
    TRACE.ran("digest", path)
    with open_plain(root, path) as file:
        piece = file.read(PIECE)
        seen, binary = hashlib.sha256(piece), b"\0" in piece[:8000]
        while piece := file.read(PIECE):
            trio.from_thread.check_cancelled()  # the deadline and Ctrl-C do not wait for its end
            seen.update(piece)
    return {"sha256": seen.hexdigest(), "binary": binary}


def open_plain(root: bytes, path: bytes) -> BinaryIO:
    """Open a file; by now it may be a link, or a pipe that would block for ever."""
    extra = os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(os.path.join(root, path), os.O_RDONLY | extra)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("not a plain file any more")
    return os.fdopen(fd, "rb")


def read_piece(request: bytes) -> bytes:
    """Serve the guest: bytes of a file from an offset on (u64, little-endian, then the path)."""
    (offset,) = struct.unpack_from("<Q", request)
    root, path = request[8:].split(b"\0")
    if offset == 0:
        TRACE.ran("count", path)
    with open_plain(root, path) as file:
        file.seek(offset)
        return file.read(1 << 16)


count = guest(
    Path(__file__).parent / "guests" / "count.wasm",
    imports={"read": read_piece},
    limits=GuestLimits(fuel=1 << 34, calls=1_000_000),
    name="audit.count",
)


# --- activations: what must not be lost or repeated ------------------------------------------


@durable
async def audit(act: Activation, root: bytes, deadline: float) -> list[Row]:
    """Make the inventory of a tree: one child activation per directory, a window at a time."""
    directories = await act.call(scan, root)
    rows: list[Row] = []
    for start in range(0, len(directories), DIRECTORIES_AT_ONCE):
        window = directories[start : start + DIRECTORIES_AT_ONCE]
        found = await act.all_settled(
            *[act.call(audit_directory, root, name, deadline) for name in window]
        )
        for name, outcome in zip(window, found, strict=True):
            rows += outcome.value if isinstance(outcome, Completed) else [failed(name, outcome)]
    return rows


@durable
async def audit_directory(
    act: Activation, root: bytes, directory: bytes, deadline: float
) -> list[Row]:
    """Race the inventory of one directory with its deadline; the loser is cancelled."""
    won = await act.race(act.call(inventory, root, directory), act.sleep(deadline), losers="cancel")
    if won.value is None:
        return [entry(directory, error=f"not done within {deadline} s")]
    return won.value


@durable
async def inventory(act: Activation, root: bytes, directory: bytes) -> list[Row]:
    """Hash and count every file of one directory, two effects per file, a window at a time."""
    rows: list[Row] = []
    paths: list[bytes] = []
    for name, plain in await act.call(listing, root, directory):
        path = name if directory == b"." else directory + b"/" + name
        if plain:
            paths.append(path)
        else:
            rows.append(entry(path, error="not a plain file"))
    for start in range(0, len(paths), FILES_AT_ONCE):
        window = paths[start : start + FILES_AT_ONCE]
        found = await act.all_settled(
            *[act.call(digest, root, path) for path in window],
            *[act.call(count, root + b"\0" + path) for path in window],
        )
        hashed, counted = found[: len(window)], found[len(window) :]
        rows += [file_entry(*each) for each in zip(window, hashed, counted, strict=True)]
    return rows


def entry(path: bytes, **facts: Any) -> Row:
    """Build an entry of the report."""
    name = {"path": shown(path)}
    return (
        name | facts if name["path"].encode() == path else name | facts | {"path_hex": path.hex()}
    )


def file_entry(path: bytes, hashed: Outcome, counted: Outcome) -> Row:
    """Build a file's entry. A file that could not be read is an entry that says so."""
    if not isinstance(hashed, Completed):
        return failed(path, hashed)
    if not isinstance(counted, Completed):
        return failed(path, counted)
    lines, words, size = struct.unpack("<3Q", counted.value)
    return entry(path, bytes=size, lines=lines, words=words, **hashed.value)


def failed(path: bytes, outcome: Outcome) -> Row:
    """Build the entry of something that has no result."""
    return entry(path, error=outcome.error.message if isinstance(outcome, Failed) else "cancelled")

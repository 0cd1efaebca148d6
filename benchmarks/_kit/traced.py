"""What one bench writes to disk: system calls counted by strace, between the marks of `Marked`."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .process import System

CALLS = "openat,write,pwrite64,writev,pwritev,pwritev2,fdatasync,fsync,msync"
FLUSHES = ("fdatasync", "fsync", "msync")
_CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<rest>.*)$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$")
_FD = re.compile(r"(?P<fd>\d+)<(?P<path>[^>]*)>")
_RESULT = re.compile(r"= (?P<value>-?\d+)(<[^>]*>)?[^=]*$")


@dataclass(frozen=True, slots=True)
class Written:
    """What so many operations wrote to regular files, and how often they waited for the disk."""

    ops: int
    bytes: int
    syncs: int

    @property
    def bytes_each(self) -> float:
        """Bytes written per operation."""
        return self.bytes / self.ops

    @property
    def syncs_each(self) -> float:
        """Flushes per operation."""
        return self.syncs / self.ops


def traced(command: Sequence[str], bench: str, ops: int, actors: int) -> Written:
    """Run one bench in a process of its own, under strace.

    Raises:
        SystemFailed: It gave no answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "calls"
        strace = ["strace", "-f", "-qq", "-y", "-e", f"trace={CALLS}", "-o", str(log)]
        with System("strace", [*strace, *command]) as system:
            sample = system.measure(bench, ops, actors)
        return count(log.read_text(errors="replace").splitlines(), sample.ops)


def is_there() -> bool:
    """Tell whether there is an strace."""
    return shutil.which("strace") is not None


def count(lines: Iterable[str], ops: int) -> Written:
    """Count a trace. A write through a descriptor that was opened O_DSYNC is a flush as well."""
    synced: set[str] = set()
    written = syncs = 0
    counting = False
    for name, rest in _calls(lines):
        if name == "openat":
            opened = _RESULT.search(rest)
            if opened is not None:
                fd = opened["value"]
                (synced.add if "DSYNC" in rest else synced.discard)(fd)
            continue
        if '"trouper begin"' in rest or '"trouper end"' in rest:
            counting = "begin" in rest
            continue
        fd, result = _FD.match(rest), _RESULT.search(rest)
        if not counting or result is None:
            continue
        if name in FLUSHES:
            syncs += 1
        elif fd is not None and fd["path"].startswith("/") and int(result["value"]) > 0:
            if fd["path"].startswith("/dev/"):
                continue
            written += int(result["value"])
            syncs += fd["fd"] in synced
    return Written(ops, written, syncs)


def _calls(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give out name and rest of each call; one that another thread interrupted is put together."""
    pending: dict[str, str] = {}
    for line in lines:
        begun, resumed = _CALL.match(line), _RESUMED.match(line)
        if resumed is not None:
            yield resumed["name"], pending.pop(resumed["pid"], "") + resumed["rest"]
        elif begun is not None:
            rest = begun["rest"]
            if rest.endswith("<unfinished ...>"):
                pending[begun["pid"]] = rest.removesuffix("<unfinished ...>")
            else:
                yield begun["name"], rest

"""The one way from a guest into the host: numbers are checked, bytes copied, errors recorded.

Nothing is ever raised through WebAssembly. wasmtime keeps the exception of a host function in one
global of the process, where the trap of another cell can pick it up (measured: 2 of 4000). So a
host import that has to end the run *halts* it - the fuel is taken away, the reason recorded here -
and returns -1; what the cell reports is the record, whatever the guest did after that.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Final, Protocol

from ._limits import GuestLimits

CALL_FUEL: Final = 2_000
"""Fuel that a host call costs beside the bytes it copies: it takes the host tens of microseconds
and would cost the guest ten instructions, so fuel alone would not bound a loop of calls."""

U32: Final = 0xFFFF_FFFF

NAME_BYTES: Final = 64
LOG_LINE_BYTES: Final = 4096


class GuestPort(Protocol):
    """What the shim sees of one live Store. Gone when the frame is."""

    def size(self) -> int:
        """Return the size of the memory in bytes, now: it may have grown since."""
        ...

    def read(self, start: int, length: int) -> bytes:
        """Copy a range that was checked."""
        ...

    def write(self, start: int, data: bytes) -> None:
        """Copy into a range that was checked."""
        ...

    def fuel(self) -> int:
        """Return the fuel that is left."""
        ...

    def set_fuel(self, fuel: int) -> None:
        """Set the fuel that is left."""
        ...


class Halt(Exception):
    """Ends a host call, inside the shim only. ``kind`` is why the run has to end."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail


class Bridge:
    """The two ends of one run: the loop writes ``dying`` and the replies, the thread reads them."""

    __slots__ = ("dying", "replies")

    def __init__(self) -> None:
        self.dying = False
        # None is the poison: whoever waits for an answer stops waiting, and gets none.
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()


class Asker(Protocol):
    """Brings a request to the loop and blocks for the answer; None means: this run ends."""

    def __call__(self, name: str, request: bytes) -> bytes | None: ...


def checked_range(pointer: int, length: int, size: int, most: int) -> tuple[int, int]:
    """Return a guest's range as unsigned numbers, or refuse it.

    WebAssembly integers arrive signed and Python slices take negative numbers, so an unchecked
    -10 would write near the end of the memory.

    Raises:
        Halt: It is longer than ``most`` (``staged_bytes``) or leaves the memory (``bad_pointer``).
    """
    start, count = pointer & U32, length & U32
    if count > most:
        raise Halt("staged_bytes", f"{count} bytes where {most} are allowed")
    if start + count > size:
        raise Halt("bad_pointer", f"{count} bytes at {start} in a memory of {size}")
    return start, count


class Shim:
    """The host side of one run. Lives on the cell's thread, for one frame."""

    __slots__ = (
        "_ask",
        "_left",
        "_logged",
        "_rest",
        "bridge",
        "calls",
        "detail",
        "fuel_left",
        "kind",
        "limits",
        "logs",
        "names",
        "port",
        "unexpected",
    )

    def __init__(
        self, limits: GuestLimits, names: frozenset[str], bridge: Bridge, ask: Asker
    ) -> None:
        self.limits = limits
        self.names = names
        self.bridge = bridge
        self._ask = ask
        # Set once the instance stands; a start function that calls out before that is halted.
        self.port: GuestPort | None = None
        self.calls = 0
        self.logs: list[str] = []
        self._logged = 0
        self._left = 0  # fuel, while a host call is under way
        self._rest = b""  # what of the last response is still staged
        self.kind: str | None = None  # why the run was halted, once and for all
        self.detail = ""
        self.fuel_left: int | None = None  # what the run had when it was halted
        self.unexpected: str | None = None  # a failure of the shim itself

    def halt(self, kind: str, detail: str = "") -> None:
        """Record why the run ends, and take its fuel. The first reason stays."""
        if self.kind is None:
            self.kind, self.detail = kind, detail
        if self.port is not None:
            if self.fuel_left is None:
                self.fuel_left = self.port.fuel()
            self.port.set_fuel(0)

    def fail(self, error: BaseException) -> None:
        """Record a failure that no guest should be able to cause. Quarantines the cell."""
        self.unexpected = type(error).__name__
        self.halt("host_error", self.unexpected)

    def enter(self, size: int) -> GuestPort:
        """Count and charge one host call.

        Raises:
            Halt: The run is over, may not call (yet), or has used up its calls or its fuel.
        """
        port = self.port
        if self.kind is not None:
            raise Halt(self.kind, self.detail)
        if port is None:
            raise Halt("call_in_start", "a start function may not call the host")
        if self.bridge.dying:
            raise Halt("killed")
        self.calls += 1
        if self.calls > self.limits.calls:
            raise Halt("calls", f"more than {self.limits.calls} host calls")
        self._left = port.fuel()
        self._charge(CALL_FUEL + (size & U32))
        return port

    def _charge(self, fuel: int) -> None:
        # On paper only, until the call ends: the guest runs no instruction meanwhile.
        if fuel > self._left:
            raise Halt("out_of_fuel")
        self._left -= fuel

    def provider_call(
        self, name: int, name_len: int, request: int, request_len: int, out: int, room: int
    ) -> int:
        """Ask a provider; copy as much of the response as fits; return its full length."""
        port = self.enter(request_len)
        self._rest = b""
        size = port.size()
        start, count = checked_range(name, name_len, size, NAME_BYTES)
        called = port.read(start, count).decode("utf-8", "replace")
        if called not in self.names:
            raise Halt("unknown_provider", printable(called, NAME_BYTES))
        start, count = checked_range(request, request_len, size, self.limits.staged_bytes)
        # Refused before the provider runs: a response must never be lost to a bad pointer.
        checked_range(out, room, size, U32)
        response = self._ask(called, port.read(start, count))
        if response is None:
            raise Halt("killed")
        self._rest = response
        self._take(port, out, room)
        port.set_fuel(self._left)
        return len(response)

    def provider_take(self, out: int, room: int) -> int:
        """Copy the next part of the last response; return how much, 0 when nothing is left."""
        port = self.enter(0)
        count = self._take(port, out, room)
        port.set_fuel(self._left)
        return count

    def _take(self, port: GuestPort, out: int, room: int) -> int:
        # The size is read again: the memory may have grown while the response was on its way.
        start, count = checked_range(out, room, port.size(), U32)
        part, self._rest = self._rest[:count], self._rest[count:]
        self._charge(len(part))
        port.write(start, part)
        return len(part)

    def log(self, text: int, length: int) -> None:
        """Keep one line, sanitised, for the loop to log once the run is over."""
        port = self.enter(length)
        self._logged += length & U32
        if self._logged > self.limits.log_bytes:
            raise Halt("log_bytes", f"more than {self.limits.log_bytes} bytes of log text")
        start, count = checked_range(text, length, port.size(), self.limits.log_bytes)
        line = port.read(start, count).decode("utf-8", "replace")
        self.logs.append(printable(line, LOG_LINE_BYTES))
        port.set_fuel(self._left)


def printable(text: str, most: int) -> str:
    """Return text from a guest so that a terminal or a log shows it and does nothing else."""
    kept = text[:most]
    shown = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in kept)
    return shown if len(text) <= most else f"{shown}..."

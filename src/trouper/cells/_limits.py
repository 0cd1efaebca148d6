"""What one run of a guest may use, and what a module may look like to be admitted.

Every number has a default, is changed by keyword, and names itself in the error of whoever meets
it. Nothing is clamped: a limit outside its own range is refused where it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Any, Final

PAGE: Final = 65536
"""Bytes in one page of WebAssembly memory."""

MAX_MEMORY: Final = 1 << 30
"""The largest ``memory`` a guest can be given: what the cap also bounds is how long one bulk
instruction runs before fuel and epoch are looked at again (about a second for a gigabyte)."""


def _require_positive(limits: Any) -> None:
    for field in fields(limits):
        value = getattr(limits, field.name)
        # A fraction would come to light in the engine, and cost the cell that met it.
        known = int if field.type == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, known) or not 0 < value < inf:
            kind = "whole number" if known is int else "number"
            raise ValueError(
                f"{type(limits).__name__}.{field.name} must be a positive {kind}, not {value!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLimits:
    """Bound one run of a guest.

    Attributes:
        fuel: Units of WebAssembly fuel, about one per instruction; each host call costs some too.
            Running out raises `OutOfFuel`.
        memory: Bytes of linear memory, a multiple of 65536. ``memory.grow`` beyond it answers -1;
            a module that needs more from the start is refused.
        calls: Host calls (providers, reads of a response, log lines) in one run. One more traps
            with kind ``calls``.
        staged_bytes: Bytes that may lie between host and guest at a time: the input, one request
            with its response, or the output. More traps with kind ``staged_bytes``.
        log_bytes: Bytes of log text in one run. More traps with kind ``log_bytes``.
        table_elements: Elements of the one table a guest may have.
    """

    fuel: int = 100_000_000
    memory: int = 16 << 20
    calls: int = 10_000
    staged_bytes: int = 4 << 20
    log_bytes: int = 64 << 10
    table_elements: int = 10_000

    def __post_init__(self) -> None:
        _require_positive(self)
        if self.memory % PAGE or self.memory > MAX_MEMORY:
            raise ValueError(
                f"GuestLimits.memory must be a multiple of {PAGE} up to {MAX_MEMORY}, "
                f"not {self.memory}"
            )
        # A length travels through the guest as a 32-bit number.
        if self.staged_bytes > MAX_MEMORY:
            raise ValueError(f"GuestLimits.staged_bytes must be at most {MAX_MEMORY}")
        if self.fuel >= 1 << 63:
            raise ValueError("GuestLimits.fuel must be below 2**63")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Bound what a module may declare, because compiling cannot be interrupted once begun.

    Measured: a 355 kB function took 4.8 s to compile and 100,000 empty ones took 3.6 s and 510 MB,
    while validating either takes milliseconds. So the counts are read from the section headers
    before anything else looks at the module, and a large one is compiled in a process that a time
    and a memory cap end.

    Attributes:
        module_bytes: Size of the whole module.
        functions: Functions defined.
        types: Function types declared.
        imports: Things imported.
        exports: Things exported. Fetching the exports of an instance is quadratic in them.
        globals: Globals defined.
        segments: Element and data segments together.
        body_bytes: Size of one function.
        locals: Locals of one function.
        compile_seconds: Time for reading, validating and compiling.
        compile_memory: Bytes the process may use that compiles a module of more than 16 KiB.
        cache_bytes: Compiled code kept for reuse, in memory only.
    """

    module_bytes: int = 8 << 20
    functions: int = 20_000
    types: int = 2_000
    imports: int = 16
    exports: int = 64
    globals: int = 2_000
    segments: int = 10_000
    body_bytes: int = 64 << 10
    locals: int = 2_000
    compile_seconds: float = 10.0
    compile_memory: int = 1 << 30
    cache_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        _require_positive(self)

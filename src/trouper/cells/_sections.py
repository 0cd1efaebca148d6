"""Read the section headers of a module: what it declares, before anybody compiles it."""

from __future__ import annotations

from typing import Final, NoReturn

from ..errors import GuestRefused
from ._limits import AdmissionLimits

MAGIC: Final = b"\0asm"
VERSION: Final = b"\x01\0\0\0"

TYPE, IMPORT, FUNCTION, GLOBAL, EXPORT, ELEMENT, CODE, DATA = 1, 2, 3, 6, 7, 9, 10, 11

COUNTED: Final = {
    TYPE: "types",
    IMPORT: "imports",
    FUNCTION: "functions",
    GLOBAL: "globals",
    EXPORT: "exports",
    ELEMENT: "segments",
    DATA: "segments",
    CODE: "functions",
}


def refuse(rule: str, where: str, text: str) -> NoReturn:
    """Raise `GuestRefused` for a rule of admission."""
    raise GuestRefused(f"the module is refused: {text}", rule=rule, where=where)


def _u32(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read one LEB128 number that must end before ``end``; return it and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= end:
            refuse("format", f"byte {at}", f"it ends inside a number at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 1 << 32:
                break
            return value, at
    refuse("format", f"byte {at}", f"the number before byte {at} is too large")


def check_sections(data: bytes, limits: AdmissionLimits) -> None:
    """Refuse a module that is not binary, or declares more than ``limits``.

    Only counts and sizes are looked at; whether the rest makes sense is for validation to say.

    Raises:
        GuestRefused: ``rule`` is ``magic``, ``version``, ``format`` or the name of the limit.
    """
    if data[:4] != MAGIC:
        # wasmtime would take WebAssembly text from the same bytes; nobody untrusted gets that.
        refuse("magic", "byte 0", "it does not begin with the WebAssembly magic number")
    if data[4:8] != VERSION:
        refuse("version", "byte 4", "it is not a core module of version 1")
    if len(data) > limits.module_bytes:
        refuse(
            "module_bytes",
            "module",
            f"it is larger than {limits.module_bytes} bytes (module_bytes)",
        )
    at = 8
    while at < len(data):
        section = data[at]
        size, start = _u32(data, at + 1, len(data))
        end = start + size
        if end > len(data):
            refuse("format", f"byte {at}", f"section {section} at byte {at} is cut off")
        _check_section(data, section, start, end, limits)
        at = end


def _check_section(
    data: bytes, section: int, start: int, end: int, limits: AdmissionLimits
) -> None:
    rule = COUNTED.get(section)
    if rule is None:
        return
    count, at = _u32(data, start, end)
    most = getattr(limits, rule)
    if count > most:
        refuse(rule, f"section {section}", f"it declares {count} {rule}, more than {most}")
    if section == CODE:
        for index in range(count):
            at = _check_body(data, index, at, end, limits)


def _check_body(data: bytes, index: int, at: int, end: int, limits: AdmissionLimits) -> int:
    size, start = _u32(data, at, end)
    stop = start + size
    if stop > end:
        refuse("format", f"function {index}", f"function {index} is cut off")
    if size > limits.body_bytes:
        refuse(
            "body_bytes",
            f"function {index}",
            f"function {index} has {size} bytes, more than {limits.body_bytes}",
        )
    groups, at = _u32(data, start, stop)
    found = 0
    for _ in range(groups):
        count, at = _u32(data, at, stop)
        at += 1  # the type; validation looks at it
        found += count
        if found > limits.locals:
            refuse(
                "locals",
                f"function {index}",
                f"function {index} has more than {limits.locals} locals",
            )
    return stop

"""The frame around every stored value: version, flags, checksum, body.

    byte 0      frame version (1)
    byte 1      flags (0: none defined)
    bytes 2..5  crc32, big-endian, over key, version, flags and body
    bytes 6..   body

The key is under the checksum because a page that turns up under another key would pass a checksum
of the body alone. These six bytes and the checksum rule stay the same in every later version, so
that a damaged frame and a newer one can be told apart.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from ..errors import CorruptRecord, FormatTooNew

FRAME_VERSION: Final = 1
HEADER_BYTES: Final = 6
_HEAD: Final = bytes((FRAME_VERSION, 0))
_pack: Final = Struct(">2sI").pack


def pack(key: bytes, body: bytes) -> bytes:
    """Return the frame of `body` as it is stored under `key`."""
    return _pack(_HEAD, crc32(key + _HEAD + body)) + body


def unpack(table: str, key: bytes, frame: bytes) -> bytes:
    """Return the body of a frame.

    Raises:
        CorruptRecord: The checksum does not match.
        FormatTooNew: The frame is sound but of a version or with flags this program lacks.
    """
    body = frame[HEADER_BYTES:]
    head = frame[:2]
    if len(frame) < HEADER_BYTES or frame[2:HEADER_BYTES] != crc32(
        body, crc32(key + head)
    ).to_bytes(4, "big"):
        raise corrupt(table, key, "its checksum does not match")
    if head != _HEAD:
        raise FormatTooNew(
            f"row {key.hex()} of table {table!r} has frame version {head[0]}, flags {head[1]}; "
            f"this program reads version {FRAME_VERSION}. Use the newer trouper that wrote it.",
            table=table,
            key=key.hex(),
        )
    return body


def corrupt(table: str, key: bytes, what: str) -> CorruptRecord:
    """Return the error for one bad row; it names table and key."""
    return CorruptRecord(
        f"row {key.hex()} of table {table!r} is corrupt: {what}. Other rows are fine; "
        f"restore the store from a backup to have this one back.",
        table=table,
        key=key.hex(),
        reason=what,
    )

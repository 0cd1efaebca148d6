"""Tables and keys.

A key is a tag byte, a 16-byte hash of the identity it stands for, and an optional suffix that
orders the rows of that identity. LMDB caps keys at 511 bytes and identities are the user's, so the
full identity lives inside the row and whoever reads the row compares it.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from ..errors import ValueRefused

TABLES: Final = ("meta", "log", "record", "group", "settle")
"""The tables a unit may touch. ``log`` is written by `Tx.append` only."""

MAX_KEY: Final = 511
HASH_BYTES: Final = 16
_KNOWN: Final = frozenset(TABLES)


def row_key(tag: bytes, ident: str, suffix: bytes = b"") -> bytes:
    """Return the key of a row: tag byte, hash of the identity, suffix.

    Two identities may share a key (one chance in 2**64 among billions of rows): rows carry the
    full identity and the reader compares it.

    Args:
        tag: One byte that tells kinds of rows in one table apart.
        ident: The identity, of any length.
        suffix: Orders the rows of one identity, at most 494 bytes; big-endian numbers sort.
    """
    if len(tag) != 1:
        raise ValueRefused(f"a key tag is one byte, got {tag!r}", path="tag", reason="not one byte")
    key = _prefix(tag, ident) if len(ident) <= MAX_KEY else _hashed(tag, ident)
    if suffix:
        key += suffix
        check_key(key)
    return key


def _hashed(tag: bytes, ident: str) -> bytes:
    return tag + blake2b(ident.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


# The rows of one identity are met together: the children of a group, the steps of a run.
_prefix = lru_cache(maxsize=1024)(_hashed)


def log_key(sequence: int) -> bytes:
    """Return the key of a log row: its global sequence number, so that keys sort as numbers."""
    return sequence.to_bytes(8, "big")


def log_sequence(key: bytes) -> int:
    """Return the global sequence number of a log row."""
    return int.from_bytes(key, "big")


def check_key(key: bytes) -> None:
    """Refuse a key that LMDB cannot hold.

    Raises:
        ValueRefused: The key is not bytes, is empty, or is longer than 511 bytes.
    """
    if type(key) is not bytes or not 0 < len(key) <= MAX_KEY:
        raise ValueRefused(
            f"a key is 1 to {MAX_KEY} bytes, got {_shape(key)}; build it with row_key",
            path="key",
            reason="not 1 to 511 bytes",
        )


def check_table(table: str) -> None:
    """Refuse an unknown table: a bug in the caller, so a plain ValueError."""
    if table not in _KNOWN:
        raise ValueError(f"no table {table!r}; the tables are {', '.join(TABLES)}")


def _shape(key: object) -> str:
    return f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__

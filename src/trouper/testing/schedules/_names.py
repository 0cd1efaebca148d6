"""What journal keys, and ranges of them, are called in footprints.

Two steps depend on each other where names meet, so a scan and a write into its range have to find
the same name without knowing of each other. Ranges are those that keys are made of: the table, the
kind of rows in it, and one identity.
"""

from __future__ import annotations

from typing import Final

from ...store._keys import HASH_BYTES

_SIZES: Final = (0, 1, 1 + HASH_BYTES)  # of the prefixes that have a name: see `row_key`


def key_name(table: str, key: bytes) -> str:
    """Return the name of a journal key."""
    return f"{table} {key.hex()}"


def range_name(table: str, prefix: bytes) -> str:
    """Return the name of the range that a scan reads: of those with a name, the least around it."""
    size = max(size for size in _SIZES if size <= len(prefix))
    return f"{table} {prefix[:size].hex()}*"


def ranges_of(table: str, key: bytes) -> list[str]:
    """Return the names of all ranges around a key: the table, the kind of rows, the identity."""
    return [f"{table} {key[:size].hex()}*" for size in _SIZES if size <= len(key)]

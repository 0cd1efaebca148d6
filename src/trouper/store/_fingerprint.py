"""Fingerprints: the one definition of "the same value" that is written down.

SHA-256 over ``trouper/<domain>/<version>``, a zero byte, and the canonical bytes of the value. The
zero byte keeps a domain from running into the value behind it. Golden vectors are pinned in
``tests/store/test_fingerprint.py``: a change here orphans every unsettled row in the world.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final

from ..errors import ValueRefused
from ._codec import canonical
from ._shape import plain_of

_DOMAIN: Final = re.compile(r"[a-z][a-z0-9_.-]*/[1-9][0-9]*")


def fingerprint(domain: str, value: object) -> bytes:
    """Return the 32-byte fingerprint of a value in a versioned domain.

    That of a structured value is that of its plain form.

    Args:
        domain: What is compared, with the version of its shape: ``"envelope/1"``.
        value: The value.

    Raises:
        ValueRefused: Something in it has no plain form.
        ValueError: `domain` is not ``name/version``.
    """
    prefix = _prefix(domain)
    try:
        data = canonical(value)
    except ValueRefused:
        data = canonical(plain_of(value))
    return sha256(prefix + data).digest()


def fingerprint_of(domain: str, data: bytes) -> bytes:
    """Return the fingerprint of a value whose canonical bytes are at hand.

    Raises:
        ValueError: `domain` is not ``name/version``.
    """
    return sha256(_prefix(domain) + data).digest()


@lru_cache(maxsize=256)
def _prefix(domain: str) -> bytes:
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"a fingerprint domain looks like 'envelope/1', got {domain!r}")
    return b"trouper/" + domain.encode("ascii") + b"\0"

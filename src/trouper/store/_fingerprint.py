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

from ._codec import canonical

_DOMAIN: Final = re.compile(r"[a-z][a-z0-9_.-]*/[1-9][0-9]*")


def fingerprint(domain: str, value: object) -> bytes:
    """Return the 32-byte fingerprint of a profile value in a versioned domain.

    Args:
        domain: What is compared, with the version of its shape: ``"envelope/1"``.
        value: The value, in the codec's profile.

    Raises:
        ValueRefused: Something in it is outside the profile.
        ValueError: `domain` is not ``name/version``.
    """
    return sha256(_prefix(domain) + canonical(value)).digest()


@lru_cache(maxsize=256)
def _prefix(domain: str) -> bytes:
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"a fingerprint domain looks like 'envelope/1', got {domain!r}")
    return b"trouper/" + domain.encode("ascii") + b"\0"

"""Keys that a caller chooses: the identity of an activation or an operation, across restarts."""

from __future__ import annotations

from ..errors import ValueRefused

MAX_KEY = 1024
"""Characters of a key that a caller chooses; those of children are derived and may be longer."""


def require_key(key: object, what: str) -> str:
    """Return a caller's key; refuse what is no text, blank, too long or has no UTF-8 form."""
    if type(key) is not str:
        reason = f"it is a {type(key).__name__}"
    elif not key.strip():
        reason = "it is blank"
    elif len(key) > MAX_KEY:
        reason = f"it has {len(key)} characters, more than {MAX_KEY}"
    elif not key.isascii() and any("\ud800" <= character <= "\udfff" for character in key):
        reason = "it has a lone surrogate"
    else:
        return key
    raise ValueRefused(
        f"{what} takes a text as its key, not {key!r:.80}: {reason}", path="key", reason=reason
    )

"""Keys and names that a caller gives: what may be one, and what is refused with its reason."""

from __future__ import annotations

from typing import Final

from ..errors import ValueRefused

MAX_KEY = 1024
"""Characters of a key that a caller chooses; those of children are derived and may be longer."""

BLANK: Final = "it is blank"


def require_key(key: object, what: str) -> str:
    """Return a caller's key; refuse what is no text, blank, too long or has no UTF-8 form.

    Raises:
        ValueRefused: see there; ``what`` is whose key it is.
    """
    return _required(key, _own(key), f"{what} takes a text as its key", "key")


def require_name(name: object, what: str) -> str:
    """Return a name or an id of a caller's, under the rules of keys; ``what`` it is.

    Raises:
        ValueRefused: see there.
    """
    return _required(name, _own(name), f"{what} is a text", "name")


def require_text(key: object, what: str) -> str:
    """Return a key that somebody asks about: of any length, since those of children are derived.

    Raises:
        ValueRefused: no text, a blank one, or one without a UTF-8 form: nothing is kept under it.
    """
    return _required(key, _blank(key) or _alien(key), f"{what} takes a text as its key", "key")


def _required(text: object, reason: str, rule: str, path: str) -> str:
    if reason:
        advice = "; give one under which it is found again" if reason == BLANK else ""
        raise ValueRefused(f"{rule}, not {text!r:.80}: {reason}{advice}", path=path, reason=reason)
    assert type(text) is str
    return text


def _own(text: object) -> str:
    """Return why a caller cannot have this as a key, or nothing."""
    if type(text) is str and len(text) > MAX_KEY:
        return f"it has {len(text)} characters, more than {MAX_KEY}"
    return _blank(text) or _alien(text)


def _blank(text: object) -> str:
    """Return that this says nothing, as a variable does that was never set; or nothing."""
    return BLANK if type(text) is str and not text.strip() else ""


def _alien(text: object) -> str:
    """Return why nothing is kept under this, or nothing."""
    if type(text) is not str:
        return f"it is a {type(text).__name__}"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "it has a lone surrogate"
    return ""

"""The two persisted words of a group: its wake policy, and what becomes of losers."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from ...errors import GroupShapeError

W = TypeVar("W", bound=StrEnum)


class WakePolicy(StrEnum):
    """When a parked caller is worth waking. Identity only: `next` serves every rank under each."""

    FIRST = "first"
    FIRST_SUCCESS = "first_success"
    ALL = "all"


class Disposition(StrEnum):
    """What becomes of children that are unsettled when the caller's interest ends."""

    RUN_TO_COMPLETION = "run_to_completion"
    CANCEL = "cancel"


def read_word(kind: type[W], word: str) -> W:
    """Read a persisted word; an unknown one is refused by name, never mapped to a default."""
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(kind)
        raise GroupShapeError(
            f"{word!r} is no {kind.__name__}; known are: {known}", field=kind.__name__
        ) from None


def narrow(effective: Disposition, asked: Disposition, key: str) -> Disposition:
    """Return the disposition after a close (ruling 3): it may only narrow, cumulatively."""
    if effective is Disposition.CANCEL and asked is Disposition.RUN_TO_COMPLETION:
        raise GroupShapeError(
            f"group {key!r} is declared or narrowed to 'cancel' and cannot be widened back to "
            "'run_to_completion'; close it with 'cancel'",
            key=key,
            field="disposition",
        )
    return asked

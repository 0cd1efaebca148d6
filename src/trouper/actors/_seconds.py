"""Durations that an option may be."""

from __future__ import annotations

from numbers import Real


def check_seconds(what: str, seconds: float) -> float:
    """Refuse a duration that is none.

    Raises:
        TypeError, ValueError: It is no number at all; it is negative, or nan.
    """
    if not isinstance(seconds, Real):
        raise TypeError(f"{what} is a number of seconds, not {seconds!r:.80}")
    if not seconds >= 0:
        raise ValueError(f"{what} must be 0 seconds or more, not {seconds}")
    return seconds

"""What a failure means to a shell: pure rules from an exception to an exit status and its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from ..errors import (
    ActivationMismatch,
    AskUnknown,
    GuestRefused,
    InvariantError,
    OperationMismatch,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreLost,
    TrouperError,
    UnknownActivity,
)


class Status(IntEnum):
    """Exit statuses of the ``trouper`` command."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNKNOWN = 3
    INTERRUPTED = 130
    UNREAD = 141  # as of one that SIGPIPE ended: whoever read the output has gone


# The first row that fits decides; what fits none is a job that failed.
_RULES: tuple[tuple[tuple[type[BaseException], ...], Status], ...] = (
    ((KeyboardInterrupt,), Status.INTERRUPTED),
    ((OutcomeUnknown, AskUnknown, StoreLost), Status.UNKNOWN),
    ((StoreFull,), Status.FAILED),  # the input was fine, the disk was not
    ((StoreError, OSError), Status.REFUSED),
    ((UnknownActivity, ActivationMismatch, OperationMismatch, GuestRefused), Status.REFUSED),
    ((TrouperError,), Status.FAILED),
)
# When several things failed at once, the shell is told the one that asks for most care.
_GRAVITY = (Status.INTERRUPTED, Status.UNKNOWN, Status.FAILED, Status.REFUSED)


@dataclass(frozen=True, slots=True)
class Failure:
    """How a run ended, for the shell and for the reader."""

    status: Status
    lines: tuple[str, ...]


def read_failure(error: BaseException) -> Failure | None:
    """Return what a failure means to the user, or None if it is a bug: then show its traceback."""
    leaves = list(_leaves(error))
    statuses = [_status(leaf) for leaf in leaves]
    known = [status for status in statuses if status is not None]
    if len(known) < len(leaves):
        return None
    return Failure(
        status=min(known, key=_GRAVITY.index),
        lines=tuple(dict.fromkeys(map(_line, leaves))),
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for inner in group.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _status(error: BaseException) -> Status | None:
    if isinstance(error, InvariantError):
        return None
    for types, status in _RULES:
        if isinstance(error, types):
            return status
    return None


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"  # a command that can be resumed says how, before it gets here
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror.lower()}"
    text = " ".join(str(error).split()) or type(error).__name__
    text += "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    cause = error.__cause__
    if cause is None or str(cause) in text:
        return text
    return f"{text} (caused by {type(cause).__name__}: {cause})"

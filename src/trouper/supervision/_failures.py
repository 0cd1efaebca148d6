"""Telling failures from cancellation, and one failure from a group of one."""

from __future__ import annotations

from typing import cast

import trio


def unwrap(error: BaseException) -> BaseException | None:
    """Take cancellation out of an error and peel groups of one; None if nothing is left."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    _, rest = group.split(trio.Cancelled)
    parts: list[BaseException] = list(rest.exceptions) if rest is not None else []
    return unwrap(parts[0]) if len(parts) == 1 else rest


def text_of(error: BaseException) -> str:
    """Return ``repr(error)``, or the name of its class where that raises: it is user code."""
    try:
        return repr(error)
    except Exception as broken:
        return f"{type(error).__name__}(...) whose repr raised {type(broken).__name__}"


def join_failures(
    name: str, body: BaseException | None, failure: BaseException | None
) -> BaseException | None:
    """Return what a block raises that ended with a body error, a child's failure, or both.

    A body that was merely cancelled adds nothing to the failure, nor does one that only repeats it
    (an ask of it that failed with this very cause). Two KeyboardInterrupts are one.
    """
    if failure is None or body is None:
        return failure or body
    echo = unwrap(body)
    while echo is not None and echo is not failure:
        echo = echo.__cause__
    if echo is failure or unwrap(body) is None:
        return failure
    if isinstance(body, KeyboardInterrupt) and isinstance(failure, KeyboardInterrupt):
        return failure
    return BaseExceptionGroup(name, [body, failure])

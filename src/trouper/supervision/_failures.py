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


def join_failures(
    name: str, body: BaseException | None, failure: BaseException | None
) -> BaseException | None:
    """Return what a block raises that ended with a body error, a child's failure, or both.

    A body that was merely cancelled, because of the failure, adds nothing to it. Two
    KeyboardInterrupts are one.
    """
    if failure is None or body is None:
        return failure or body
    if unwrap(body) is None or body is failure:
        return failure
    if isinstance(body, KeyboardInterrupt) and isinstance(failure, KeyboardInterrupt):
        return failure
    return BaseExceptionGroup(name, [body, failure])

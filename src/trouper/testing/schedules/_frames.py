"""Whose frames a traceback shows: those of the code under test, not those of what drove it."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Final, TypeVar

_FRAMEWORK: Final = frozenset({"trouper", "trio", "outcome", "sniffio"})

E = TypeVar("E", bound=BaseException)


def own_frames(error: E) -> E:
    """Leave out of an error's traceback, and of all it stands for, the frames of the framework.

    Changes the error itself. What the framework alone raised has no traceback then.
    """
    for part in _parts(error):
        trace = part.__traceback__
        kept: list[TracebackType] = []
        while trace is not None:
            if not _is_framework(trace.tb_frame):
                kept.append(trace)
            trace = trace.tb_next
        rest: TracebackType | None = None
        for link in reversed(kept):
            rest = TracebackType(rest, link.tb_frame, link.tb_lasti, link.tb_lineno)
        part.__traceback__ = rest
    return error


def _is_framework(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return str(module).partition(".")[0] in _FRAMEWORK


def _parts(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes and contexts, and the members of groups among them."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        todo += [part.__cause__, part.__context__]
        if isinstance(part, BaseExceptionGroup):
            todo += part.exceptions  # pyright: ignore[reportUnknownMemberType]

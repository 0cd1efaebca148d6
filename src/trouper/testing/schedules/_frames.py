"""Whose frames a traceback shows: those of the code under test, not those of what drove it."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Final, TypeVar

_FRAMEWORK: Final = frozenset({"trouper", "trio", "outcome", "sniffio"})
_BETWEEN: Final = "contextlib"  # part of it where the framework calls it

E = TypeVar("E", bound=BaseException)


def own_frames(error: E) -> E:
    """Leave out of an error's traceback, and of all it stands for, the frames of the framework.

    Changes the error itself. What the framework alone raised has no traceback then.
    """
    for part in _parts(error):
        trace = part.__traceback__
        kept: list[TracebackType] = []
        is_inside = False
        while trace is not None:
            module = _module(trace.tb_frame)
            is_inside = module in _FRAMEWORK or (is_inside and module == _BETWEEN)
            if not is_inside:
                kept.append(trace)
            trace = trace.tb_next
        rest: TracebackType | None = None
        for link in reversed(kept):
            rest = TracebackType(rest, link.tb_frame, link.tb_lasti, link.tb_lineno)
        part.__traceback__ = rest
    for part in _parts(error):
        context = part.__context__
        if context is not None and context.__traceback__ is None:
            part.__context__ = None  # what the framework did meanwhile: its own cancellations
    return error


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


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

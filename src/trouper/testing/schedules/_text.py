"""A message-sequence chart in characters, for a terminal or a log."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from ._chart import Chart, Room, Row, chart, positions, printable, shortened
from ._failure import Failure

_WIDEST: Final = 36  # of a label or a name; what is longer is cut
_MARGIN: Final = 7  # for the number of a step
_LINE: Final = 100  # of a sentence
_SIGNS: Final = {"deliver": "●", "reply": "●", "commit": "■", "timer": "◷"}


def text_chart(failure: Failure) -> str:
    """Draw the failing schedule in characters: a column per actor, a row per step.

    A row is an arrow from who sent to who got it, at the time of getting it. ``■`` is a commit that
    has returned, ``◷`` a timer; ``(1)`` marks what the first of the sentences below is about.
    """
    drawn = chart(failure)
    names = [shortened(name, _WIDEST) for name in drawn.columns]
    *ends, end = (int(x) for x in _positions(drawn, names))
    head = [" "] * (end + _WIDEST)
    for x, name in zip(ends, names, strict=True):
        _put(head, x, name)
    lines = [*textwrap.wrap(drawn.title, _LINE), "", "".join(head).rstrip()]
    lines += ["".join(_line(row, ends, end)).rstrip() for row in drawn.rows]
    lines += ["", *(f"({n}) {reason}" for n, reason in enumerate(drawn.reasons, 1))]
    lines += drawn.notes
    return "\n".join(lines).rstrip() + "\n"


def _positions(drawn: Chart, names: Sequence[str]) -> list[float]:
    least = [_MARGIN, *(float(len(name) + 2) for name in names)]
    return positions(len(names), least, _rooms(drawn))


def _rooms(drawn: Chart) -> Iterator[Room]:
    for row in drawn.rows:
        if row.kind == "crash":
            continue
        if row.is_sign:
            yield Room(row.column, row.column + 1, row.column, len(_label(row)) + 4)
        else:
            left, right = sorted((row.source or 0, row.column))
            yield Room(left, right, row.column, len(_label(row)) + 6)


def _label(row: Row) -> str:
    label = printable(row.label, _WIDEST)
    if row.outside and row.kind == "deliver":
        label = printable(f"{row.label} from {row.outside}", _WIDEST)
    return label + "".join(f" ({mark})" for mark in row.marks)


def _line(row: Row, ends: list[int], end: int) -> list[str]:
    cells = [" "] * (end + _WIDEST)
    _put(cells, 0, f"{row.number:>{_MARGIN - 3}}")
    label = _label(row)
    if row.kind == "crash":
        width = max(end - _MARGIN, len(label) + 8)
        _put(cells, _MARGIN - 1, f" {label} ".center(width, "═"))
        return cells
    for x in ends:
        cells[x] = "│"
    target, source = ends[row.column], ends[row.source or 0]
    if row.is_sign:
        _put(cells, target, f"{_SIGNS[row.kind]} {label}")
        return cells
    left, right = sorted((source, target))
    for x in range(left + 1, right):
        cells[x] = "╌" if row.kind == "reply" else "─"
    cells[right if source == right else left] = "┤" if source == right else "├"
    cells[target + (1 if target == left else -1)] = "◀" if target == left else "▶"
    room = right - left - 5
    shown = printable(label, room)
    _put(cells, left + 3 + (room - len(shown)) // 2, f" {shown} " if room > 2 else "")
    return cells


def _put(cells: list[str], at: int, text: str) -> None:
    cells[at : at + len(text)] = text

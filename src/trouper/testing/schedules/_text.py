"""A message-sequence chart in characters, for a terminal or a log."""

from __future__ import annotations

from typing import Final

from ._chart import Chart, Row, chart, printable
from ._failure import Failure

_WIDEST: Final = 36  # of a label; what is longer is cut
_MARGIN: Final = 6  # for the number of a step
_SIGNS: Final = {"deliver": "●", "reply": "●", "commit": "■", "timer": "◷"}


def text_chart(failure: Failure) -> str:
    """Draw the failing schedule in characters: a column per actor, a row per step.

    A row is an arrow from who sent to who got it, at the time of getting it. ``■`` is a commit that
    has returned, ``◷`` a timer; ``(1)`` marks what the first of the sentences below is about.
    """
    drawn = chart(failure)
    pitch = _pitch(drawn)
    ends = [_MARGIN + 1 + pitch * n for n in range(len(drawn.columns))]
    head = [" "] * (_MARGIN + 1 + pitch * len(ends))
    for x, name in zip(ends, drawn.columns, strict=True):
        _put(head, x, printable(name, pitch - 2))
    lines = [drawn.title, "", "".join(head).rstrip()]
    lines += ["".join(_line(row, ends, pitch)).rstrip() for row in drawn.rows]
    lines += ["", *(f"({n}) {reason}" for n, reason in enumerate(drawn.reasons, 1))]
    lines.append(drawn.note)
    return "\n".join(lines).rstrip() + "\n"


def _pitch(drawn: Chart) -> int:
    pitch = max((len(name) + 2 for name in drawn.columns), default=8)
    for row in drawn.rows:
        length = len(_label(row))
        if row.source is None or row.source == row.column:
            pitch = max(pitch, length + 4)
        else:
            pitch = max(pitch, -(-(length + 6) // abs(row.column - row.source)))
    return min(max(pitch, 10), _WIDEST + 6)


def _label(row: Row) -> str:
    label = printable(row.label, _WIDEST)
    if row.outside and row.kind == "deliver":
        label = printable(f"{row.label} from {row.outside}", _WIDEST)
    return label + "".join(f" ({mark})" for mark in row.marks)


def _line(row: Row, ends: list[int], pitch: int) -> list[str]:
    cells = [" "] * (_MARGIN + pitch * max(len(ends), 1) + _WIDEST)
    _put(cells, 0, f"{row.number:>{_MARGIN - 2}}")
    label = _label(row)
    if row.kind == "crash":
        width = max(pitch * len(ends), len(label) + 8)
        _put(cells, _MARGIN, f" {label} ".center(width, "═"))
        return cells
    for x in ends:
        cells[x] = "│"
    target = ends[row.column]
    source = None if row.source is None else ends[row.source]
    if row.kind in ("commit", "timer") or source is None or source == target:
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

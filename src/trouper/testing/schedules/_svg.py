"""A message-sequence chart as SVG: time runs down, an arrow leaves when it was sent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from ._chart import Chart, Room, Row, chart, positions, printable, shortened
from ._failure import Failure

_ROW: Final = 34  # pixels from step to step
_TOP: Final = 58  # from the last line of the title to the first step
_LEFT: Final = 56
_LETTER: Final = 7.2  # about the width of a letter of 12 pixels
_LONGEST: Final = 34  # letters of a label or a name; what is longer is cut
_LINE: Final = 84  # letters of a line of the title
_STYLE: Final = """
  text { font: 12px Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #1f2933; }
  .paper { fill: #ffffff; }
  .title { font-size: 15px; font-weight: bold; fill: #b42318; }
  .name { font-weight: bold; text-anchor: middle; }
  .number { fill: #7b8794; text-anchor: end; font-size: 11px; }
  .halo { stroke: #ffffff; stroke-width: 4px; }
  .box { fill: #eef2f6; stroke: #52606d; }
  .life { stroke: #9aa5b1; stroke-dasharray: 3 4; }
  .turn { fill: #cbd6e2; stroke: #52606d; stroke-width: 0.8; }
  .deliver { stroke: #1d4ed8; stroke-width: 1.6; fill: none; }
  .reply { stroke: #52606d; stroke-width: 1.4; stroke-dasharray: 5 3; fill: none; }
  .tip-deliver { fill: #1d4ed8; } .tip-reply { fill: #52606d; }
  .commit { fill: #15803d; } .timer { fill: #ffffff; stroke: #b45309; stroke-width: 2; }
  .crash { fill: #fee4e2; stroke: #b42318; } .crash-text { fill: #b42318; font-weight: bold; }
  .badge { fill: #b42318; } .badge-text { fill: #ffffff; font-size: 10px; font-weight: bold;
    text-anchor: middle; }
"""
_DARK: Final = """
  @media (prefers-color-scheme: dark) {
    text { fill: #d9e2ec; } .paper { fill: #14181d; } .halo { stroke: #14181d; }
    .title, .crash-text { fill: #ff8a80; } .number { fill: #9aa5b1; }
    .box { fill: #243039; stroke: #9aa5b1; } .life { stroke: #52606d; }
    .turn { fill: #3e4c59; stroke: #9aa5b1; }
    .deliver { stroke: #8ab4ff; } .tip-deliver { fill: #8ab4ff; }
    .reply { stroke: #b8c4ce; } .tip-reply { fill: #b8c4ce; }
    .commit { fill: #4ade80; } .timer { fill: #14181d; stroke: #fbbf24; }
    .crash { fill: #4a1512; stroke: #ff8a80; }
  }
"""


def svg_chart(failure: Failure) -> str:
    """Draw the failing schedule as SVG: a lifeline per actor, a row per step.

    An arrow begins where the message was sent and ends where it was taken, so what was overtaken is
    seen to be. Grey bars are turns. The red numbers belong to the sentences at the foot. It is
    light or dark as who looks at it prefers.
    """
    return _Drawing(chart(failure)).text()


class _Drawing:
    def __init__(self, drawn: Chart) -> None:
        self._chart = drawn
        self._title = textwrap.wrap(drawn.title, _LINE) or [""]
        self._names = [shortened(name, _LONGEST) for name in drawn.columns]
        self._top = _TOP + 19 * len(self._title) + 19
        halves = [len(name) * _LETTER / 2 + 11 for name in self._names]
        sides = zip([0.0, *halves], [*halves, 0.0], strict=True)
        least = [max(left + right + 16, 50) for left, right in sides]
        least[0] += 36  # the numbers
        *self._columns, self._right = positions(len(halves), least, self._rooms())
        self._foot = self._top + _ROW * (len(drawn.rows) + 1)
        lines = [9.1 * len(line) for line in self._title]
        lines += [6.6 * len(line) + 30 for line in (*drawn.reasons, *drawn.notes)]
        crashes = [len(row.label) * 8.8 + _LEFT for row in drawn.rows if row.kind == "crash"]
        self._width = max(self._right + 10, *(20 + line for line in (*lines, *crashes)))
        self._height = self._foot + 24 + 22 * (len(drawn.reasons) + len(drawn.notes))

    def _rooms(self) -> Iterator[Room]:
        for row in self._chart.rows:
            if row.kind == "crash":
                continue
            at, width = row.column, len(_label(row)) * _LETTER
            if not row.is_sign:
                left, right = sorted((row.source or 0, at))
                # the label, and the badges of the other end
                yield Room(left, right, at, width + 38)
            elif _is_from_left(row):
                yield Room(at - 1, at, at, width + (60 if at else 70))
            else:
                yield Room(at, at + 1, at, width + 30)
            for side in (at - 1, at) if row.marks else ():
                yield Room(side, side + 1, at, 24 + 18.0 * len(row.marks))

    def text(self) -> str:
        rows = [(n, row) for n, row in enumerate(self._chart.rows) if row.kind != "crash"]
        body = [
            *self._frame(),
            *self._turns(),
            *self._crashes(),
            *(part for place, row in rows for part in self._signs(place, row)),
            *(part for place, row in rows for part in self._labels(place, row)),
            *self._reasons(),
        ]
        size = f'width="{self._width:.0f}" height="{self._height:.0f}"'
        box = f'viewBox="0 0 {self._width:.0f} {self._height:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>'
        back = '<rect class="paper" width="100%" height="100%"/>'
        return "\n".join([head, f"<style>{_STYLE}{_DARK}</style>", back, *body, "</svg>\n"])

    def _x(self, column: int) -> float:
        return self._columns[column]

    def _y(self, row: int) -> float:
        return self._top + _ROW * (row + 0.8)

    def _frame(self) -> Iterator[str]:
        for place, line in enumerate(self._title):
            yield _text(20, 28 + 19 * place, line, "title")
        top = self._top - 50
        for x, name, whole in zip(self._columns, self._names, self._chart.columns, strict=True):
            width = len(name) * _LETTER + 22
            yield _line(x, top + 26, x, self._foot, "life")
            yield f"<g><title>{escape(printable(whole))}</title>"
            yield f'<rect class="box" x="{x - width / 2:.1f}" y="{top}" width="{width:.1f}" '
            yield 'height="26" rx="4"/>'
            yield _text(x, top + 17, name, "name") + "</g>"
        for place, row in enumerate(self._chart.rows):
            y = self._y(place)
            yield _text(_LEFT - 26, y + 4, str(row.number), "number")

    def _crashes(self) -> Iterator[str]:
        for place, row in enumerate(self._chart.rows):
            y = self._y(place)
            if row.kind == "crash":
                width = max(self._right - _LEFT, len(row.label) * 8.8)
                yield f'<rect class="crash" x="{_LEFT}" y="{y - 11:.1f}" '
                yield f'width="{width:.1f}" height="22"/>'
                along = _LEFT + 16 + 18 * len(row.marks)
                yield _text(along, y + 4, row.label.upper(), "crash-text")
                yield from self._badges(row, _LEFT + 16, y, 1)

    def _turns(self) -> Iterator[str]:
        ends: dict[tuple[int, int], float] = {}
        waiting: dict[int, tuple[int, int]] = {}  # by column: its turn that is not over
        for place, row in enumerate(self._chart.rows):
            if row.kind == "crash":
                ends |= {turn: self._y(place) for turn in waiting.values()}
                waiting.clear()
                continue
            ends[row.column, row.starts] = self._y(place) + 7
            waiting.pop(row.column, None)
            if row.is_busy:
                waiting[row.column] = row.column, row.starts
        ends |= {turn: float(self._foot) for turn in waiting.values()}
        for (column, first), bottom in ends.items():
            top = self._y(first) - 7
            yield f'<rect class="turn" x="{self._x(column) - 4:.1f}" y="{top:.1f}" width="8" '
            yield f'height="{bottom - top:.1f}"/>'

    def _signs(self, place: int, row: Row) -> Iterator[str]:
        x, y = self._x(row.column), self._y(place)
        if row.kind == "commit":
            yield f'<rect class="commit" x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"/>'
        elif row.kind == "timer":
            yield f'<circle class="timer" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        else:
            yield from self._arrow(row, x, y, -1 if _is_from_left(row) else 1)

    def _labels(self, place: int, row: Row) -> Iterator[str]:
        x, y = self._x(row.column), self._y(place)
        away, anchor = (-12, "end") if _is_from_left(row) else (12, "start")
        for kind in ("halo", ""):
            yield _text(x + away, y - 6, _label(row), kind, f'text-anchor="{anchor}"')
        yield from self._badges(row, x - away * 1.4, y, -1 if away > 0 else 1)

    def _arrow(self, row: Row, x: float, y: float, side: int) -> Iterator[str]:
        tip, kind = x + side * 5, "reply" if row.kind == "reply" else "deliver"
        if row.source is None:
            start, height = x - 40, y
        elif row.source == row.column:  # to itself: a short hook
            start, height = x + 30, y
        else:
            start = self._x(row.source) - side * 4
            height = y if row.sent is None else self._y(row.sent)
        end = tip + side * 6
        if height == y:
            yield _line(start, height, end, y, kind)
        else:  # bent at its end, where it arrives below its label
            way = end - start
            lean = f"{start + way * 0.4:.1f} {height + (y - height) * 0.4:.1f}"
            level = f"{end - max(min(way * 0.45, 60), -60):.1f} {y:.1f}"
            yield f'<path class="{kind}" d="M {start:.1f} {height:.1f} C {lean} {level} '
            yield f'{end:.1f} {y:.1f}"/>'
        points = (
            f"{tip:.1f},{y:.1f} {tip + side * 9:.1f},{y - 4:.1f} {tip + side * 9:.1f},{y + 4:.1f}"
        )
        yield f'<polygon class="tip-{kind}" points="{points}"/>'

    @staticmethod
    def _badges(row: Row, x: float, y: float, side: int) -> Iterator[str]:
        for place, mark in enumerate(row.marks):
            at = x + side * 18 * place
            yield f'<circle class="badge" cx="{at:.1f}" cy="{y:.1f}" r="8"/>'
            yield _text(at, y + 3.5, str(mark), "badge-text")

    def _reasons(self) -> Iterator[str]:
        y = self._foot + 22.0
        for mark, reason in enumerate(self._chart.reasons, 1):
            yield f'<circle class="badge" cx="28" cy="{y - 4:.1f}" r="8"/>'
            yield _text(28, y - 0.5, str(mark), "badge-text")
            yield _text(44, y, reason, "")
            y += 22
        for note in self._chart.notes:
            yield _text(20, y, note, "")
            y += 22


def _is_from_left(row: Row) -> bool:
    if row.kind in ("commit", "timer"):
        return False
    return row.source is None or row.source < row.column


def _label(row: Row) -> str:
    outside = row.outside and row.kind == "deliver"
    return printable(f"{row.label} from {row.outside}" if outside else row.label, _LONGEST)


def _text(x: float, y: float, text: str, kind: str, extra: str = "") -> str:
    safe = escape(printable(text))
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" {extra}>{safe}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'

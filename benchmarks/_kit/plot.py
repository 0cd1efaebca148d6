"""A bar plot as SVG, written by hand: ratios on a logarithmic axis, with their targets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path

from .report import Result, times
from .rows import Comparison

WIDTH, LABEL, LINE, TOP, BOTTOM = 1020, 430, 20, 70, 56
COLOURS = {"aim": "#2a7f4f", "must": "#7cb342", "missed": "#c62828", "": "#90a4ae"}
SMALLEST, LARGEST = 0.1, 1000.0


def draw(result: Result, path: Path) -> None:
    """Write the plot of a result."""
    height = TOP + LINE * len(result.comparisons) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16">trouper {escape(result.benchmark)}: '
        "times faster (or smaller) than its peers</text>",
        '<text x="12" y="42" fill="#555">bars: median ratio; thin line: quartiles; '
        "black mark: must; white-cored mark: aim</text>",
        *_axis(height),
    ]
    for at, comparison in enumerate(result.comparisons):
        parts += _bar(comparison, TOP + LINE * at)
    stamp = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    parts.append(
        f'<text x="12" y="{height - 12}" fill="#555" font-size="10">'
        f"{escape(result.when)}; {escape(stamp)}</text>"
    )
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _x(ratio: float) -> float:
    inside = min(max(ratio, SMALLEST), LARGEST)
    share = math.log(inside / SMALLEST) / math.log(LARGEST / SMALLEST)
    return LABEL + share * (WIDTH - LABEL - 60)


def _axis(height: int) -> Iterator[str]:
    for ratio in (0.1, 1.0, 10.0, 100.0, 1000.0):
        x, stroke = _x(ratio), "#333" if ratio == 1 else "#ddd"
        yield (
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM + 6}" '
            f'stroke="{stroke}"/>'
        )
        yield (
            f'<text x="{x:.1f}" y="{height - BOTTOM + 20}" text-anchor="middle">{ratio:g}x</text>'
        )


def _bar(c: Comparison, y: int) -> Iterator[str]:
    left, right = sorted((_x(1.0), _x(c.ratio)))
    middle = y + LINE / 2
    yield (
        f'<text x="{LABEL - 8}" y="{middle + 4}" text-anchor="end">'
        f"{escape(c.row)} / {escape(c.peer)}</text>"
    )
    yield (
        f'<rect x="{left:.1f}" y="{y + 3}" width="{max(right - left, 1):.1f}" '
        f'height="{LINE - 6}" fill="{COLOURS[c.verdict]}"/>'
    )
    yield (
        f'<line x1="{_x(c.low):.1f}" y1="{middle}" x2="{_x(c.high):.1f}" y2="{middle}" '
        'stroke="#333"/>'
    )
    for target, core in ((c.must, "#000"), (c.aim, "#fff")):
        if target is not None:
            yield (
                f'<rect x="{_x(target) - 1.5:.1f}" y="{y + 1}" width="3" height="{LINE - 2}" '
                f'fill="{core}" stroke="#000" stroke-width="0.6"/>'
            )
    end = _x(max(c.ratio, c.high, c.aim or 1.0, 1.0))  # right of everything else in this line
    yield f'<text x="{end + 8:.1f}" y="{middle + 4}">{times(c.ratio)}</text>'

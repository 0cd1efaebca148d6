"""A run as a page of the documentation, with its plot beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from .plot import draw
from .process import HERE
from .report import UNITS, Result, amount, sentence, times
from .rows import Comparison

PAGES = HERE.parent / "docs" / "performance"
VERDICTS = {"aim": "**aim**", "must": "must", "missed": "**missed**", "": ""}


def publish(result: Result, folder: Path) -> None:
    """Write the page of a result, and its plot."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(result, folder / f"{result.benchmark}.svg")
    (folder / f"{result.benchmark}.md").write_text("\n".join(_lines(result)) + "\n")


def _lines(result: Result) -> Iterator[str]:
    name = result.benchmark
    yield f"<!-- Rendered by benchmarks/{name}.py; do not edit. -->"
    yield from (f"# {name.capitalize()}: what a run measured", "")
    yield f"`make bench` on {result.when[:10]}: " + ", ".join(
        f"{what} {version}" for what, version in result.versions.items()
    )
    yield "Medians of interleaved rounds. A ratio is theirs / ours in one round: more is better."
    yield from ("", f"![Ratios, their quartiles and their targets]({name}.svg)", "")
    yield from ("## Against others", "")
    yield from _table(
        ("operation", "peer", "theirs", "trouper", "ratio", "quartiles", "must", "aim", "met"),
        (_comparison(c, is_first) for c, is_first in _with_firsts(result.comparisons)),
    )
    reached = [c.verdict for c in result.comparisons if c.verdict]
    met = len(reached) - reached.count("missed")
    yield f"Of {len(reached)} comparisons with a target {met} reach the must,"
    yield f"{reached.count('aim')} the aim. Marked (wall) is wall-clock time, a number without"
    yield "a unit a count (`off`: of instructions), the rest CPU time."
    if result.instructions:
        yield from ("", "## Instructions per operation", "")
        yield "Counted by valgrind, with few and with many operations; the difference is theirs."
        yield ""
        yield from _table(
            ("operation", "trouper", "peer", "theirs", "ratio"),
            (
                (
                    c.row if is_first else "",
                    amount(c.ours, "") if is_first else "",
                    c.peer,
                    amount(c.theirs, ""),
                    times(c.ratio),
                )
                for c, is_first in _with_firsts(result.instructions)
            ),
        )
    for grid in result.grids:
        yield from ("", f"## {grid.title[:1].upper()}{grid.title[1:]}", "")
        yield from _table(grid.headings, iter(grid.rows))
        if grid.note:
            yield grid.note
    yield from ("", "## How it grows", "")
    yield from _table(
        ("operation, by size", "sizes", "trouper, each", "growth"),
        (
            (
                growth.what,
                " / ".join(f"{size:,}" for size in growth.sizes),
                " / ".join(amount(cost, growth.unit) for cost in growth.costs),
                times(growth.factor),
            )
            for growth in result.growths
        ),
    )
    yield from (f"* {sentence(growth)}" for growth in result.growths)
    if result.left_out:
        yield from ("", "## Left out", "")
        yield from (f"* {what}" for what in result.left_out)


def _with_firsts(comparisons: Sequence[Comparison]) -> Iterator[tuple[Comparison, bool]]:
    for _, group in groupby(comparisons, key=lambda c: c.row):
        for at, comparison in enumerate(group):
            yield comparison, at == 0


def _comparison(c: Comparison, is_first: bool) -> tuple[str, ...]:
    unit = UNITS.get(c.measure, "ns")
    return (
        c.row if is_first else "",
        f"{c.peer}{' (wall)' if c.measure == 'wall' else ''}",
        amount(c.theirs, unit),
        amount(c.ours, unit),
        times(c.ratio),
        f"{times(c.low)} - {times(c.high)}" if c.rounds > 1 else "",
        times(c.must),
        times(c.aim),
        VERDICTS[c.verdict],
    )


def _table(headings: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join('---' for _ in headings)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""

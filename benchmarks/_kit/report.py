"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .rows import Comparison, Grid, Growth, Verdict

STYLES: dict[Verdict, str] = {"aim": "bold green", "must": "green", "missed": "bold red", "": "dim"}
UNITS = {"bytes": "B", "count": ""}
LINEAR = 1.5  # a cost per operation that grows less than this over all three sizes is called flat


@dataclass(frozen=True, slots=True)
class Result:
    """One run of a benchmark."""

    benchmark: str
    quick: bool
    versions: dict[str, str]
    when: str
    comparisons: list[Comparison]
    growths: list[Growth]
    left_out: list[str] = field(default_factory=list)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    instructions: list[Comparison] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)

    def misses(self) -> list[str]:
        """Name every must that was missed, and every gated peer that could not be measured."""
        missed = [
            f"{c.row} against {c.peer}: {c.ratio:.2f}x, must be {c.must:g}x"
            for c in self.comparisons
            if c.verdict == "missed"
        ]
        return missed + [f"not measured: {what}" for what in self.left_out if "gated" in what]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Result:
        """Read back what `save` wrote."""
        raw = json.loads(path.read_text())
        comparisons = [Comparison(**c) for c in raw.pop("comparisons")]
        growths = [
            Growth(g["what"], g["unit"], tuple(g["sizes"]), tuple(g["costs"]), g["note"])
            for g in raw.pop("growths")
        ]
        instructions = [Comparison(**c) for c in raw.pop("instructions", ())]
        grids = [
            Grid(g["title"], tuple(g["headings"]), tuple(map(tuple, g["rows"])), g["note"])
            for g in raw.pop("grids", ())
        ]
        return Result(
            comparisons=comparisons,
            growths=growths,
            instructions=instructions,
            grids=grids,
            **raw,
        )


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return what a result depends on: interpreter, machine, packages, Erlang if it is there."""
    found = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": f"{platform.system()} {platform.machine()}",
    }
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["erlang"] = "not installed"
    if (erl := shutil.which("erl")) is not None:
        release = "io:put_chars(erlang:system_info(otp_release)), halt()."
        found["erlang"] = subprocess.run(
            [erl, "-noshell", "-eval", release], capture_output=True, text=True, check=False
        ).stdout
    return found


def now() -> str:
    """Return the time of a result."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def amount(value: float, unit: str) -> str:
    """Write a cost with three digits."""
    if unit == "B":
        return f"{value:,.0f} B"
    if not unit:
        return f"{value:.3g}" if value < 1_000 else f"{value:,.0f}"
    return f"{value:,.0f} ns" if value < 10_000 else f"{value / 1000:,.1f} us"


def times(value: float | None) -> str:
    """Write a ratio with three digits."""
    if value is None:
        return ""
    if value < 1:
        return f"1/{1 / value:.3g}"
    return f"{value:.0f}x" if value >= 100 else f"{value:.3g}x"


def show(result: Result) -> None:
    """Print the comparisons, the cost model, and what was left out."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_comparisons(result))
    if result.instructions:
        console.print(_instructions(result))
    for grid in result.grids:
        console.print(_grid(grid))
    if result.growths:
        console.print(_growths(result))
        for growth in result.growths:
            console.print(f"  {sentence(growth)}", highlight=False)
    for what in result.left_out:
        console.print(f"left out: {what}", style="yellow", highlight=False)
    console.print(
        ", ".join(f"{name} {version}" for name, version in result.versions.items()),
        style="dim",
        highlight=False,
    )


def _comparisons(result: Result) -> Table:
    table = Table(
        title=f"{result.benchmark}: theirs / ours, per operation (more is better for trouper)",
        caption="medians of interleaved rounds; ratios of the same round, quartiles beside them",
    )
    for heading in ("peer", "theirs", "trouper", "ratio", "quartiles", "must", "aim", "met"):
        table.add_column(heading, justify="left" if heading == "peer" else "right", no_wrap=True)
    last = ""
    for c in result.comparisons:
        unit = UNITS.get(c.measure, "ns")
        if c.row != last:
            table.add_section()
            table.add_row(f"[bold]{c.row}[/]")
        table.add_row(
            f"  {c.peer}{' (wall)' if c.measure == 'wall' else ''}",
            amount(c.theirs, unit),
            amount(c.ours, unit),
            times(c.ratio),
            f"{times(c.low)} - {times(c.high)}" if c.rounds > 1 else "",
            times(c.must),
            times(c.aim),
            f"[{STYLES[c.verdict]}]{c.verdict or '-'}[/]",
        )
        last = c.row
    return table


def _instructions(result: Result) -> Table:
    table = Table(title="instructions per operation, counted by valgrind", caption="theirs / ours")
    for heading in ("operation", "trouper", "peer", "theirs", "ratio"):
        table.add_column(heading, justify="left" if heading in ("operation", "peer") else "right")
    last = ""
    for c in result.instructions:
        first = c.row != last
        table.add_row(
            c.row if first else "",
            amount(c.ours, "") if first else "",
            c.peer,
            amount(c.theirs, ""),
            times(c.ratio),
            end_section=False,
        )
        last = c.row
    return table


def _grid(grid: Grid) -> Table:
    table = Table(title=grid.title, caption=grid.note or None)
    for at, heading in enumerate(grid.headings):
        table.add_column(heading, justify="right" if at else "left")
    for row in grid.rows:
        table.add_row(*row)
    return table


def _growths(result: Result) -> Table:
    table = Table(title="cost model: trouper's cost per operation at three sizes")
    for heading in ("operation, by size", "sizes", "costs", "growth"):
        table.add_column(heading, justify="left" if heading != "growth" else "right")
    for growth in result.growths:
        table.add_row(
            growth.what,
            " / ".join(f"{size:,}" for size in growth.sizes),
            " / ".join(amount(cost, growth.unit) for cost in growth.costs),
            times(growth.factor),
        )
    return table


def sentence(growth: Growth) -> str:
    """Say of a cost how it grows."""
    low, high = amount(min(growth.costs), growth.unit), amount(max(growth.costs), growth.unit)
    many = f"{growth.sizes[-1] / growth.sizes[0]:,.0f} times as many"
    verdict = "flat: the total is linear" if growth.factor < LINEAR else "NOT flat"
    if growth.factor < 1 / LINEAR:
        verdict = "falling: shared"
    note = f". {growth.note}" if growth.note else ""
    return (
        f"{growth.what}: {low} to {high} each, {verdict} ({many}: x{growth.factor:.2f} each){note}"
    )

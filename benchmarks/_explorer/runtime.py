"""The planted bugs in real actors: how many schedules of the real runtime find them."""

from __future__ import annotations

from typing import Final

from _kit.rows import Grid
from _models.actors import PLANTED
from trouper.testing import explore

REDUCED: Final = 10  # schedules.md of the specification: two actors, no noise
SAMPLED: Final = 100  # with 16 unrelated messages


def real_actors(seeds: int) -> tuple[Grid, list[str]]:
    """Return the counts, and what was not found in time or not clean when it is fixed."""
    lines: list[tuple[str, ...]] = []
    missed: list[str] = []
    for name, (make, rules) in PLANTED.items():
        ordinary = explore(make(fixed=False), strategy="fifo", rules=rules)
        reduced = explore(make(fixed=False), strategy="dfs", budget=1_000, rules=rules)
        sampled = [
            explore(make(fixed=False, noise=16), budget=SAMPLED, seed=seed, rules=rules)
            for seed in range(seeds)
        ]
        fixed = explore(make(fixed=True), strategy="dfs", budget=1_000, rules=rules)
        if not reduced.failures or reduced.schedules > REDUCED:
            missed.append(f"{name}: {reduced} of the reduced search")
        if not all(report.failures for report in sampled):
            missed.append(f"{name}: a portfolio of {SAMPLED} schedules")
        if not fixed.exhausted or fixed.failures:
            missed.append(f"{name}, fixed: {fixed}")
        failure = reduced.first_failure
        lines.append(
            (
                name,
                "fails" if ordinary.failures else "well",
                f"{reduced.schedules}",
                f"{max(report.schedules for report in sampled)}",
                f"{fixed.schedules}{'' if fixed.exhausted else '+'}",
                "" if failure is None else "; ".join(map(str, failure.constraints)),
            )
        )
    headings = (
        "in real actors",
        "ordinary order",
        "reduced",
        f"portfolio, worst of {seeds}",
        "fixed: all",
        "what is said of it",
    )
    note = "Schedules until the bug is hit; the portfolio with 16 unrelated messages."
    return Grid("planted bugs in real actors", headings, tuple(lines), note), missed

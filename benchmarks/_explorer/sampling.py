"""How often a schedule of each strategy hits a planted bug among messages that do not matter."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Final

from _kit.rows import Grid
from _models.planted import PLANTED, allocators, finalise, noise
from _models.toy import Scene, play_of
from trouper.testing.schedules import Rules, search

STRATEGIES: Final = ("fifo", "walk", "pos", "pct:1", "pct:2", "pct:3", "portfolio")
MODELS: Final[dict[str, tuple[Callable[[], Scene], Rules]]] = {
    **{name: (partial(make, fixed=False), rules) for name, (make, rules) in PLANTED.items()},
    "read-then-max, 12 hops behind": (partial(allocators, fixed=False, stagger=12), Rules()),
    "two transactions, 4 children": (partial(finalise, 4, fixed=False), Rules()),
}
WITHIN: Final = 100  # schedules.md of the specification: the portfolio finds each of the six in


def hit_rates(schedules: int, seeds: int) -> tuple[Grid, list[str]]:
    """Return the rates, and the planted bugs that a portfolio of 100 schedules missed."""
    lines: list[tuple[str, ...]] = []
    missed: list[str] = []
    for name, (make, rules) in MODELS.items():
        play = play_of(noise(make()))
        rates = [
            _rate(
                search(
                    play,
                    strategy=strategy,
                    rules=rules,
                    budget=1 if strategy == "fifo" else schedules,
                    keep_going=True,
                    tries=1,
                ).failures,
                1 if strategy == "fifo" else schedules,
            )
            for strategy in STRATEGIES
        ]
        firsts = [
            report.schedules if report.failures else 2 * WITHIN
            for report in (
                search(play, rules=rules, budget=WITHIN, seed=seed, tries=1)
                for seed in range(seeds)
            )
        ]
        if name in PLANTED and max(firsts) > WITHIN:
            missed.append(f"{name}: in {sum(n > WITHIN for n in firsts)} of {seeds} seeds")
        worst = f"{max(firsts)}" if max(firsts) <= WITHIN else f"over {WITHIN}"
        lines.append((name, *rates, f"{statistics.median(firsts):g}", worst))
    headings = ("hits per schedule", *STRATEGIES, "first hit, median", "worst")
    note = (
        f"With 16 unrelated messages; {schedules} schedules each. FIFO is one schedule, the "
        f"ordinary run. First hit: of a portfolio, over {seeds} seeds."
    )
    return Grid("hit rate per strategy", headings, tuple(lines), note), missed


def _rate(hits: int, schedules: int) -> str:
    if not hits:
        return "0"
    return f"{hits / schedules:.2f}" if hits * 10 >= schedules else f"1/{schedules / hits:.0f}"

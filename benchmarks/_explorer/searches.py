"""How many schedules three searches of the same depth play: to the first bug, and to the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from _kit.rows import Comparison, Grid
from _models.planted import ANYTIME, PLANTED, allocators, finalise, noise, takeover
from _models.toy import Scene, play_of
from trouper.testing.schedules import Report, Rules, search

LEASE: Final = "lease takeover, 2 rows"
NAMES: Final = {"naive": "naive", "sleep": "sleep sets"}
MUST, AIM = 100.0, 250.0  # quality.md of the specification: on the lease takeover

Make = Callable[[], Scene]
EXHAUSTED: Final[dict[str, tuple[Make, Rules]]] = {
    LEASE: (partial(takeover, 2, fixed=True), ANYTIME),
    **{
        f"{name}, fixed": (partial(make, fixed=True), rules)
        for name, (make, rules) in PLANTED.items()
    },
    "read-then-max, 3 at once": (partial(allocators, 3, fixed=False, stagger=0), Rules()),
    "two transactions, 3 children": (partial(finalise, 3, fixed=False), Rules()),
}


def _noisy(make: Callable[..., Scene]) -> Scene:
    return noise(make(fixed=False))


FOUND: Final[dict[str, tuple[Make, Rules]]] = {
    **{name: (partial(make, fixed=False), rules) for name, (make, rules) in PLANTED.items()},
    **{
        f"{name}, 16 more messages": (partial(_noisy, make), rules)
        for name, (make, rules) in PLANTED.items()
    },
}


def explored(make: Make, rules: Rules, depth: str, cap: int, *, to_the_end: bool) -> Report:
    """Search a model, to the first failure or to the end."""
    return search(
        play_of(make()), strategy=depth, rules=rules, budget=cap, keep_going=to_the_end, tries=1
    )


def to_exhaustion(cap: int) -> tuple[list[Comparison], Grid]:
    """Compare how many schedules it takes until no kind of schedule is left."""
    comparisons: list[Comparison] = []
    lines: list[tuple[str, ...]] = []
    for name, (make, rules) in EXHAUSTED.items():
        reports = {
            depth: explored(make, rules, depth, cap, to_the_end=True)
            for depth in ("naive", "sleep", "dfs")
        }
        ours = reports["dfs"]
        kinds = {r.signatures for r in reports.values() if r.exhausted}
        assert len(kinds) <= 1, f"the searches saw different kinds of schedules of {name}"
        lines.append((name, *(_count(r, r.exhausted) for r in reports.values()), str(ours.traces)))
        comparisons += _against(f"to the end: {name}", reports, gated=name == LEASE)
    headings = ("to the end", *NAMES.values(), "reduced", "kinds of schedules")
    note = f"Naive: every interleaving. Beyond {cap:,} schedules a search was ended; + marks it."
    return comparisons, Grid("schedules until none is left", headings, tuple(lines), note)


def to_the_first_bug(cap: int) -> Grid:
    """Count how many schedules it takes until the planted bug is hit."""
    lines: list[tuple[str, ...]] = []
    for name, (make, rules) in FOUND.items():
        reports = {
            depth: explored(make, rules, depth, cap, to_the_end=False)
            for depth in ("naive", "sleep", "dfs")
        }
        lines.append((name, *(_count(r, bool(r.failures)) for r in reports.values())))
    headings = ("to the first bug", *NAMES.values(), "reduced")
    note = (
        "Depth first turns the end of a schedule around first, and most noise is at its beginning."
    )
    return Grid("schedules until the bug is hit", headings, tuple(lines), note)


def _count(report: Report, is_complete: bool) -> str:
    return f"{report.schedules:,}{'' if is_complete else '+'}"


def _against(row: str, reports: dict[str, Report], *, gated: bool) -> Iterator[Comparison]:
    ours = reports["dfs"].schedules
    for depth, peer in NAMES.items() if gated else [("naive", NAMES["naive"])]:
        theirs = reports[depth].schedules
        is_judged = gated and depth == "naive"
        yield Comparison(
            row=row,
            peer=peer,
            measure="count",
            ours=ours,
            theirs=theirs,
            ratio=theirs / ours,
            low=theirs / ours,
            high=theirs / ours,
            rounds=1,
            must=MUST if is_judged else None,
            aim=AIM if is_judged else None,
            gated=is_judged,
        )

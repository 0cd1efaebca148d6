"""What exploring schedules takes: how many of them, how often they hit, and what each one costs.

    python benchmarks/schedules.py            # some four minutes; exit status 1 if a must is missed
    python benchmarks/schedules.py --quick    # does everything work; its numbers mean nothing
    python benchmarks/schedules.py --from benchmarks/results/schedules.json    # show it again

Schedules are counted, and no machine changes a count: how many three searches play of models with
planted bugs until they hit it and until none is left, how often a schedule of each strategy hits,
and how many tokens still replay after edits. What the seam costs who explores nothing is counted
in instructions, by valgrind, against the commit before it; what a delivery costs who does, in CPU
time of interleaved rounds.
`--publish` renders the page `docs/performance/schedules.md`.
"""

from __future__ import annotations

import sys

from _explorer.runtime import real_actors
from _explorer.sampling import hit_rates
from _explorer.seam import cost_when_off
from _explorer.searches import to_exhaustion, to_the_first_bug
from _explorer.speed import cost_when_on, instructions_when_on
from _explorer.steps import growths
from _explorer.tokens import robustness
from _kit.command import command
from _kit.report import Result, now, versions

CAP, QUICK_CAP = 10_000, 20


def run(quick: bool) -> Result:
    """Measure everything.

    Raises:
        SystemFailed: One of the systems broke down.
    """
    cap = QUICK_CAP if quick else CAP
    comparisons, ends = to_exhaustion(cap)
    firsts = to_the_first_bug(cap)
    rates, missed = hit_rates(5 if quick else 500, 1 if quick else 20)
    tokens, lost = robustness(1 if quick else 20)
    off, left_out = cost_when_off() if not quick else ([], ["the seam when it is off: quick run"])
    real, not_found = real_actors(1 if quick else 10)
    on, samples = cost_when_on(1 if quick else 9, 10 if quick else 1)
    return Result(
        benchmark="schedules",
        quick=quick,
        versions=versions(["trouper", "trio"]),
        when=now(),
        comparisons=comparisons + on + off,
        growths=growths(1 if quick else 3, 10 if quick else 1),
        grids=[ends, firsts, real, rates, tokens],
        samples=samples,
        instructions=[] if quick else instructions_when_on(),
        left_out=[
            *left_out,
            *(f"(gated) a portfolio of 100 schedules missed {what}" for what in missed),
            *(f"(gated) real actors: {what}" for what in not_found),
            *(f"(gated) tokens were lost: {what}" for what in lost),
        ],
    )


if __name__ == "__main__":
    sys.exit(command("schedules", __doc__.partition("\n")[0], run))

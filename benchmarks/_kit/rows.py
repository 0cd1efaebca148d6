"""What is compared with what, and what was meant to come out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .sample import Measure, Sample

DISTURBED = 1.15
CALM_ROUNDS = 3

Verdict: TypeAlias = Literal["aim", "must", "missed", ""]


@dataclass(frozen=True, slots=True)
class Against:
    """One peer in one row. Targets are least ratios: times faster, or times smaller.

    ``ops`` is how many operations take it about as long as trouper's take. A must that is missed
    makes the exit status 1; so does a gated peer that was not there to be measured.
    """

    system: str
    ops: int
    must: float | None = None
    aim: float | None = None
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One bench, measured for trouper and for each peer in every round."""

    title: str
    bench: str
    ops: int
    actors: int
    peers: tuple[Against, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the result. ``ratio`` is the median over rounds of theirs / ours."""

    row: str
    peer: str
    measure: Measure
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    rounds: int
    must: float | None
    aim: float | None
    gated: bool

    @property
    def verdict(self) -> Verdict:
        """Say which target is met; nothing when there is none."""
        if self.must is None or self.aim is None:
            return ""
        if self.ratio >= self.aim:
            return "aim"
        return "must" if self.ratio >= self.must else "missed"


def undisturbed(
    ours: Sequence[Sample], theirs: Sequence[Sample]
) -> tuple[Measure, Sequence[Sample], Sequence[Sample]]:
    """Return in what to compare, where ours are those of one thread that never waits.

    Then its wall-clock time is its CPU time, unless the machine did something else meanwhile. The
    rounds where it did are left out; where hardly one remains, the CPU time of all threads is what
    can be compared: on a quiet machine both ratios are the same within some percent.
    """
    calm = [i for i, sample in enumerate(ours) if sample.wall <= DISTURBED * sample.cpu]
    if len(calm) >= CALM_ROUNDS:
        return "wall", [ours[i] for i in calm], [theirs[i] for i in calm]
    has_cpu = len(ours) > 1 and all(sample.cpu for sample in theirs)
    return "cpu" if has_cpu else "wall", ours, theirs


def compare(
    row: str, against: Against, measure: Measure, ours: Sequence[Sample], theirs: Sequence[Sample]
) -> Comparison:
    """Pair the samples of each round: a busy machine slows both halves of a pair."""
    mine = [sample.per_op(measure) for sample in ours]
    other = [sample.per_op(measure) for sample in theirs]
    # Memory may be too little to see in pages; one byte keeps the ratio finite.
    ratios = [b / max(a, 1.0) for a, b in zip(mine, other, strict=True)]
    quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios
    return Comparison(
        row=row,
        peer=against.system,
        measure=measure,
        ours=statistics.median(mine),
        theirs=statistics.median(other),
        ratio=statistics.median(ratios),
        low=quarters[0],
        high=quarters[-1],
        rounds=len(ratios),
        must=against.must,
        aim=against.aim,
        gated=against.gated,
    )


@dataclass(frozen=True, slots=True)
class Growth:
    """What one operation costs at three sizes."""

    what: str
    unit: str
    sizes: tuple[int, ...]
    costs: tuple[float, ...]
    note: str = ""

    @property
    def factor(self) -> float:
        """Cost per operation at the largest size over that at the smallest."""
        first = self.costs[0]
        return self.costs[-1] / (first if first > 0 else 1.0)


@dataclass(frozen=True, slots=True)
class Grid:
    """What is neither a ratio nor a growth: a table, as it is shown."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

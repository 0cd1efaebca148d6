"""What a delivery costs under the explorer, against the same deliveries on the runtime as it is."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from _kit.instructions import compare_instructions, is_there
from _kit.process import python
from _kit.rounds import OURS, Samples, lighter, measure_round, results_of
from _kit.rows import Against, Comparison, Row

RAW: Final = "not explored"
COMMANDS: Final = {OURS: python("trouper_explored"), RAW: python("trouper_raw")}
MUST, AIM = 1 / 5, 1 / 4  # quality.md of the specification

# Systems of 100 deliveries each, opening and closing included on both sides: a schedule is that.
ROWS: Final = (
    Row("on: ring hop, 8 actors", "ring", 1_000, 8, (Against(RAW, 5_000, MUST, AIM, gated=True),)),
    Row("on: ring hop, 8 messages at once", "rings", 1_600, 8, (Against(RAW, 16_000),)),
    Row("on: ask, delivery and reply", "asks", 1_000, 2, (Against(RAW, 5_000, MUST, AIM),)),
    Row("on: commit to the journal", "commits", 1_000, 1, (Against(RAW, 2_000, MUST, AIM),)),
)


def cost_when_on(rounds: int, divide: int) -> tuple[list[Comparison], dict[str, Any]]:
    """Compare CPU time, in interleaved rounds; return also what was sampled."""
    rows = lighter(ROWS, divide, 100)
    samples: Samples = {}
    for _ in range(rounds):
        measure_round(rows, COMMANDS, samples)
    kept = {f"{t} / {name}": [asdict(s) for s in found] for (t, name), found in samples.items()}
    return results_of(rows, samples, {}, "cpu"), kept


def instructions_when_on() -> list[Comparison]:
    """Compare instructions, which no busy machine changes; nothing where there is no valgrind."""
    if not is_there():
        return []
    rows = [replace(row, ops=2_000) for row in ROWS if row.bench != "rings"]
    return compare_instructions(rows, COMMANDS, frozenset())

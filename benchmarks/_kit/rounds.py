"""Rounds: every row measured once for every system, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from .process import System
from .rows import Comparison, Row, compare
from .sample import Measure, Sample

OURS = "trouper"

Samples = dict[tuple[str, str], list[Sample]]


def present(rows: Iterable[Row], missing: Iterable[str]) -> list[Row]:
    """Return the rows without the peers that are not there."""
    gone = set(missing)
    return [replace(r, peers=tuple(p for p in r.peers if p.system not in gone)) for r in rows]


def lighter(rows: Iterable[Row], divide: int, least: int) -> list[Row]:
    """Return the rows with that part of their operations, for a run that only tries them out."""
    return [
        replace(
            row,
            ops=max(row.ops // divide, least),
            peers=tuple(replace(p, ops=max(p.ops // divide, least)) for p in row.peers),
        )
        for row in rows
    ]


def measure_round(
    rows: Sequence[Row], commands: Mapping[str, Sequence[str]], samples: Samples
) -> None:
    """Measure every row once for every system, each in a fresh process, interleaved by row."""
    names = {OURS, *(peer.system for row in rows for peer in row.peers)}
    with ExitStack() as stack:
        systems = {
            name: stack.enter_context(System(name, commands[name])) for name in sorted(names)
        }
        for row in rows:
            for name, ops in [(OURS, row.ops), *((p.system, p.ops) for p in row.peers)]:
                sample = systems[name].measure(row.bench, ops, row.actors)
                samples.setdefault((row.title, name), []).append(sample)


def results_of(
    rows: Iterable[Row], samples: Samples, measures: Mapping[str, Measure], otherwise: Measure
) -> list[Comparison]:
    """Compare what was sampled, with each peer in its measure."""
    return [
        compare(
            row.title,
            peer,
            measures.get(peer.system, otherwise),
            samples[row.title, OURS],
            samples[row.title, peer.system],
        )
        for row in rows
        for peer in row.peers
    ]

"""What can be read about cells: their states, the quarantined ones, the pool's counts."""

from __future__ import annotations

from dataclasses import dataclass

from ._cell import CellState


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a cell is out of service. It stays so until ``pool.reconcile(cell)`` finds it clean.

    Attributes:
        cell: Index of the cell.
        generation: The lease after which it could not be proven clean.
        guest: Durable name of the guest that ran.
        reasons: What was not proven when the cleanup cap was reached.
        missing: What is not proven now; evidence may have come late.
    """

    cell: int
    generation: int
    guest: str
    reasons: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell as ``inspect`` shows it."""

    cell: int
    state: CellState
    generation: int
    guest: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """Counts of one pool. ``free + leased + quarantined == cells``, always.

    ``waiting`` to ``staged_bytes`` are of this moment, the others since the pool opened.

    Attributes:
        cells: Cells of the pool.
        free: Cells that can be leased now.
        leased: Cells that somebody owns: running, waiting or cleaning.
        quarantined: Cells out of service.
        waiting: Callers in the queue.
        operations: Provider calls that are not physically done.
        staged_bytes: Bytes of requests those calls hold.
        compiled: Modules kept compiled.
        compiled_bytes: Bytes of compiled code kept.
        runs: Runs that got a cell.
        kills: Runs that were ended by their caller, their deadline or the pool.
        refused: Callers that were turned away with `CellsExhausted`.
        stale: Messages of an older lease, counted and not applied.
        fuel: Fuel used by all runs.
        calls: Host calls made by all runs.
    """

    cells: int
    free: int
    leased: int
    quarantined: int
    waiting: int
    operations: int
    staged_bytes: int
    compiled: int
    compiled_bytes: int
    runs: int
    kills: int
    refused: int
    stale: int
    fuel: int
    calls: int

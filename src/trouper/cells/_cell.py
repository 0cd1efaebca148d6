"""The rules of one cell: who owns it, what proves that it is clean, what each event changes.

``decide`` is a pure function; it knows no thread, no trio and no WebAssembly. The invariants:

* ``FREE -> RUNNING <-> WAITING_PROVIDER -> CLEANING -> FREE | QUARANTINED``, and no other step.
  Every way out of a lease passes through CLEANING, if only for an instant.
* Only evidence frees a cell. A watchdog that fires is never proof of anything but a bound that
  was exceeded (ADR-0028): what is unproven then is the reason for the quarantine.
* An event of an older generation changes nothing but a count.
* Evidence that comes late is kept, and changes nothing by itself; only ``Reconcile`` looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from ..errors import InvariantError


class CellState(StrEnum):
    """Who owns a cell. All but the first and the last are *running* to the outside."""

    FREE = "free"
    RUNNING = "running"
    WAITING_PROVIDER = "waiting-provider"
    CLEANING = "cleaning"
    QUARANTINED = "quarantined"


class Action(Enum):
    """What the shell has to do after a decision, in this order."""

    START = auto()  # hand the job to the thread
    SERVE = auto()  # let the provider run
    REPLY = auto()  # hand the provider's answer to the guest
    ACCOUNT = auto()  # add what the frame used to the totals, once per generation
    KILL = auto()  # dying flag, cancel the providers, poison the reply, bump the epoch
    WATCH = auto()  # start the cleanup cap
    FREE = auto()  # the lease is over, everything proven
    QUARANTINE = auto()  # the lease is over, something is not proven


@dataclass(frozen=True, slots=True)
class Lease:
    """The cell is given to a run."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The guest asked a provider; ``size`` bytes of request are staged."""

    generation: int
    size: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A provider is physically done, however it ended."""

    generation: int
    size: int


@dataclass(frozen=True, slots=True)
class Killed:
    """Somebody wants the run to end: its caller, its deadline, the pool."""

    generation: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The frame of the run returned. ``unexpected`` names what should never happen in it."""

    generation: int
    store_dead: bool
    unexpected: str | None = None


@dataclass(frozen=True, slots=True)
class Capped:
    """The time for cleaning is up."""

    generation: int


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Somebody responsible asks to look at the evidence again."""


Event = Lease | Opened | Closed | Killed | Returned | Capped | Reconcile


class Cell(NamedTuple):
    """The state of one cell. Written by its slot on the loop thread, and by nobody else.

    A tuple, since two of these are made for each provider call: a copy of a frozen dataclass
    with one field changed takes six times as long.
    """

    state: CellState = CellState.FREE
    generation: int = 0
    killed: bool = False
    # The five proofs, for this generation.
    returned: bool = True
    store_dead: bool = True
    operations: int = 0
    staged: int = 0
    children: int = 0
    accounts_closed: int = 1
    # Filled on the way into quarantine, emptied by a reconcile that finds everything proven.
    reasons: tuple[str, ...] = ()
    stale: int = 0

    def missing(self) -> tuple[str, ...]:
        """Return what is not proven about the last lease; empty means positively clean."""
        found: list[str] = []
        if not self.returned:
            found.append("frame: the guest has not returned")
        if not self.store_dead:
            found.append("store: not seen to be dropped")
        if self.operations or self.staged:
            found.append(f"provider: {self.operations} open, {self.staged} bytes staged")
        if self.children:
            found.append(f"children: {self.children} live")
        if self.accounts_closed != 1:
            found.append(f"accounts: closed {self.accounts_closed} times instead of once")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, and what follows from it."""

    cell: Cell
    actions: tuple[Action, ...] = ()


LIVE = frozenset({CellState.RUNNING, CellState.WAITING_PROVIDER, CellState.CLEANING})


def decide(cell: Cell, event: Event) -> Decision:
    """Return what ``event`` does to ``cell``.

    Raises:
        InvariantError: A lease of a cell that is not free, or an event that no sequence of the
            rules above can produce.
    """
    match event:
        case Lease():
            return _lease(cell)
        case Reconcile():
            return _reconcile(cell)
        case _:
            if event.generation != cell.generation or cell.state is CellState.FREE:
                # A timer of a lease that ended in time is no stale message, only a late tick.
                late_tick = isinstance(event, Capped) and event.generation == cell.generation
                return Decision(cell if late_tick else cell._replace(stale=cell.stale + 1))
            return _live(cell, event)


def _live(cell: Cell, event: Opened | Closed | Killed | Returned | Capped) -> Decision:
    match event:
        case Opened(size=size):
            return _opened(cell, size)
        case Closed(size=size):
            return _closed(cell, size)
        case Killed():
            return _killed(cell)
        case Returned():
            return _returned(cell, event)
        case Capped():
            if cell.state is not CellState.CLEANING:
                return Decision(cell)
            return _quarantine(cell, cell.missing())


def _lease(cell: Cell) -> Decision:
    if cell.state is not CellState.FREE:
        raise InvariantError(f"a {cell.state} cell was leased")
    leased = Cell(
        state=CellState.RUNNING,
        generation=cell.generation + 1,
        returned=False,
        store_dead=False,
        accounts_closed=0,
        stale=cell.stale,
    )
    return Decision(leased, (Action.START,))


def _opened(cell: Cell, size: int) -> Decision:
    if cell.state is not CellState.RUNNING:
        # The kill came first, and its poison answers this request: nothing may start now.
        return Decision(cell)
    waiting = cell._replace(
        state=CellState.WAITING_PROVIDER,
        operations=cell.operations + 1,
        staged=cell.staged + size,
    )
    return Decision(waiting, (Action.SERVE,))


def _closed(cell: Cell, size: int) -> Decision:
    if cell.operations == 0 or cell.staged < size:
        raise InvariantError("a provider operation was closed that was not open")
    closed = cell._replace(operations=cell.operations - 1, staged=cell.staged - size)
    if closed.state is CellState.WAITING_PROVIDER:
        return Decision(closed._replace(state=CellState.RUNNING), (Action.REPLY,))
    return _settle(closed)


def _killed(cell: Cell) -> Decision:
    if cell.state not in (CellState.RUNNING, CellState.WAITING_PROVIDER):
        return Decision(cell)
    dying = cell._replace(state=CellState.CLEANING, killed=True)
    return Decision(dying, (Action.KILL, Action.WATCH))


def _returned(cell: Cell, event: Returned) -> Decision:
    was_cleaning = cell.state is CellState.CLEANING
    late = cell.state is CellState.QUARANTINED
    after = cell._replace(
        state=cell.state if late else CellState.CLEANING,
        returned=True,
        store_dead=event.store_dead,
        accounts_closed=cell.accounts_closed + 1,
    )
    first = cell.accounts_closed == 0
    account = (Action.ACCOUNT,) if first else ()
    if late:
        return Decision(after, account)
    # No later event can mend these two, so waiting for the cap would only hide them.
    if event.unexpected is not None:
        reasons = (f"unexpected: {event.unexpected}", *after.missing())
        settled = _quarantine(after, reasons)
    elif not event.store_dead:
        settled = _quarantine(after, after.missing())
    else:
        settled = _settle(after)
        if settled.cell.state is CellState.CLEANING and not was_cleaning:
            # The guest ended while a provider still runs: the same kill ends that one.
            settled = replace(settled, actions=(Action.KILL, Action.WATCH))
    return replace(settled, actions=account + settled.actions)


def _settle(cell: Cell) -> Decision:
    if cell.state is CellState.CLEANING and not cell.missing():
        return Decision(cell._replace(state=CellState.FREE), (Action.FREE,))
    return Decision(cell)


def _quarantine(cell: Cell, reasons: tuple[str, ...]) -> Decision:
    kept = cell._replace(state=CellState.QUARANTINED, reasons=reasons)
    return Decision(kept, (Action.QUARANTINE,))


def _reconcile(cell: Cell) -> Decision:
    if cell.state is not CellState.QUARANTINED or cell.missing():
        return Decision(cell)
    return Decision(cell._replace(state=CellState.FREE, reasons=()), (Action.FREE,))

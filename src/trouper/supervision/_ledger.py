"""The books of one node of a tree of work: what it was given, used, and granted to its children.

Pure: every method that decides returns an `Entry` (or raises and has changed nothing), `apply`
turns an entry into the next ledger, and the actor that owns the ledger journals it in between.
Conservation holds after each entry: used + lost + granted to living children + left == given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NoReturn

from ..errors import OwnershipError, ShuttingDown
from ._budget import AMOUNTS, ANYTHING, NOTHING, Budget, Grant, Usage
from ._carving import carve, exhausted
from ._entries import (
    Accepted,
    Carried,
    Entry,
    LedgerClosed,
    LedgerEnded,
    Reserved,
    Settled,
    Spent,
)
from ._reservation import Reservation, issue

NOBODY: Final[Mapping[int, Reservation]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ledger:
    """The books of one node.

    A reservation passes through `reserve`, then `accept` or `decline`, then `settle`. An accepted
    child stays charged until it has physically retired, whoever waits for it: nothing else gives
    anything back, not the end of its parent, and not its absence after a crash.

    Attributes:
        owner: The durable identity of the node.
        grant: What it was given.
        used: What it used, with all that settled children used.
        issued: Reservations made so far; the number of the next one.
        live: Reservations that are not settled, in the order of their numbers.
        accepted: Numbers of those whose child was admitted.
        is_closed: Nothing is granted any more.
        is_ended: The account is final.
    """

    owner: str
    grant: Grant
    used: Usage = NOTHING
    issued: int = 0
    live: Mapping[int, Reservation] = field(default_factory=lambda: NOBODY)
    accepted: frozenset[int] = frozenset()
    is_closed: bool = False
    is_ended: bool = False

    # --- reading ----------------------------------------------------------------------------------

    @property
    def left(self) -> Grant:
        """What is neither used nor reserved; ``live_children`` are the places that are free."""
        return Grant(deadline=self.grant.deadline, depth=self.grant.depth, **self._balance())

    @property
    def account(self) -> Usage:
        """The final account, for the parent to settle with.

        Raises:
            OwnershipError: (*live*) The ledger has not ended.
        """
        if not self.is_ended:
            self._refuse("live", "has no final account before it has ended; call end() first")
        return self.used

    def reservation(self, child: str) -> Reservation | None:
        """Return the reservation that a child holds: a re-run uses the one that is charged."""
        return next((held for held in self.live.values() if held.child == child), None)

    # --- deciding ---------------------------------------------------------------------------------

    def spend(self, *, fuel: int = 0, calls: int = 0, io_bytes: int = 0, memory: int = 0) -> Spent:
        """Use something oneself; a group of n effects spends n calls.

        Args:
            fuel: More fuel.
            calls: More calls.
            io_bytes: More bytes.
            memory: The level that is reached; only what exceeds the peak so far is charged.

        Raises:
            BudgetExhausted: There is not so much left.
            OwnershipError: (*ended*) The final account was given.
        """
        if self.is_ended:
            self._refuse("ended", "has given its final account; this belongs before its end")
        Usage(fuel=fuel, calls=calls, io_bytes=io_bytes, memory=memory)  # checks the ranges
        left = self.left
        rise = max(0, memory - self.used.memory)
        for name, asked in (("fuel", fuel), ("calls", calls), ("io_bytes", io_bytes)):
            if asked > getattr(left, name):
                exhausted(name, asked, getattr(left, name), repr(self.owner))
        if rise > left.memory:
            exhausted("memory", memory, self.used.memory + left.memory, repr(self.owner))
        return Spent(fuel, calls, io_bytes, memory)

    def reserve(self, child: str, asked: Budget = ANYTHING, *, members: int = 1) -> Reserved:
        """Carve the grant of one child, before it is admitted.

        Args:
            child: Its durable identity, which the host derives.
            asked: What is named for it; see `Budget` for the rest.
            members: How many children are admitted together, this one counted; `admit` says it.

        Raises:
            BudgetExhausted: Not so much is left, or no place. Nothing waits.
            OwnershipError: (*taken*) The child holds a reservation: use that.
            ShuttingDown: The ledger is closed.
        """
        if self.is_closed:
            raise ShuttingDown(
                f"{self.owner!r} has finished or is being cancelled; {child!r} was not started",
                owner=self.owner,
                child=child,
            )
        if self.reservation(child) is not None:
            self._refuse("taken", f"holds a reservation for {child!r} already; use that one")
        where = f"{child!r}, a child of {self.owner!r},"
        grant = carve(self.grant, self.left, asked, members, where)
        return Reserved.of(self.owner, self.issued, child, grant)

    def accept(self, reservation: Reservation) -> Accepted:
        """Note that the child was admitted.

        Raises:
            OwnershipError: It is not a reservation of this ledger, or was accepted before.
        """
        self._require_own(reservation)
        if reservation.number in self.accepted:
            self._refuse("admission", f"has accepted {reservation.child!r} already")
        return Accepted(reservation.number)

    def decline(self, reservation: Reservation, used: Usage = NOTHING) -> Settled:
        """Take back the grant of a child that was not admitted, but for what the attempt used.

        Raises:
            OwnershipError: It is not a reservation of this ledger, the child was accepted, or more
                was used than was granted.
        """
        self._require_own(reservation)
        if reservation.number in self.accepted:
            self._refuse("admission", f"has accepted {reservation.child!r}; settle it once retired")
        return self._settled(reservation, used)

    def settle(self, reservation: Reservation, account: Usage | None) -> Settled:
        """Take back what an accepted child did not use, now that it has retired.

        Args:
            reservation: The child's.
            account: Its `Ledger.account`. None if it ended without a proper one: it spends its
                whole grant, the memory too, of which nobody knows that it is free.

        Raises:
            OwnershipError: It is not a reservation of this ledger, the child was never accepted, or
                its account exceeds its grant and is no proper one.
        """
        self._require_own(reservation)
        if reservation.number not in self.accepted:
            self._refuse("admission", f"has not accepted {reservation.child!r}; decline it instead")
        if account is None:
            granted = reservation.grant
            return Settled(
                reservation.number,
                granted.fuel,
                granted.calls,
                granted.io_bytes,
                granted.memory,
            )
        return self._settled(reservation, account)

    def close(self) -> LedgerClosed:
        """Grant nothing any more. What is granted stays charged, and is settled as it retires."""
        return LedgerClosed()

    def end(self) -> LedgerEnded:
        """Make the account final, after the node's cell, providers and children.

        Raises:
            OwnershipError: (*live*) A child has not retired. (*ended*) It has ended before.
        """
        if self.is_ended:
            self._refuse("ended", "has given its final account already")
        if self.live:
            names = ", ".join(repr(held.child) for held in self.live.values())
            self._refuse("live", f"has children that are not settled: {names}")
        return LedgerEnded()

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> Ledger:
        """Return the ledger after an entry that it decided, or that its journal holds.

        Raises:
            OwnershipError: (*entry*) It contradicts the entries before it; nothing is repaired.
        """
        after = self._after(entry)
        if min(after._balance().values()) < 0:
            self._refuse("entry", f"cannot carry {entry}: more than it was given")
        return after

    def replay(self, entries: Iterable[Entry]) -> Ledger:
        """Apply entries in turn: recovery. Reservations are new objects, the former ones void."""
        ledger = self
        for entry in entries:
            ledger = ledger.apply(entry)
        return ledger

    def compact(self) -> tuple[Entry, ...]:
        """Return a short row of entries that makes an equal ledger out of a fresh one."""
        rows: list[Entry] = []
        for held in self.live.values():
            rows.append(Reserved.of(self.owner, held.number, held.child, held.grant))
            if held.number in self.accepted:
                rows.append(Accepted(held.number))
        used = self.used
        rows.append(
            Carried(self.issued, used.fuel, used.calls, used.io_bytes, used.memory, used.lost)
        )
        rows.extend([LedgerClosed()] if self.is_closed else [])
        rows.extend([LedgerEnded()] if self.is_ended else [])
        return tuple(rows)

    # --- inside -----------------------------------------------------------------------------------

    def _balance(self) -> dict[str, int]:
        """Return what is left of each amount: below zero only where an entry is wrong."""
        given, used, live = self.grant, self.used, self.live.values()
        pending = len(self.live) - len(self.accepted)  # each holds the call it will cost
        return {
            "fuel": given.fuel - used.fuel - sum(held.grant.fuel for held in live),
            "calls": given.calls - used.calls - pending - sum(held.grant.calls for held in live),
            "io_bytes": given.io_bytes - used.io_bytes - sum(held.grant.io_bytes for held in live),
            "memory": given.memory
            - used.memory
            - used.lost
            - sum(held.grant.memory for held in live),
            "live_children": given.live_children - len(self.live),
            "live_descendants": given.live_descendants
            - sum(1 + held.grant.live_descendants for held in live),
        }

    def _settled(self, reservation: Reservation, account: Usage) -> Settled:
        for name in (*AMOUNTS, "memory", "lost"):
            granted = getattr(reservation.grant, "memory" if name == "lost" else name)
            if getattr(account, name) > granted:
                self._refuse(
                    "account",
                    f"granted {reservation.child!r} {granted} of {name}, its account says "
                    f"{getattr(account, name)}; that is no proper one: settle with None",
                )
        return Settled(
            reservation.number, account.fuel, account.calls, account.io_bytes, account.lost
        )

    def _require_own(self, reservation: Reservation) -> None:
        held = self.live.get(reservation.number)
        if held is reservation:
            return
        if reservation.owner != self.owner:
            self._refuse("foreign", f"did not issue {reservation!r}; give it to its own ledger")
        if held is None and reservation.number < self.issued:
            self._refuse("settled", f"has settled {reservation!r} already; its end counts once")
        self._refuse("forged", f"did not issue this {reservation!r}; ask it for its reservation")

    def _after(self, entry: Entry) -> Ledger:
        used = self.used
        if self.is_ended:
            self._refuse("entry", f"has ended, and then meets {entry}")
        match entry:
            case Reserved(owner, number, child):
                if owner != self.owner or number < self.issued or self.is_closed:
                    self._refuse("entry", f"cannot have reserved {entry} here")
                made = issue(owner, number, child, entry.grant)
                return replace(
                    self, issued=number + 1, live=MappingProxyType({**self.live, number: made})
                )
            case Accepted(number):
                if number not in self.live or number in self.accepted:
                    self._refuse("entry", f"meets {entry} without a reservation that waits for it")
                return replace(
                    self,
                    used=replace(used, calls=used.calls + 1),
                    accepted=self.accepted | {number},
                )
            case Settled(number, fuel, calls, io_bytes, lost):
                if number not in self.live:
                    self._refuse("entry", f"meets {entry} without a living reservation")
                live = {n: held for n, held in self.live.items() if n != number}
                return replace(
                    self,
                    used=_more(used, fuel, calls, io_bytes, used.memory, lost),
                    live=MappingProxyType(live),
                    accepted=self.accepted - {number},
                )
            case Spent(fuel, calls, io_bytes, memory):
                peak = max(used.memory, memory)
                return replace(self, used=_more(used, fuel, calls, io_bytes, peak, 0))
            case Carried():
                return replace(self, used=self._carried(entry), issued=entry.issued)
            case LedgerClosed():
                return replace(self, is_closed=True)
            case LedgerEnded():
                if self.live:
                    self._refuse("entry", "meets its end with living children")
                return replace(self, is_closed=True, is_ended=True)

    def _carried(self, entry: Carried) -> Usage:
        if self.issued > entry.issued or self.used != Usage(calls=len(self.accepted)):
            self._refuse("entry", f"meets {entry} after entries that it does not sum up")
        return Usage(
            fuel=entry.fuel,
            calls=entry.calls,
            io_bytes=entry.io_bytes,
            memory=entry.memory,
            lost=entry.lost,
        )

    def _refuse(self, kind: str, what: str) -> NoReturn:
        raise OwnershipError(f"the ledger of {self.owner!r} {what}", kind=kind, owner=self.owner)


def _more(used: Usage, fuel: int, calls: int, io_bytes: int, memory: int, lost: int) -> Usage:
    return Usage(
        fuel=used.fuel + fuel,
        calls=used.calls + calls,
        io_bytes=used.io_bytes + io_bytes,
        memory=memory,
        lost=used.lost + lost,
    )

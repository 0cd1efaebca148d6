"""Signals in the journal: kept by address and name in order of arrival, and each is taken once.

An address is a scope without the number of its run, so that a signal to an activation outlives the
run that it came in. A signal is written before its sender is told. It is taken in the unit that
records the end of who waited for it: there is no state in between that a crash could leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias

from ...errors import FenceMoved, SignalRefused, SignalsFull, TooLarge, ValueRefused
from ...store import Tx, decode, encode, fingerprint, record, row_key
from .._key import require_name
from ._envelope import EffectEnvelope
from ._outcome import Cancelled, Completed, Outcome, decode_outcome, encode_outcome
from ._rows import CHILD_TABLE, GROUP_TABLE, ChildRow, GroupRow, child_key, group_key
from ._scopes import Reader, is_live, unfinished

SIGNALS_KEPT = 1000
"""Signals of one name that wait at one address, unless the system says otherwise."""

MAX_PAYLOAD = 1 << 20
"""Bytes of what a signal may carry."""

SIGNAL_TABLE = CHILD_TABLE
QUEUE = b"Q"
_HEADS, _IDS = b"N", b"I"

RequireTaker: TypeAlias = Callable[[Tx], None]


@record("signal", version=1)
@dataclass(frozen=True, slots=True)
class SignalRow:
    """A signal that nobody has taken; ``number`` orders those of one address and name."""

    address: str
    name: str
    number: int
    payload: bytes
    at: float

    @property
    def outcome(self) -> bytes:
        """Return what it makes of the wait that takes it."""
        return encode_outcome(Completed(decode(self.payload)))


@record("signals", version=1)
@dataclass(frozen=True, slots=True)
class SignalsRow:
    """How many signals of one name came to one address; numbers are never given twice."""

    address: str
    name: str
    arrived: int


@record("signal_id", version=1)
@dataclass(frozen=True, slots=True)
class SignalIdRow:
    """A signal that was sent under an id, whether it was taken meanwhile or not."""

    address: str
    id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal on its way to the journal."""

    address: str
    name: str
    payload: bytes
    id: str
    at: float

    @classmethod
    def make(cls, address: str, name: str, payload: Any, known_by: str | None, at: float) -> Signal:
        """Build a signal.

        Raises:
            ValueRefused: a name or an id that is none, or a payload that no journal carries.
            TooLarge: a payload of more than `MAX_PAYLOAD` bytes.
        """
        require_name(name, "the name of a signal")
        try:
            data = encode(payload)
        except ValueRefused as refused:
            place = refused.path.replace("$", "payload", 1)
            raise ValueRefused(
                f"value refused at {place}: {refused.reason}", path=place, reason=refused.reason
            ) from None
        if len(data) > MAX_PAYLOAD:
            raise TooLarge(
                f"a payload of {len(data)} bytes is larger than the {MAX_PAYLOAD} bytes that a "
                "signal may carry; keep it outside, and send where it is",
                size=len(data),
                limit=MAX_PAYLOAD,
            )
        ident = "" if known_by is None else require_name(known_by, "the id of a signal")
        return cls(address, name, data, ident, at)

    @property
    def digest(self) -> bytes:
        """Return what tells a repeat from another signal under the same id."""
        return fingerprint("signal/1", [self.name, self.payload])


def address_of(source: Reader, scope: str) -> str:
    """Return where the signals of a scope are: the key of its activation, or the scope itself.

    Scopes of a host may look like runs, and keys too: what is listed as a run is one.
    """
    return scope.rpartition("#")[0] if is_live(source, scope) else scope


def send(tx: Tx, signal: Signal, require_taker: RequireTaker, limit: int) -> bool:
    """Journal a signal behind those of its name; False for a repeat, which changes nothing.

    Raises:
        SignalRefused: nobody at the address may ever take it, or its id belongs to another.
        SignalsFull: so many of its name wait there.
    """
    if signal.id and _is_repeat(tx, signal):
        return False
    require_taker(tx)
    queue = queue_prefix(signal.address, signal.name)
    if len(tx.keys(SIGNAL_TABLE, queue, limit=limit)) >= limit:
        raise SignalsFull(
            f"{limit} signals {signal.name!r} wait for {signal.address!r} already; send more when "
            "some are taken, or open the system with a larger signal_limit=",
            key=signal.address,
            name=signal.name,
            limit=limit,
        )
    place = head_key(signal.address, signal.name)
    head = tx.get(SIGNAL_TABLE, place, SignalsRow) or SignalsRow(signal.address, signal.name, 0)
    row = SignalRow(signal.address, signal.name, head.arrived, signal.payload, signal.at)
    tx.put(SIGNAL_TABLE, queue_key(row), row)
    tx.put(SIGNAL_TABLE, place, replace(head, arrived=head.arrived + 1))
    if signal.id:
        known = SignalIdRow(signal.address, signal.id, signal.digest)
        tx.put(SIGNAL_TABLE, _named(_IDS, signal.address, signal.id), known)
    return True


def _is_repeat(tx: Tx, signal: Signal) -> bool:
    known = tx.get(SIGNAL_TABLE, _named(_IDS, signal.address, signal.id), SignalIdRow)
    if known is None:
        return False
    if known.digest != signal.digest:
        raise SignalRefused(
            f"id {signal.id!r} was used for another signal to {signal.address!r}; a repeat has the "
            "same name and payload, a new signal its own id",
            key=signal.address,
            name=signal.name,
            reason="id",
        )
    return True


def require_open_scope(tx: Tx, scope: str, name: str) -> None:
    """Refuse a signal to a scope in which no group is open, and no activation runs.

    Raises:
        SignalRefused: see there.
    """
    if not is_open(tx, scope):
        raise refused(scope, name, "unknown", "no activation has this key, and no group is open")


def is_open(tx: Tx, scope: str) -> bool:
    """Tell whether anything in a scope may yet take a signal."""
    for member in unfinished(tx, scope):
        row = tx.get(GROUP_TABLE, group_key(member.key), GroupRow)
        if member.kind == "run" or (row is not None and not row.closed):
            return True
    return False


def refused(address: str, name: str, reason: str, why: str) -> SignalRefused:
    """Build the refusal of a signal that nobody could ever take."""
    return SignalRefused(
        f"signal {name!r} to {address!r} is refused: {why}; nothing was kept",
        key=address,
        name=name,
        reason=reason,
    )


def oldest(source: Reader, address: str, name: str) -> SignalRow | None:
    """Return the oldest signal of a name that nobody has taken."""
    for _, row in source.scan(SIGNAL_TABLE, queue_prefix(address, name), SignalRow, limit=1):
        return row
    return None


def remove(tx: Tx, row: SignalRow) -> None:
    """Take a signal that was seen in the journal.

    Raises:
        FenceMoved: it was taken since.
    """
    place = queue_key(row)
    if tx.get(SIGNAL_TABLE, place, SignalRow) is None:
        raise FenceMoved(
            f"signal {row.number} {row.name!r} to {row.address!r} was taken by another wait",
            key=row.address,
        )
    tx.delete(SIGNAL_TABLE, place)


@dataclass(frozen=True, slots=True)
class SignalTake:
    """What a wait for a signal comes to: one was there, and the unit of its end is to take it."""

    address: str
    name: str

    def settle(self, tx: Tx, row: GroupRow, child: ChildRow) -> ChildRow | None:
        """Take the oldest for a child that gets its rank; None when another wait was faster.

        A wait is interest and nothing else: it ends with that of its group, and takes nothing.
        """
        if row.closed:
            return replace(child, outcome=encode_outcome(Cancelled()))
        found = oldest(tx, self.address, self.name)
        if found is None:
            return None
        remove(tx, found)
        return replace(child, outcome=found.outcome, due=float(found.number))


def take_oldest(tx: Tx, take: SignalTake) -> Outcome | None:
    """Take the oldest signal for a wait that is no child; None when another one was faster."""
    found = oldest(tx, take.address, take.name)
    if found is None:
        return None
    remove(tx, found)
    return Completed(decode(found.payload))


def give_back(tx: Tx, group: str, positions: Iterable[int]) -> bool:
    """Put back, in their places, the signals of children whose ranks nobody will ever read.

    Call it in the unit of the group's first close, before that.
    """
    row = tx.get(GROUP_TABLE, group_key(group), GroupRow)
    if row is None or row.closed:
        return False
    back = False
    for position in positions:
        child = tx.get(CHILD_TABLE, child_key(group, position), ChildRow)
        outcome = decode_outcome(child.outcome) if child is not None and child.settled else None
        if child is None or not isinstance(outcome, Completed):
            continue
        envelope = EffectEnvelope.decoded(child.envelope)
        address, number = address_of(tx, envelope.scope), int(child.due)
        payload = encode(outcome.value)
        signal = SignalRow(address, envelope.name, number, payload, child.settled_at)
        tx.put(SIGNAL_TABLE, queue_key(signal), signal)
        back = True
    return back


def head_key(address: str, name: str) -> bytes:
    """Return the row key of how many signals of a name came."""
    return _named(_HEADS, address, name)


def queue_prefix(address: str, name: str) -> bytes:
    """Return the prefix under which the signals of a name lie, oldest first."""
    return _named(QUEUE, address, name)


def queue_key(row: SignalRow) -> bytes:
    """Return the row key of a signal."""
    return queue_prefix(row.address, row.name) + row.number.to_bytes(8, "big")


def signal_remains(address: str) -> list[tuple[str, bytes]]:
    """Return the prefixes of everything that signals left at an address."""
    return [(SIGNAL_TABLE, row_key(tag, address)) for tag in (QUEUE, _HEADS, _IDS)]


def _named(tag: bytes, address: str, name: str) -> bytes:
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return row_key(tag, address, digest)

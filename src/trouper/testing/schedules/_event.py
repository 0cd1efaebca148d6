"""What an explorer chooses between, and what a step says it touched.

An event's identity is its name, and its name is the same in every schedule that is equivalent to
the one in which it was first seen: whose it is, who caused it, what it is, and how many of the
kind there were before. A number that counts across senders would tie the name to the order that
is being explored, and reduction would then mistake one event for two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

Kind: TypeAlias = Literal["deliver", "reply", "commit", "timer", "crash", "rest"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)


# Tuples, since a few of each are made in every step, and looked up some thirty times: what a tuple
# does in C a dataclass does in Python. Those that every step makes come by `new_tuple`, past the
# constructor in Python that a named tuple has.
new_tuple: Final[Callable[..., Any]] = cast("Any", tuple).__new__


class _Name(NamedTuple):
    kind: Kind
    target: str
    sender: str
    what: str
    sequence: int
    life: int


class Event(_Name):
    """One thing that can happen next.

    Args:
        kind: ``deliver`` a message to an idle actor, ``reply`` to an actor that asked (or waited
            for room), ``commit`` has returned, ``timer`` fires, ``crash``. ``rest`` is the
            explorer's own: nothing more happens.
        target: The actor that takes the step, by its path.
        sender: Who sent it, replied or armed it; of a commit the journal.
        what: The type of the message, the name of the timer, the table of the commit; of a crash
            what it takes away, if there is more than one way.
        sequence: The how-many-th of this kind, target, sender and ``what``, from 1. Counted so
            narrowly, an unrelated message renames nothing, and a token survives it.
        life: How many crashes had happened when it was born.
    """

    __slots__ = ()

    def __new__(
        cls,
        kind: Kind,
        target: str,
        sender: str = "",
        what: str = "",
        sequence: int = 1,
        life: int = 0,
    ) -> Event:
        """Make an event.

        Raises:
            ValueError: There is no such kind, or a number is too small.
        """
        if kind not in KINDS:
            raise ValueError(f"an event's kind is one of {', '.join(KINDS)}, not {kind!r}")
        if sequence < 1 or life < 0:
            raise ValueError(
                f"an event's sequence counts from 1 and its life from 0, not {sequence} and {life}"
            )
        event: Event = new_tuple(cls, (kind, target, sender, what, sequence, life))
        return event

    @property
    def actor(self) -> tuple[str, int]:
        """The actor that takes the step, in this life of it."""
        return self.target, self.life

    @property
    def queue(self) -> tuple[str, str, int] | None:
        """Where it waits for its place: the mail of an actor, the commits of a journal."""
        if self.kind == "deliver":
            return self.kind, self.target, self.life
        if self.kind == "commit":
            return self.kind, self.sender, self.life
        return None

    @property
    def label(self) -> str:
        """What it is, with its number unless it is the first: ``Put``, ``Put#2``."""
        return self.what if self.sequence == 1 else f"{self.what}#{self.sequence}"

    def phrase(self) -> str:
        """Say it in the company of others at the same actor: ``d1's Put``."""
        match self.kind:
            case "deliver":
                return f"{self.sender}'s {self.label}" if self.sender else self.label
            case "reply":
                return f"{self.sender}'s reply to {self.label}"
            case "commit":
                return f"the commit {self.label}"
            case "timer":
                return f"the timer {self.label}"
            case "crash":
                which = "the crash" if self.sequence == 1 else f"crash {self.sequence}"
                return f"{which} ({self.what})" if self.what else which
            case "rest":
                return "rest"

    def __str__(self) -> str:
        after = f" (after crash {self.life})" if self.life and self.kind != "crash" else ""
        match self.kind:
            case "deliver" | "reply":
                return f"`{self.target}` gets {self.phrase()}{after}"
            case "commit" | "timer":
                return f"`{self.target}`: {self.phrase()}{after}"
            case _:
                return self.phrase()


REST: Final = Event("rest", "")


class Footprint(NamedTuple):
    """What one step touched, and what it brought about.

    Whatever a step reads or writes and does not report here makes reduction unsound: it then
    leaves out schedules that differ.

    Args:
        creates: Events that were born in this step, in the order of sending.
        withdraws: Events that it took back: a timer that it cancelled, a message of an ask that it
            gave up. They never take place then. Also those for which it came too late.
        reads: Journal keys that it read.
        writes: Journal keys that it wrote.
        shares: What else it touched that others may touch too, and that a crash takes away: the
            room of a bounded mailbox, a semaphore, an object in memory.
        arms: It armed or cancelled a timer, or read the clock.
        busy: The actor is in the middle of a turn now and takes no message.
        scans: Ranges of journal keys that it read, whatever lay in them.
        fills: Ranges that it wrote into. A scan depends on that; another write into it does not.
        looks: Like ``shares``, but it only looked: two that do so do not depend on each other.
        also: Other actors that went on in this step, since it woke them by something that is no
            event: the name, and whether that actor is in the middle of a turn now.
    """

    creates: tuple[Event, ...] = ()
    withdraws: tuple[Event, ...] = ()
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    arms: bool = False
    busy: bool = False
    scans: frozenset[str] = frozenset()
    fills: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    also: tuple[tuple[str, bool], ...] = ()


Resource: TypeAlias = tuple[str, str | Event | tuple[str, int]]
NOTHING: Final[frozenset[Resource]] = frozenset()
CLOCK: Final[Resource] = ("clock", "")
DURABLE: Final[Resource] = ("durable", "")


class Accesses(NamedTuple):
    """What a step read and wrote, of everything there is: two steps depend on it, or do not.

    The whole relation is here. Same actor: both write the actor. A shared journal key or
    resource: one of them writes it. A range of keys is the other way round, since writes into it
    do not mind each other: a scan writes it, a write reads it. An event against taking it back. A
    timer against a timer, or against arming one: firing writes the clock, arming reads it. A crash
    against a write: the crash writes what outlives it, and whoever changes something that outlives
    a crash - the journal, the clock - reads that.
    """

    reads: frozenset[Resource] = NOTHING
    writes: frozenset[Resource] = NOTHING

    def commutes(self, other: Accesses) -> bool:
        """Tell whether the two may as well happen in the other order."""
        return (
            self.writes.isdisjoint(other.writes)
            and self.writes.isdisjoint(other.reads)
            and self.reads.isdisjoint(other.writes)
        )

    def conflicts(self, other: Accesses) -> frozenset[Resource]:
        """Return what the two would have to do in one order or the other; empty: they commute."""
        return self.writes & other.writes | self.writes & other.reads | self.reads & other.writes


def accesses(event: Event, footprint: Footprint) -> Accesses:
    """Return what a step that has this footprint read and wrote."""
    if event.kind == "crash":
        return Accesses(writes=frozenset((DURABLE,)))
    life = event.life
    reads: list[Resource] = []
    writes: list[Resource] = [("actor", (event.target, life)), ("event", event)]
    # most steps have little of all this, and asking is cheaper than going through nothing
    if footprint.withdraws:
        writes += [("event", gone) for gone in footprint.withdraws]
    if footprint.reads:
        reads += [("key", key) for key in footprint.reads]
    if footprint.writes:
        writes += [("key", key) for key in footprint.writes]
    if footprint.scans:
        writes += [("range", name) for name in footprint.scans]
    if footprint.fills:
        reads += [("range", name) for name in footprint.fills]
    # after a crash it is another mailbox, another object
    for name in footprint.shares:
        writes.append(("shared", (name, life)))
    for name in footprint.looks:
        reads.append(("shared", (name, life)))
    for name, _ in footprint.also:
        writes.append(("actor", (name, life)))
    if footprint.arms:
        reads.append(CLOCK)
    if event.kind == "timer":
        writes.append(CLOCK)
    if footprint.writes or event.kind == "timer":
        reads.append(DURABLE)
    touched: Accesses = new_tuple(
        Accesses, (frozenset(reads) if reads else NOTHING, frozenset(writes))
    )
    return touched


def dependent(one: tuple[Event, Footprint], other: tuple[Event, Footprint]) -> bool:
    """Tell whether the order of two steps can matter."""
    return not accesses(*one).commutes(accesses(*other))


def spell(things: Iterable[Resource]) -> str:
    """Say what two steps have in common, as far as it is not plain from their names."""
    names: list[str] = []
    for kind, name in things:
        if kind in ("key", "range"):
            names.append(f"journal {kind} {name}")
        elif kind == "shared":
            names.append(str(name[0]))
    return ", ".join(sorted(names))

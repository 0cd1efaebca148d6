"""What happened in one schedule, and what happened before what.

Happens-before is kept as one bit mask per node: a node is a step, or a birth outside of any step
(what the scenario sent before it began). Two kinds of edges are told apart, because only one of
them can be turned around: what a step *requires* (the step that sent its message, messages that
delivery puts before it), and what it merely *conflicts* with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ...errors import InvariantError, OptionRefused
from ._bits import bits, mask_of
from ._event import Accesses, Event, Footprint, accesses, new_tuple
from ._touches import LastTouches

Delivery: TypeAlias = Literal["causal", "pairwise"]
Time: TypeAlias = Literal["idle", "anytime"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What may happen next, and for how long.

    Args:
        delivery: ``causal``: a message is not delivered before one to the same actor whose sending
            happened before its own, which is exactly what one process can do. ``pairwise``: only
            what one sender sent to one actor keeps its order, as on a network.
        time: ``idle``: a timer fires when nothing else can happen. ``anytime``: also before.
        fair_after: From this step on the oldest event is next, whatever the strategy, so that
            code which polls comes to an end.
        max_steps: A schedule that is not at rest after so many steps fails with `NeverQuiesced`.
    """

    delivery: Delivery = "causal"
    time: Time = "idle"
    fair_after: int = 1_000
    max_steps: int = 10_000

    def __post_init__(self) -> None:
        if self.delivery not in ("causal", "pairwise"):
            raise OptionRefused(f"delivery is causal or pairwise, not {self.delivery!r}")
        if self.time not in ("idle", "anytime"):
            raise OptionRefused(f"time is idle or anytime, not {self.time!r}")
        numbers: tuple[object, object] = (self.fair_after, self.max_steps)
        if {type(each) for each in numbers} != {int} or not 1 <= self.fair_after <= self.max_steps:
            raise OptionRefused(
                "fair_after and max_steps are whole numbers, 1 <= fair_after <= max_steps, not "
                f"{self.fair_after!r} and {self.max_steps!r}"
            )


class Step(NamedTuple):
    """One event that took place. Masks and numbers count nodes."""

    event: Event
    footprint: Footprint
    accesses: Accesses
    place: int  # in the schedule, from 0
    node: int
    creator: int  # the node it was born in; -1 for a crash
    turn: int  # the first node of the turn it belongs to
    required: int  # mask of all that must come before it
    conflicts: tuple[int, ...]  # the last steps that it depends on, resource by resource
    past: int  # mask of all that happened before it


class _Birth(NamedTuple):
    node: int
    order: int  # among all births: the age of an event


class Trace:
    """The steps of one schedule so far, in order, with what happened before each of them."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.steps: list[Step] = []
        self.life = 0  # crashes so far
        self._pasts: list[int] = []  # by node, the node itself included
        self._levels: list[int] = []  # by node: the length of the longest chain that leads to it
        self._births: dict[Event, _Birth] = {}
        self._lost = 0  # mask of what a crash took away without a trace
        self._rested = -1  # the last timer that waited for all to be at rest
        self._done: set[Event] = set()
        self._withdrawn: set[Event] = set()
        self._withdrawals: list[tuple[Step, Step]] = []  # as if it came just before, and by whom
        self._outside: dict[str, int] = {}  # by sender: its last birth outside of any step
        self._last = LastTouches()
        self._turns: dict[tuple[str, int], int] = {}  # by busy actor: where its turn began
        self._others: dict[tuple[int, tuple[str, int]], int] = {}  # the turns of others in a step
        self._taken: dict[tuple[str, str, int], list[Step]] = {}  # what came out of a queue
        self._by_node: dict[int, Step] = {}

    # --- births -----------------------------------------------------------------------------------

    def born(self, events: Iterable[Event]) -> None:
        """Take in events that no step brought about: what the scenario itself sent."""
        before = mask_of(step.node for step in self.steps)
        for event in events:
            chained = self._outside.get(event.sender)
            past = before | (0 if chained is None else self._pasts[chained])
            self._outside[event.sender] = node = self._node(past)
            self._bear(event, node)

    def _bear(self, event: Event, node: int) -> None:
        if event in self._births:
            raise InvariantError(f"two events of one schedule have one name: {event!r}")
        if event.life != self.life:
            raise InvariantError(f"{event!r} was born after {self.life} crashes: wrong life")
        self._births[event] = new_tuple(_Birth, (node, len(self._births)))

    def by_age(self, events: Iterable[Event]) -> list[Event]:
        """Return events in the order of their births; a crash is younger than everything."""
        births = self._births
        events = list(events)
        if len(events) == 1 and events[0] in births:
            return events
        keyed = [
            (self._unborn(event) if (birth := births.get(event)) is None else birth.order, event)
            for event in events
        ]
        keyed.sort()
        return [event for _, event in keyed]

    def _unborn(self, event: Event) -> int:
        if event.kind in ("crash", "rest"):
            return len(self._births)
        raise InvariantError(f"an event is offered that nothing brought about: {event!r}")

    def pending(self) -> list[Event]:
        """Return what was born in this life and did not take place, oldest first."""
        gone = self._done | self._withdrawn
        return [e for e in self._births if e.life == self.life and e not in gone]

    def precedes(self, one: Event, other: Event) -> bool:
        """Tell whether the one of two events in a queue keeps its place before the other.

        A journal writes units in the order of submission, whatever delivery is.
        """
        first, then = self._births[one], self._births[other]
        if self.rules.delivery == "pairwise" and one.kind == "deliver":
            return one.sender == other.sender and first.order < then.order
        if first.node == then.node:
            return first.order < then.order
        return bool(self._pasts[then.node] >> first.node & 1)

    # --- steps ------------------------------------------------------------------------------------

    def append(self, event: Event, footprint: Footprint) -> Step:
        """Take in that an event took place and what its step touched."""
        node = len(self._pasts)
        if footprint.withdraws:
            lost = [e for e in footprint.withdraws if e not in self._done]  # else it is too late
            as_if = [self._step(e, Footprint(), node, begins=True) for e in lost]
            step = self._step(event, footprint, node, touches=True)
            self._withdrawn.update(lost)
            self._withdrawals += [(one, step) for one in as_if]
        else:
            step = self._step(event, footprint, node, touches=True)
        self._levels.append(1 + self._depth(step))
        self._pasts.append(step.past | 1 << node)
        self.steps.append(step)
        self._by_node[node] = step
        self._done.add(event)
        if event.kind == "crash":
            if event.life != self.life:
                raise InvariantError(f"{event!r} came after {self.life} crashes: wrong life")
            self.life += 1
            self._lost |= ~self._pasts[node] & ((1 << len(self._pasts)) - 1)
        else:
            if footprint.busy:
                self._turns[event.actor] = step.turn
            elif self._turns:
                self._turns.pop(event.actor, None)
            if footprint.also:
                self._go_on(step)
            if (queue := event.queue) is not None:
                self._taken.setdefault(queue, []).append(step)
        for child in footprint.creates:
            self._bear(child, node)
        return step

    def _go_on(self, step: Step) -> None:
        """Take in the turns of other actors that a step went on with, began or ended."""
        for name, busy in step.footprint.also:
            actor = name, step.event.life
            self._others[step.node, actor] = first = self._turns.pop(actor, step.node)
            if busy:
                self._turns[actor] = first

    def _step(
        self,
        event: Event,
        footprint: Footprint,
        node: int,
        *,
        begins: bool = False,
        touches: bool = False,
    ) -> Step:
        touched = accesses(event, footprint)
        conflicts = self._last.touch(touched, node) if touches else self._last.before(touched)
        first = node
        if self._turns and not begins and event.kind != "crash":
            first = self._turns.get(event.actor, node)
        birth = self._births.get(event)
        past = required = self._required(event, birth)
        for other in conflicts:
            past |= self._pasts[other]
        creator = -1 if birth is None else birth.node
        place = len(self.steps)
        fields = event, footprint, touched, place, node, creator, first, required, conflicts, past
        step: Step = new_tuple(Step, fields)
        return step

    def _required(self, event: Event, birth: _Birth | None) -> int:
        if event.kind == "timer" and self.rules.time == "idle":
            # all else had to come to rest first, or was lost
            return ((1 << len(self._pasts)) - 1) & ~self._lost
        mask = 0 if birth is None else self._pasts[birth.node]
        if (queue := event.queue) is not None:
            for step in reversed(self._taken.get(queue, ())):
                if mask >> step.node & 1:
                    known = True
                elif known := self.precedes(step.event, event):
                    mask |= self._pasts[step.node]
                if known and event.kind == "deliver":
                    break  # the steps of an actor are a chain: what came before is in it
        return mask

    def _depth(self, step: Step) -> int:
        """Return the length of the longest chain that leads to a step."""
        levels = self._levels
        if step.event.kind == "timer" and self.rules.time == "idle":
            # after everything else; the timer before it came after all that was before that
            before = self._rested if step.past >> max(self._rested, 0) & 1 else -1
            self._rested = step.node
            since = (levels[before + 1 + n] for n in bits(step.past >> before + 1))
            return max((0 if before < 0 else levels[before], *since))
        depth = 0 if step.creator < 0 else levels[step.creator]
        for node in step.conflicts:
            if levels[node] > depth:
                depth = levels[node]
        if step.event.kind == "commit":
            for taken in self._taken.get(("commit", step.event.sender, step.event.life), ()):
                if step.past >> taken.node & 1:
                    depth = max(depth, levels[taken.node])
        return depth

    def _node(self, past: int) -> int:
        self._pasts.append(past | 1 << (node := len(self._pasts)))
        self._levels.append(0)
        return node

    # --- what could have been the other way round -------------------------------------------------

    def races(self, step: Step) -> Iterator[Step]:
        """Yield the steps that this one came after, and could have come before.

        Only those with nothing in between: what lies further back turns up once the nearer one
        has been turned around. Two things hide what could have been. A busy actor is a lock: a
        message to it races with the message that began the turn before, not with the reply that
        ended it. And of two timers the earlier one is first: a timer races with the step that
        armed the timer before it.
        """
        lock = self._lock(step)
        for node in step.conflicts:
            near = head = self._by_node[node]
            if step.required >> node & 1:
                continue
            if near.event.kind == step.event.kind == "timer":
                yield from self._armings(step, near)
                continue
            if lock is not None and self._serves(near, step.event.actor):
                if near is not lock:
                    continue  # the same turn, named by another resource
                head = self._by_node[self._others.get((lock.node, step.event.actor), lock.turn)]
                if step.required >> head.node & 1:
                    continue
            if not self._is_between(step, node, head.node, lock):
                yield head

    def _armings(self, step: Step, timer: Step) -> Iterator[Step]:
        while timer.event.kind == "timer":  # one that a timer armed has that one before it, too
            armed = self._by_node.get(timer.creator)
            if armed is None or step.required >> armed.node & 1:
                return
            yield armed
            timer = armed

    def _lock(self, step: Step) -> Step | None:
        """Return the last step of the turn that had to end before this one could begin its own."""
        if step.turn != step.node or step.event.kind not in ("deliver", "timer"):
            return None  # a reply does not wait for the end of a turn
        actor = step.event.actor
        same = [n for n in step.conflicts if self._serves(self._by_node[n], actor)]
        return self._by_node[max(same)] if same else None

    def _serves(self, step: Step, me: tuple[str, int]) -> bool:
        return step.event.actor == me or (step.node, me) in self._others

    def _is_between(self, step: Step, node: int, head: int, lock: Step | None) -> bool:
        for other in step.conflicts:
            if other == node:
                continue
            if lock is not None and lock.node == node and self._pasts[lock.node] >> other & 1:
                continue  # it came before the lock was free: no room to turn it around alone
            if self._pasts[other] >> head & 1:
                return True
        return False

    def initials(self, step: Step, head: Step) -> list[Event]:
        """Return what can come first when a step comes before a race's other side.

        That is: of all that came after ``head`` without depending on it, and the step itself, the
        events that depend on none of the others.
        """
        rest = [s for s in self.steps if head.node < s.node < step.node]
        life = step.event.life
        free = [
            s
            for s in rest
            if not s.past >> head.node & 1
            # a crash would take the step away: it is not what comes before it
            and s.event.life + (s.event.kind == "crash") <= life
        ]
        mask = mask_of(s.node for s in free)
        found = [s.event for s in free if not s.past & mask]
        # its own past says too much, since it came after ``head``, and its conflicts too little:
        # each names only the last step that touched something
        waits = step.required & mask or any(s.accesses.conflicts(step.accesses) for s in free)
        return found if waits else [*found, step.event]

    def withdrawn(self) -> Iterator[tuple[Step, Step]]:
        """Yield what was taken back, as a step that could have been, and before which one."""
        for lost, step in self._withdrawals:
            yield from ((lost, head) for head in self.races(lost))
            yield self._step(lost.event, Footprint(), len(self._pasts), begins=True), step
            if lost.event.kind == step.event.kind == "timer":
                yield from ((lost, head) for head in self._armings(lost, step))

    def blocked(self) -> list[Step]:
        """Return the messages that busy actors never took, as steps that would have been next.

        An actor that is busy for ever hides what could have come first.
        """
        found: list[Step] = []
        for event in self.pending():
            turn = self._turns.get(event.actor)
            if event.kind in ("deliver", "timer") and turn is not None:
                found.append(self._step(event, Footprint(), len(self._pasts), begins=True))
        return found

    # --- what is the same schedule ----------------------------------------------------------------

    def canonical(self) -> bytes:
        """Return what all equivalent schedules have in common and no other: a digest.

        It is taken of the Foata normal form: each event with the length of the longest chain of
        events that had to come before it. What a crash took away without a trace does not count.
        """
        kept = sorted(
            (self._levels[step.node], step.event)
            for step in self.steps
            if not self._lost >> step.node & 1
        )
        return hashlib.blake2b(json.dumps(kept).encode(), digest_size=16).digest()

    def is_done(self, event: Event) -> bool:
        """Tell whether it took place."""
        return event in self._done

    def is_known(self, event: Event) -> bool:
        """Tell whether it was born, or took place."""
        return event in self._births or event in self._done

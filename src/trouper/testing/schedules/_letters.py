"""Messages on their way: in which mailbox each waits, under which name, and which could be next."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Final, final

from ...mailbox import DRAINING, STOPPED, Ask, Control, Owed, Traced, bare
from ._event import Event

if TYPE_CHECKING:
    from ...actors._ref import Ref
    from ._engine import GatedReady
    from ._gate import Gate
    from ._refs import ScheduledInbox, ScheduledRef

# A mailbox of at most so many messages is expected to be full some day: then who was first counts.
CROWDED: Final = 16
SENT: Final = ("tell", "send", "ask")


@final
class Letter:
    """What travels with a message: the event of its delivery. A `Journey` and its turn in one."""

    __slots__ = ("event", "how", "sender", "stamp", "what")

    def __init__(self, how: str, sender: str, what: str, stamp: int, event: Event | None) -> None:
        self.how = how
        self.sender = sender
        self.what = what
        self.stamp = stamp
        self.event = event  # None: it is named when it arrives

    def sent(self, error: BaseException | None) -> None:
        """See `trouper.actors.Journey`."""

    def turn(self, target: object) -> Letter:
        """See `trouper.actors.Journey`."""
        return self

    def lost(self, reason: str) -> None:
        """See `trouper.actors.Journey`."""

    def leave(self) -> None:
        """See `trouper.actors.Turn`."""

    def over(self, outcome: str, error: BaseException | None) -> None:
        """See `trouper.actors.Turn`."""


@final
class Known:
    """What a mailbox is called in events and footprints: that never changes."""

    __slots__ = ("life", "mail", "name")

    def __init__(self, name: str, is_crowded: bool) -> None:
        self.name = name
        self.life = f"life of {name}"  # a look at the actor's state
        self.mail = f"mail of {name}" if is_crowded else None


@final
class Mail:
    """All mailboxes of a system, as far as the next step is concerned."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.taken: set[Event] = set()
        self._boxes: dict[ScheduledRef, None] = {}
        self._names: dict[str, ScheduledRef] = {}
        self.known: dict[ScheduledRef, Known] = {}
        self.is_stale = False  # something ran since the last look
        self._listed: dict[ScheduledRef, GatedReady] = {}
        self._idle: list[tuple[GatedReady, Any]] = []  # on ready, and no event
        self._inboxes: dict[ScheduledRef, ScheduledInbox] = {}
        self._waiting: dict[ScheduledRef, list[tuple[Event, Any]]] = {}  # what waits in which box
        self._places: dict[Event, tuple[ScheduledRef, Any, int]] = {}
        self._jumped: set[ScheduledRef] = set()  # somebody more urgent came before the others
        self._owed: dict[Owed, Letter] = {}  # messages of the runtime itself

    # --- what refs and queues say -----------------------------------------------------------------

    def join(self, ref: ScheduledRef) -> None:
        """Take a new mailbox in."""
        self._boxes[ref] = None

    def open(self, ref: ScheduledRef, inbox: ScheduledInbox) -> None:
        """Take in that a mailbox is read by a protocol."""
        self._inboxes[ref] = inbox

    def enlist(self, ref: ScheduledRef, ready: GatedReady) -> None:
        """Take in that a mailbox could be served."""
        self._listed[ref] = ready

    def sending(self, how: Any, target: Ref[Any], message: object) -> Letter:
        """Name a message that sets out. What comes later, by itself, is named when it comes."""
        ref: Any = target
        gate, what = self._gate, type(message).__name__
        stamp = next(gate.stamps)
        if ref not in self._boxes:  # a durable actor: its desk takes what is there, in order
            gate.note(shares=(f"inbox of {ref.label}",))
            return Letter(how, "", what, stamp, None)
        name = self.touched(ref).name
        if how in ("after", "every"):
            return Letter(how, f"timer of {name}", what, stamp, None)
        sender = gate.owner()
        event = None if how == "pipe" else gate.mint("deliver", name, sender, what)
        return Letter(how, sender, what, stamp, event)

    def touched(self, ref: ScheduledRef) -> Known:
        """Note that the step under way puts something into a mailbox, or takes it out."""
        known = self.known.get(ref) or self._know(ref)
        step = self._gate.step
        step.looks.add(known.life)
        if known.mail is not None:
            step.shares.add(known.mail)
        return known

    def looked(self, ref: ScheduledRef) -> None:
        """Note that the step under way depends on whether an actor lives."""
        self._gate.step.looks.add((self.known.get(ref) or self._know(ref)).life)

    def changed(self, ref: ScheduledRef) -> None:
        """Note that an actor begins, fails, stops or lives again.

        Until it can take messages it is in the middle of something, as in a turn.
        """
        name = self.name_of(ref)
        step = self._gate.step
        step.shares.add(f"life of {name}")
        step.also[name] = None
        if ref.now == STOPPED:
            self._boxes.pop(ref, None)
            self._inboxes.pop(ref, None)

    def name_of(self, ref: ScheduledRef) -> str:
        """Return the name of an actor in events."""
        return (self.known.get(ref) or self._know(ref)).name

    def _know(self, ref: ScheduledRef) -> Known:
        name = self._gate.owners.short(ref.path)
        known = self.known[ref] = Known(name, is_crowded(ref))
        self._names.setdefault(name, ref)
        return known

    # --- what could be next -----------------------------------------------------------------------

    def choices(self) -> list[Event]:
        """Return the messages that could be delivered now."""
        found: list[Event] = []
        for ref in self._listed:
            if ref.now <= DRAINING:
                waiting = self._waiting.get(ref)
                if not waiting:
                    continue
                if len(waiting) == 1 and not ref.control:
                    found.append(waiting[0][0])
                else:
                    found += self._of_box(ref, waiting)
        for ref, inbox in self._inboxes.items():
            if ref.now <= DRAINING:
                found += self._of_inbox(ref, inbox)
        return found

    def _of_box(self, ref: ScheduledRef, waiting: list[tuple[Event, Any]]) -> list[Event]:
        if not ref.control:
            if len(waiting) > 1 and is_crowded(ref):
                return [waiting[0][0]]
            return [event for event, _ in waiting]
        if (q := ref.queue) is not None and not _is_behind(q):
            return [waiting[0][0]]  # the control lane goes first
        return [event for event, _ in waiting[len(pending(ref.control)) :][:1]]

    def _of_inbox(self, ref: ScheduledRef, inbox: ScheduledInbox) -> list[Event]:
        found: dict[Event, None] = {}
        control = {id(entry) for entry in ref.control or ()}
        for match in inbox.wishes():
            fits = [at for at in self._waiting.get(ref, ()) if match(message_of(at[1]))]
            if fits and (id(fits[0][1]) in control or is_crowded(ref)):
                fits = fits[:1]
            found.update((event, None) for event, entry in fits if id(entry) not in control)
            found.update((event, None) for event, entry in fits[:1] if id(entry) in control)
        return list(found)

    def knows(self, event: Event) -> bool:
        """Tell whether a message has arrived, by now or before; one may stand in line for room."""
        return event in self._places or event in self.taken

    def stamps(self) -> dict[Event, int]:
        """Return the places of all messages in the order of arrival."""
        return {event: place[2] for event, place in self._places.items()}

    def stamp(self, event: Event) -> int:
        """Return the place of a message in the order of arrival."""
        return self._places[event][2]

    def deliver(self, event: Event) -> None:
        """Let a message have its turn."""
        self.taken.add(event)
        ref, entry, _ = self._places[event]
        self.touched(ref)
        self._jumped.discard(ref)
        inbox = self._inboxes.get(ref)
        if inbox is not None:
            inbox.hand(entry)
            return
        q = ref.queue
        if q is not None and not ref.control and q[0] is not entry:
            to_front(ref, entry)
        self._listed.pop(ref).release(ref)

    def settle(self) -> bool:
        """Run the passes that serve nobody: of closed mailboxes, and of those that gave up."""
        if self.is_stale:
            self.look()
        waiting = self._waiting
        idle = [r for r in self._listed if r.now > DRAINING or r not in waiting]
        is_served = False
        for ref in idle:
            ready = self._listed.pop(ref)
            if not ready.dispatcher.closed:  # of a dedicated actor that has ended
                ready.release(ref)
                is_served = True
        return is_served

    def is_busy(self, name: str) -> bool:
        """Tell whether an actor takes no message now: it is in the middle of a turn, or failed."""
        ref = self._names.get(name)
        if ref is None:
            return False
        if ref.now > DRAINING:
            return ref.now != STOPPED
        lane = pending(ref.control) if ref.control else ()
        inbox = self._inboxes.get(ref)
        if inbox is None:
            return ref.worker is not None or bool(lane) or ref in self._jumped
        wishes = inbox.wishes()
        is_owed = any(match(message_of(entry)) for match in wishes for entry in lane)
        return ref.worker is not None and (not wishes or is_owed)

    # --- what came and went -----------------------------------------------------------------------

    def look(self) -> None:
        """See what waits now: name what has come, and note what has gone without a turn."""
        if not self.is_stale:
            return
        self.is_stale = False
        before = self._places
        if not self._look_again():
            self._look_at_all(before)
        taken = self.taken
        for event in before:
            if event not in self._places and event not in taken:
                taken.add(event)
                self._gate.gone(event)
                self.touched(before[event][0])  # there is room for another one now

    def _look_again(self) -> bool:
        """See what waits now, unless something of it has to be named, or goes before the mail."""
        taken, before, creates = self.taken, self._places, self._gate.step.creates
        waiting: dict[ScheduledRef, list[tuple[Event, Any]]] = {}
        places: dict[Event, tuple[ScheduledRef, Any, int]] = {}
        come: list[tuple[int, Event]] = []
        for ref in self._boxes:
            if ref.control:
                return False
            q = ref.queue
            if not q:
                continue
            if ref.intake.priority is not None:
                return False
            found: list[tuple[Event, Any]] = []
            for entry in mail_of(q):
                told = isinstance(entry, Traced)
                letter: Letter = entry.journeys[0] if told else self._letter(entry)
                event = letter.event
                if event is None or event in taken:
                    return False
                found.append((event, entry))
                places[event] = ref, entry, letter.stamp
                if event not in before:
                    come.append((letter.stamp, event))
            if found:
                waiting[ref] = found
        self._waiting, self._places = waiting, places
        creates += come
        return True

    def _look_at_all(self, before: Container[Event]) -> None:
        fresh: list[tuple[ScheduledRef, Any, Letter]] = []
        placed: list[tuple[ScheduledRef, list[tuple[Any, Letter]]]] = []
        taken = self.taken
        for ref in self._boxes:
            q, control = ref.queue, ref.control
            if not q and not control:
                continue
            entries = [*pending(control), *mail_of(q)] if control else mail_of(q)
            letters = [(entry, self._letter(entry)) for entry in entries]
            placed.append((ref, letters))
            for entry, letter in letters:
                if letter.event is None or letter.event in taken:
                    fresh.append((ref, entry, letter))
        for ref, _, letter in fresh:
            self._name(ref, letter)
        self._waiting = {}
        self._places = places = {}
        for ref, letters in placed:
            found: list[tuple[Event, Any]] = []
            for entry, letter in letters:
                event = letter.event
                assert event is not None
                found.append((event, entry))
                places[event] = ref, entry, letter.stamp
                if event not in before:
                    self._gate.step.creates.append((letter.stamp, event))
            if found:
                if ref.control or ref.intake.priority is not None:
                    self._note_jump(ref, found, before)
                self._waiting[ref] = found

    def _note_jump(
        self, ref: ScheduledRef, found: list[tuple[Event, Any]], before: Container[Event]
    ) -> None:
        """Note that something has come which goes before the mail.

        No mail can be next then: it is as if the turn of that had begun already, and what could
        have come first is a race with the step that put it there.
        """
        lane = ref.control or ()
        is_owed = any(entry in lane and event not in before for event, entry in found)
        is_ahead = ref.intake.priority is not None and found[0][0] not in before and len(found) > 1
        if is_owed or is_ahead:
            self._gate.step.also[self.name_of(ref)] = None
        if is_ahead:
            self._jumped.add(ref)

    def _name(self, ref: ScheduledRef, letter: Letter) -> None:
        gate, what = self._gate, letter.what
        if letter.event is not None:
            letter.stamp = next(gate.stamps)
            if letter.how in SENT:
                what += " again"  # put aside, or delivered again
        letter.event = gate.mint("deliver", self.name_of(ref), letter.sender, what)

    def _letter(self, entry: Any) -> Letter:
        inner = entry.message if entry.__class__ in (Ask, Owed) else entry
        if isinstance(inner, Traced):
            letter: Letter = inner.journeys[0]
            return letter
        known = self._owed.get(entry)
        if known is None:
            gate = self._gate
            known = self._owed[entry] = Letter(
                "post", gate.owner(), type(inner).__name__, next(gate.stamps), None
            )
        return known


def is_crowded(ref: ScheduledRef) -> bool:
    """Tell whether the order of arrival counts in a mailbox, and not only that of delivery."""
    intake = ref.intake
    return ref.capacity <= CROWDED or intake.priority is not None or intake.is_dropping


def to_front(ref: ScheduledRef, entry: Any) -> None:
    """Put an entry of the user lane before the others; behind what stands for the control lane."""
    q = ref.queue
    assert q is not None
    place = next(i for i, other in enumerate(q) if other is entry)
    del q[place]
    q.insert(1 if q and q[0].__class__ is Control else 0, entry)


def _is_behind(q: Any) -> bool:
    """Tell whether a user message goes before the control lane, after a burst of that."""
    return bool(q) and q[0].__class__ is not Control


def pending(lane: Any) -> list[Any]:
    """Return what waits in a control lane."""
    return [entry for entry in lane or () if entry.__class__ is not Owed or not entry.is_off]


def mail_of(q: Any) -> list[Any]:
    """Return what waits in a user lane, without those who gave up."""
    return [
        entry
        for entry in q or ()
        if entry.__class__ is not Control and not (entry.__class__ is Ask and entry.done)
    ]


def message_of(entry: Any) -> Any:
    """Return the message of an entry of either lane, as its sender knows it."""
    return bare(entry.message if entry.__class__ in (Ask, Owed) else entry)

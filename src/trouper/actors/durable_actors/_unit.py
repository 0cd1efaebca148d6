"""One unit in flight, one open: what a durable actor decided and has not seen committed yet.

Pure: no trio, no store. Messages go in, units come out; a verdict makes a unit's state the visible
one and hands back what is owed to whom. Nothing is handed back before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast, final

from ...errors import FenceMoved, Reject, TooLarge, TrouperError, ValueRefused
from ...store import (
    HISTORY,
    HeadRow,
    Places,
    Sealed,
    SealedRow,
    SealedUnit,
    Trail,
    Tx,
    encode_record,
    head_key,
)
from ._decision import Decision, Tell
from ._replies import Known, Replies, mark_of
from ._rows import (
    ReplyRow,
    SnapshotRow,
    decode_kept,
    encode_error,
    encode_value,
    reply_key,
    snapshot_key,
)
from ._rules import Rules

UNIT_RECORDS: Final = 1024
"""Rows of a unit, or answers that wait for it, from which on it takes no more messages."""

Decide: TypeAlias = Callable[[Any, Any, Any], Any]


@final
class Answer(NamedTuple):
    """What is owed once a unit is durable: an answer to who asked, and messages to others."""

    asker: Any
    value: Any
    error: TrouperError | None
    tells: Sequence[Tell[Any]] = ()


# What waits for a flush is made once per message: a tuple, and without a call into Python.
_answer: Final = cast(
    "Callable[[tuple[Any, Any, TrouperError | None, Sequence[Tell[Any]]]], Answer]",
    partial(cast("Any", tuple).__new__, Answer),
)


@final
class Unit(SealedUnit):
    """The rows of many messages that commit together, and the state after them."""

    __slots__ = ("answers", "bodies", "desk", "error", "expected", "key", "replies", "state")

    def __init__(self, key: str) -> None:
        super().__init__(HISTORY)
        self.desk: Any = None  # whose it is, once it is on its way
        self.error: BaseException | None = None  # what became of it, if it was not written
        self.key = key
        self.state: Any = None  # after it
        self.expected = 0  # the fence: how many units the history has before this one
        self.bodies: list[bytes] = []  # its records, which become rows when it is submitted
        self.answers: list[Answer] = []
        self.replies: list[Known] | None = None  # recorded under ids; most units have none

    def clear(self) -> None:
        """Let go of all that it held, once it has landed and everybody is told."""
        self.rows.clear()
        self.answers.clear()
        self.forgotten = self.replies = self.state = None

    def __call__(self, tx: Tx) -> None:
        """Write it; the unit that the store runs.

        Raises:
            FenceMoved: Another owner of this key has committed. Nothing is written.
        """
        head = tx.get(HISTORY, head_key(self.key), HeadRow)
        have = 0 if head is None else head.units
        if have != self.expected:
            raise FenceMoved(
                f"the history of {self.key!r} has {have} units where its owner knows of "
                f"{self.expected}: another system on this store wrote to it. Nothing of this unit "
                "was written",
                key=self.key,
            )
        for row in self.rows:
            tx.put(HISTORY, row[0], Sealed(*row))
        for key in self.forgotten or ():
            tx.delete(HISTORY, key)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a history says at one moment: where an owner begins."""

    state: Any
    head: HeadRow | None = None
    snapshot: int = 0  # the last record in it
    replies: tuple[tuple[int, ReplyRow], ...] = ()


class Sealer(Protocol):
    """What units take of a store: how to encode what they write."""

    max_value: int

    def seal(self, key: bytes, value: object) -> SealedRow:
        """See `Store.seal`."""
        ...


class Units:
    """Everything that one life of a durable actor holds in memory.

    ``committed`` is what is visible; ``state`` what a decision sees: that, and the decisions before
    it that are on their way.
    """

    __slots__ = (
        "_encode",
        "_every",
        "_head",
        "_most",
        "_replies",
        "_rules",
        "_seal",
        "_since",
        "_size",
        "_snapshot",
        "_spare",
        "_trail",
        "_units",
        "actor",
        "committed",
        "flight",
        "is_full",
        "key",
        "open",
        "records",
        "snapshot_error",
        "state",
    )

    def __init__(
        self, rules: Rules, actor: Any, key: str, start: Recovered, places: Places, store: Sealer
    ) -> None:
        head = start.head
        self.actor = actor
        self.key = key
        self.committed = self.state = start.state
        self.records = 0 if head is None else head.records  # those under way included
        self.flight: Unit | None = None
        self._spare: Unit | None = None  # one that has landed
        self.open: Unit | None = None
        self.is_full = False  # messages have to wait until the unit in flight has landed
        self.snapshot_error: TrouperError | None = None  # why the last snapshot was left out
        self._rules = rules
        self._encode = partial(encode_record, max_bytes=store.max_value)
        self._seal = store.seal
        self._units = 0 if head is None else head.units
        self._snapshot = start.snapshot
        self._since = start.snapshot  # counted from here until the next snapshot
        self._size = 0  # bytes of records since then, in this life
        every, most = rules.limits.snapshot_every, rules.limits.snapshot_bytes
        self._every = math.inf if every is None else every
        self._most = math.inf if most is None else most
        replied = 0 if head is None else head.replies
        self._replies = Replies(rules.limits.keep_replies, replied, start.replies)
        self._trail = Trail(key, rules.name, places, head)
        self._head: SealedRow | None = None  # as the last unit of this life writes it

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self.flight is None and self.open is None

    # --- messages in ------------------------------------------------------------------------------

    def take(self, asker: Any, message: Any, decide: Decide) -> Answer | None:
        """Decide on one message; return what is owed for it now, None if that has to wait.

        All of a message is in the open unit, or nothing. A value that the journal refuses is an
        answer to its message.

        Raises:
            Exception: What the rules raised, other than `Reject`: a bug in them.
        """
        ident = getattr(message, "idempotency_id", None)
        if ident is not None and self._rules.limits.keep_replies:
            return self._take_once(asker, message, decide, ident)
        try:
            decision: Any = decide(self.actor, self.state, message)
        except Reject as reject:
            decision = reject
        if decision.__class__ is not Decision:  # it is one nearly always: no call to look closer
            decision = _checked(decision, decide)
            if isinstance(decision, Reject):
                return self._owe(Answer(asker, None, decision))
        records = decision.records
        if not records:
            return self._owe(Answer(asker, decision.reply, None, decision.tells))
        try:
            bodies = [self._encode(records[0])] if len(records) == 1 else self._encoded(records)
        except (ValueRefused, TooLarge) as refused:
            return self._owe(Answer(asker, None, refused))
        unit = self._extend(records, bodies)
        if asker is not None or decision.tells:
            unit.answers.append(_answer((asker, decision.reply, None, decision.tells)))
            if len(unit.answers) >= UNIT_RECORDS:
                self.is_full = True
        return None

    def _take_once(self, asker: Any, message: Any, decide: Decide, ident: Any) -> Answer | None:
        """Decide on a message that may have come before, or answer what was answered then."""
        try:
            mark = mark_of(ident, message)
            known = self._replies.find(ident, mark)
        except TrouperError as refused:
            return self._owe(Answer(asker, None, refused))
        if known is not None:
            answer = Answer(asker, *decode_kept(known.reply))
            return answer if known.unit is None else self._owe(answer)
        decision = self._decide(message, decide)
        is_refusal = isinstance(decision, Reject)
        records: Sequence[Any] = () if is_refusal else decision.records
        number = self._replies.last + 1
        try:
            reply = encode_error(decision) if is_refusal else encode_value(decision.reply, "reply")
            row = self._seal(reply_key(self.key, number), ReplyRow(ident, mark, reply))
            bodies = self._encoded(records)
        except (ValueRefused, TooLarge) as refused:
            return self._owe(Answer(asker, None, refused))
        unit = self._extend(records, bodies)
        unit.rows.append(row)
        gone = [reply_key(self.key, old) for old in self._replies.add(ident, mark, reply, unit)]
        if unit.forgotten is None:
            unit.forgotten = gone or None
        else:
            unit.forgotten += gone
        tells = () if is_refusal else decision.tells
        self._hold(unit, Answer(asker, *decode_kept(reply), tells))
        return None

    def _decide(self, message: Any, decide: Decide) -> Any:
        try:
            return _checked(decide(self.actor, self.state, message), decide)
        except Reject as reject:
            return reject

    def _encoded(self, records: Sequence[Any]) -> list[bytes]:
        if len(records) > UNIT_RECORDS:
            raise TooLarge(
                f"one decision of {len(records)} records is larger than the {UNIT_RECORDS} that a "
                "unit holds; let several messages decide on it",
                size=len(records),
                limit=UNIT_RECORDS,
            )
        return [self._encode(record) for record in records]

    def _extend(self, records: Sequence[Any], bodies: list[bytes]) -> Unit:
        """Add the records of one message to the open unit; the rules apply them first."""
        state = self._rules.fold(self.actor, self.state, records, bodies)
        unit = self.open
        if unit is None:
            unit = self.open = self._new_unit()
        unit.bodies += bodies
        unit.state = self.state = state
        self.records += len(bodies)
        for body in bodies:
            self._size += len(body)
        if len(unit.bodies) >= UNIT_RECORDS:
            self.is_full = True
        return unit

    def _new_unit(self) -> Unit:
        # Two of them serve for a life: what lives through a flush is looked at by the collector.
        unit, self._spare = self._spare, None
        return Unit(self.key) if unit is None else unit

    def _owe(self, answer: Answer) -> Answer | None:
        """Hold an answer back while what it was decided on is not committed."""
        last = self.open or self.flight
        if last is None or (answer.asker is None and not answer.tells):
            return answer
        if last is self.flight and len(last.answers) >= UNIT_RECORDS:
            last = self.open = self._new_unit()  # a disk that hangs gathers no more
            last.state = self.state
        self._hold(last, answer)
        return None

    def _hold(self, unit: Unit, answer: Answer) -> None:
        unit.answers.append(answer)
        if len(unit.answers) >= UNIT_RECORDS and unit is self.open:
            self.is_full = True

    # --- units out --------------------------------------------------------------------------------

    def submit(self) -> Unit | None:
        """Return the unit to write now, if there is one and none is in flight."""
        unit = self.open
        if unit is None or self.flight is not None:
            return None
        if self.records - self._since >= self._every or self._size >= self._most:
            self._take_snapshot(unit)
        unit.fence, unit.expected = self._head, self._units
        self._units += 1
        trail = self._trail
        trail.add(unit.bodies, unit.rows)
        unit.bodies.clear()
        self._head = trail.seal(self._units, self._snapshot, self._replies.last)
        unit.rows.append(self._head)
        self.flight, self.open, self.is_full = unit, None, False
        return unit

    def _take_snapshot(self, unit: Unit) -> None:
        self._since, self._size = self.records, 0
        try:
            row = SnapshotRow(self.key, self.records, encode_value(unit.state, "state"))
            unit.rows.append(self._seal(snapshot_key(self.key), row))
        except (ValueRefused, TooLarge) as error:
            self.snapshot_error = error  # the history is complete without it
        else:
            self._snapshot, self.snapshot_error = self.records, None

    def land(self) -> list[Answer]:
        """Make the unit in flight visible: it is durable. Return what is owed now."""
        unit, self.flight = self.flight, None
        assert unit is not None
        self.committed = unit.state
        for known in unit.replies or ():
            known.unit = None
        return unit.answers

    def keep(self, unit: Unit) -> None:
        """Use a unit again that has landed, and whose answers are all told."""
        unit.clear()
        self._spare = unit

    def drop_open(self) -> list[Answer]:
        """Drop the open unit, which was never submitted; return the answers that will not come."""
        unit, self.open, self.is_full = self.open, None, False
        return [] if unit is None else unit.answers

    def lose(self) -> list[Answer]:
        """Drop both units: nobody knows of the one in flight. Return the answers of both.

        What is left may not go on: a new life begins from what the journal holds.
        """
        unit, self.flight = self.flight, None
        lost = [] if unit is None else unit.answers
        return [*lost, *self.drop_open()]


def _checked(decision: Any, decide: Decide) -> Any:
    if isinstance(decision, (Decision, Reject)):
        return cast("Any", decision)
    raise TypeError(
        f"{decide.__qualname__} returned {decision!r:.80}; it must return a Decision or a Reject"
    )

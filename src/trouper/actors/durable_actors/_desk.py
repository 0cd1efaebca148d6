"""The desk of one durable actor: takes its mail, hands units to the store, releases what is owed.

A thin shell around `Units`. One call of `step` is one pass; no task waits for a commit: the courier
of its home fetches the unit, and tells the desk of the verdict. A request that finds no mail before
it is decided on in the task that asks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, final

import trio

from ...errors import (
    ActorStopped,
    FenceMoved,
    MailboxFull,
    NotHandled,
    OutcomeUnknown,
    Reject,
    StoreFull,
)
from ...mailbox import DRAINING, RUNNING, Ask, Stepper, bare, move_in
from ...supervision import Exit
from .._accounting import crash, turn_failed
from .._dead_letters import DeadLetter
from .._handlers import Behaviour
from ._decision import Tell
from ._recovery import recover
from ._rules import Limits, Rules
from ._unit import Answer, Unit, Units

if TYPE_CHECKING:
    from ._ref import DurableRef

log = logging.getLogger("trouper.actors")


@final
class Desk(Stepper):
    """One life of a durable actor. To the life-cycle it is what an `Actor` instance is."""

    __slots__ = (
        "__behaviour__",
        "_landed",
        "_owed",
        "_rules",
        "has_called",
        "is_timed",
        "ref",
        "since",
        "units",
    )

    def __init__(self, ref: DurableRef, rules: Rules) -> None:
        super().__init__(ref.dispatcher)
        self.__behaviour__ = Behaviour(rules.table, True, True, False)
        self.ref = ref
        self.units: Units | None = None  # until it is recovered
        self.since = 0.0  # idle since
        self.is_timed = False  # its idle time is watched
        self.has_called = False  # the courier will come for a unit
        self._rules = rules
        self._owed: list[tuple[Answer, Any]] = []  # of `take_now`, to be told by a pass
        self._landed: trio.Event | None = None  # set at the next landing, if somebody waits

    @property
    def name(self) -> str:
        """Return what schedules call it."""
        return str(self.ref.label)

    # --- life -------------------------------------------------------------------------------------

    async def started(self, ctx: object) -> None:
        """Recover, before the first message."""
        ref, rules = self.ref, self._rules
        actor = ref.home_class()
        actor.key = ref.key
        home = ref.home
        start = await recover(home.store, rules, actor, ref.key)
        self.units = ref.units_type(rules, actor, ref.key, start, home.places, home.store)

    async def stopping(self, ctx: object, why: Exit) -> None:
        """See what was decided into the journal; a kill drops what was not handed over yet."""
        units = self.units
        if units is None:
            return
        try:
            while True:
                life = self.ref.need_life()
                is_killed = "killed" in (why.kind, life.stopping.kind if life.stopping else "")
                if is_killed:
                    self._refuse(units.drop_open(), "killed")
                if units.is_idle:
                    return
                self.ref.home.courier.call(self)
                self._landed = trio.Event()
                await self._landed.wait()
        finally:  # the budget may be spent, and the disk may hang
            self._unknown(units.lose(), None)
            self.units = None

    @property
    def limits(self) -> Limits:
        """The limits of its class."""
        return self._rules.limits

    @property
    def is_busy(self) -> bool:
        """Whether it has mail, or something under way, or is no desk to be left."""
        ref, units = self.ref, self.units
        return bool(
            ref.state != RUNNING
            or ref.queue
            or ref.senders
            or self._owed
            or units is None
            or not units.is_idle
        )

    # --- one pass ---------------------------------------------------------------------------------

    def step(self) -> int:
        """Take mail, and leave a unit of it to be written. Called by a worker only."""
        ref, units = self.ref, self.units
        worth = 0
        try:
            if self._owed:
                owed, self._owed = self._owed, []
                worth = len(owed)
                for answer, message in owed:
                    self._release(answer, message)
            if units is not None and ref.target is self:
                if ref.state <= DRAINING and ref.queue and not units.is_full:
                    worth += self._take(units)
                self._go_on(units)
        except BaseException as bug:
            ref.system.fail(bug)
        if ref.waiters and (ref.state > DRAINING or not ref.queue):
            ref.pass_over()
        return worth or 1

    def take_now(self, ask: Ask) -> bool:
        """Decide on a request in the task that asks; False if it has to queue.

        A decision is never suspended, so that it needs no worker: what it costs to queue it, to
        find the desk on `ready` and to take it up again is half of what it costs to decide. Its
        answer comes after the flush as any does, or by a pass if there is nothing to be flushed.
        """
        ref, units = self.ref, self.units
        if units is None or units.is_full or ref.senders or not self.dispatcher.direct:
            return False
        ref.processed += 1
        message = ask.message
        try:
            answer = units.take(ask, message, ref.table[message.__class__][2])
        except BaseException as raised:
            turn_failed(ref, ask, raised)
            return True
        if answer is not None:
            self._owed.append((answer, message))
            self.dispatcher.enlist(self)
        elif units.flight is None and not self.has_called:
            ref.home.courier.call(self)
        return True

    def land(self, unit: Unit, now: float) -> None:
        """Hear what became of a unit. Called by the courier, never by anybody else."""
        ref, units = self.ref, self.units
        if units is None or units.flight is not unit:
            return  # given up: this life ended before its verdict came
        try:
            if unit.error is not None:
                self._lost(units, unit.error)
            else:
                for answer in units.land():
                    asker, value, error, tells = answer
                    if error is None and not tells and asker is not None:  # as most of them are
                        if not asker.settle(value):
                            self.dispatcher.late += 1
                    else:
                        self._release(answer, None)
                units.keep(unit)
            if self._landed is not None:
                self._landed.set()
                self._landed = None
            if ref.target is not self or self.units is not units:
                return
            if ref.state == RUNNING and ref.queue is None and units.open is None:
                self.since = now  # nothing to go on with: what `_go_on` would find out
                if not self.is_timed:
                    ref.home.idle(self)
            else:
                self._go_on(units, now)
        except BaseException as bug:
            ref.system.fail(bug)

    def _take(self, units: Units) -> int:
        """Decide on what is there, at most a pass of it; return how much that was."""
        ref = self.ref
        q, table = ref.queue, ref.table
        n: int = self.dispatcher.turns
        assert q is not None
        if len(q) > ref.high_water:
            ref.high_water = len(q)
        left = n
        while q and left and not units.is_full:
            left -= 1
            e = q.popleft()
            if ref.senders:
                move_in(ref)
            asker: Ask | None = None
            message = e
            if e.__class__ is Ask:
                if e.done:
                    continue
                asker, message = e, e.message
            try:
                answer = units.take(asker, message, table[message.__class__][2])
            except BaseException as raised:
                turn_failed(ref, e, raised)
                break
            if answer is not None:
                self._release(answer, message)
        ref.processed += n - left
        return n - left

    def _go_on(self, units: Units, now: float | None = None) -> None:
        """Let what is decided be written once the mail is; stand on `ready` while there is some."""
        ref = self.ref
        if ref.state > DRAINING:
            return
        queue = ref.queue
        if units.open is not None and units.flight is None and (units.is_full or not queue):
            ref.home.courier.call(self)
        if queue:
            if not units.is_full:
                self.dispatcher.enlist(self)
        elif ref.state == RUNNING:
            if queue is not None:
                self.dispatcher.spare.append(queue)
                ref.queue = None
            if units.flight is None and units.open is None:
                self.since = trio.current_time() if now is None else now
                if not self.is_timed:
                    ref.home.idle(self)

    # --- units ------------------------------------------------------------------------------------

    def launch(self) -> Unit | None:
        """Give the courier the unit to be written, if there is one."""
        units = self.units
        unit = None if units is None else units.submit()
        if units is not None and unit is not None:
            unit.desk = self
            if units.snapshot_error is not None:
                self._complain(units)
        return unit

    def _complain(self, units: Units) -> None:
        log.error(
            "%s: its state cannot be kept in a snapshot, so recovery reads ever more records: %s",
            self.ref.path,
            units.snapshot_error,
        )
        units.snapshot_error = None

    def _lost(self, units: Units, error: BaseException) -> None:
        """Drop both units: memory is never ahead of the disk. A new life reads the journal.

        Where the store says that nothing was written it still serves, and the actor recovers from
        it at once. A store that is lost serves nobody: it has to be opened again, by a new system.
        """
        self._unknown(units.lose(), error)
        self.units = None
        ref = self.ref
        if ref.state == RUNNING and isinstance(error, FenceMoved | StoreFull):
            ref.home.recover(ref, error)
            return
        if not isinstance(error, FenceMoved | StoreFull):
            ref.system.fail(error)
        crash(ref, error)

    # --- what is owed -----------------------------------------------------------------------------

    def _release(self, answer: Answer, message: Any) -> None:
        asker, error = answer.asker, answer.error
        if asker is not None:
            if error is not None and error.__traceback__ is not None:
                error = error.again().with_traceback(None)  # a rule may keep one for all
            if not (asker.settle(answer.value) if error is None else asker.fail(error)):
                self.dispatcher.late += 1
        elif error is not None:
            if isinstance(error, Reject):
                name = type(bare(message)).__qualname__
                log.info("%s rejected %s: %s", self.ref.path, name, error)
            else:
                self.ref.not_taken(message, f"refused: {error}")
        for tell in answer.tells:
            self._tell(tell)

    def _tell(self, tell: Tell[Any]) -> None:
        try:
            tell.to.tell(tell.message)
        except (MailboxFull, NotHandled) as refused:  # it cannot be sent again: say so
            ref = self.ref
            letter = DeadLetter(tell.message, tell.to.path, ref.path, f"not told: {refused}")
            ref.system.dead_letters.add(letter)

    def _refuse(self, answers: list[Answer], how: str) -> None:
        path = self.ref.path
        for answer in answers:
            if answer.asker is not None:
                text = f"{path} was {how} before this was handed to the journal: it did not happen"
                answer.asker.fail(ActorStopped(text, target=path))

    def _unknown(self, answers: list[Answer], cause: BaseException | None) -> None:
        path = self.ref.path
        for answer in answers:
            if answer.asker is None:
                continue
            unknown = OutcomeUnknown(
                f"{path} could not write what it decided"
                f"{'' if cause is None else f' ({cause})'}; outcome unknown - read it again, or "
                "send the message again under its idempotency id",
                target=path,
            )
            unknown.__cause__ = cause
            answer.asker.fail(unknown)

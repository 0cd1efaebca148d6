"""The activation's actor: journals steps, drives the function, publishes the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import (
    CorruptRecord,
    FenceMoved,
    GroupError,
    ReplayMismatch,
    ShuttingDown,
    TooLarge,
    TrouperError,
    UnknownActivity,
)
from ...mailbox import News
from ...store import PLAIN, SealedRow, Shape
from .._writer import Plan, SingleWriter
from ..groups import (
    Combinator,
    Disposition,
    GroupRow,
    Opened,
    Outcome,
    decode_outcome,
    encode_outcome,
)
from ._driver import Driver, Ended, Stuck, Waiting
from ._history import History, Offer
from ._rows import TABLE, ActivationRow, StepRow, steps_prefix
from ._single import SingleStep
from ._turn import (
    SIMPLE,
    Blocked,
    Cancel,
    Command,
    Ranked,
    SignalCame,
    StepDue,
    StepEnded,
    StepFailed,
    Turn,
    head_of_run,
)

if TYPE_CHECKING:
    from ._service import Activations


class ActivationActor(SingleWriter[Command]):
    """One live activation. Facts are its rows; the coroutine is only a way to compute the next."""

    __slots__ = (
        "__weakref__",
        "_born",
        "_driver",
        "_fresh",
        "_gone",
        "_head",
        "_passed",
        "_result",
        "_sealed",
        "_service",
        "_step",
        "_told",
        "_watching",
        "key",
        "outcome",
        "row",
        "stuck",
    )

    def __init__(self, service: Activations, row: ActivationRow, *, fresh: bool) -> None:
        super().__init__(service.host.dispatcher, service.host.store, service.host.fail)
        self._service = service
        self.key = row.key
        self.row = row
        self._fresh = fresh  # the journal does not hold the row yet
        self._born: News | None = None  # for whoever waits until the journal holds it
        self._head = 0  # units of the run that are journaled, or on their way
        self._sealed: SealedRow | None = None  # its fence as the last unit leaves it, if at hand
        self._passed = False  # the cancel was delivered to the step it passed by
        self._driver: Driver | None = None
        self._result: Shape[Any] = PLAIN  # of the activity, known once its code is loaded
        self._step = SingleStep(service.host, self._step_news)
        self._watching: str = ""  # the group whose news we asked for
        self._gone = False  # not live any more: nothing is decided here
        # Whoever waits has his answer, or learns that none comes.
        self._told = self.dispatcher.news(self)
        self.outcome: Outcome | None = None
        self.stuck: Exception | None = None
        service.host.close_behind(self)

    @property
    def name(self) -> str:
        """Return what schedules call it."""
        return self._service.host.called(f"activation {self.key}")

    # -- waiting for it -------------------------------------------------------------------------

    async def wait(self) -> Outcome:
        """Wait for the end. Ending the wait changes nothing but the waiting.

        Raises:
            ShuttingDown: the system closed first; the activation goes on at the next open.
            UnknownActivity, NondeterministicAwait, ReplayMismatch, ...: it cannot go on here.
        """
        self.dispatcher.touch(self)
        await self._told.wait()
        if self.outcome is not None:
            return self.outcome
        if self.stuck is not None:
            raise self.stuck.again() if isinstance(self.stuck, TrouperError) else self.stuck
        raise ShuttingDown(
            f"the system closed while activation {self.key!r} was running; it resumes when the "
            "store is opened again",
            key=self.key,
        )

    async def recorded(self) -> None:
        """Wait until the journal holds it, or it left memory."""
        if self._fresh and not self._gone:
            if self._born is None:
                self._born = self.dispatcher.news(self)
            await self._born.wait()

    @property
    def phase(self) -> str:
        """Return its state in one word, for trees and listings."""
        if self.outcome is not None:
            return type(self.outcome).__name__.lower()
        if self.stuck is not None:
            return "unroutable" if isinstance(self.stuck, UnknownActivity) else "stuck"
        return "running"

    @property
    def waits_for(self) -> str:
        """Return what it waits for, for trees and listings."""
        waiting = self._driver.waiting if self._driver is not None else None
        return "" if waiting is None else waiting.title

    # -- the pass -------------------------------------------------------------------------------

    def plan(self, inbox: deque[Command]) -> Plan | None:
        """Apply what ended, drive the function, and decide the unit of this pass."""
        commands = list(inbox)
        inbox.clear()
        if not commands or self.outcome is not None or self.stuck is not None or self._gone:
            return None
        turn = Turn(self.row, self._head, fresh=self._fresh)
        try:
            self._take(commands, turn)
            self._drive(turn)
        except (UnknownActivity, GroupError, CorruptRecord, FenceMoved) as error:
            turn.stuck = error
        if turn.is_simple and not turn.steps:
            if turn.stuck is not None:
                self._park(turn.stuck)
            elif turn.wait is not None:
                self._step.wait(turn.wait)  # as recorded by an earlier process
            return None
        recorded = self._driver.history.steps if self._driver is not None else {}
        unit = turn.unit(self._service.host, recorded)
        fence, self._sealed = self._sealed, None
        if turn.is_simple and SIMPLE.issuperset(map(type, commands)):
            sealed = turn.seal(self._service.host.store, fence, unit)
            if sealed is not None:
                self._sealed = sealed.after
                return Plan(sealed, lambda _: self._landed(turn, None, ()), self._refused)
        return Plan(unit, lambda result: self._landed(turn, *result), self._refused)

    def _refused(self, error: Exception) -> None:
        # A moved fence, a corrupt or an oversized row concern this activation; a lost store
        # concerns everybody.
        if isinstance(error, FenceMoved | GroupError | CorruptRecord | TooLarge):
            self._park(error)
        else:
            self._fail(error)
            self.evict()  # or it would offer the same unit for ever

    def _take(self, commands: Sequence[Command], turn: Turn) -> None:
        driver = self._driver or self._load(turn)
        for command in commands:
            match command:
                case StepEnded(number, outcome):
                    self._step.ended(number)
                    row = driver.history.steps[number]
                    if number == driver.cancel_step or row.outcome:
                        continue
                    row = row.settled(outcome, self._service.host.now())
                    driver.history.steps[number] = turn.steps[number] = row
                case SignalCame(number, take):
                    self._step.ended(number)
                    if number != driver.cancel_step:
                        self._step.take_signal(take, driver.history, number, turn)
                case StepFailed(number, due):
                    self._step.ended(number)
                    row = driver.history.steps[number]
                    if number == driver.cancel_step:
                        continue
                    row = row.postponed(due)
                    driver.history.steps[number] = turn.steps[number] = row
                case StepDue(number):
                    self._step.is_due(number)
                case Cancel() if turn.row.cancel_step < 0:
                    # Let the function reach its wait first; the cancel is seen at that step.
                    self._advance(driver, turn)
                    if driver.waiting is not None and turn.row.outcome == b"":
                        driver.cancel_step = driver.waiting.number
                        turn.row = replace(turn.row, cancel_step=driver.cancel_step)
                case Blocked(reason):
                    turn.stuck = reason
                case _:
                    pass

    def _load(self, turn: Turn) -> Driver:
        if not self._fresh:
            self._head = turn.head = head_of_run(self._service.host.store, self.row)
        activity = self._service.registry.find("activation", self.row.activity)
        if activity is None:
            raise UnknownActivity(
                f"activation {self.key!r} needs {self.row.activity!r}, which is not known here; "
                "import its module, or list it in open_system(activities=...)",
                key=self.key,
                activity=self.row.activity,
            )
        host = self._service.host
        rows: list[StepRow] = []
        if not self._fresh:
            rows = [r for _, r in host.store.scan(TABLE, steps_prefix(self.row.scope), StepRow)]
        try:
            args, kwargs = activity.decode_call(self.row.arguments)
        except ReplayMismatch as error:
            raise ReplayMismatch(f"activation {self.key!r}: {error}", field=error.field) from error
        self._result = activity.shapes.result
        self._driver = Driver(
            activity.fn,  # type: ignore[attr-defined]
            self.key,
            self.row.scope,
            args,
            kwargs,
            history=History(rows, host.group),
            started_at=self.row.created_at,
            history_limit=self._service.history_limit,
        )
        self._driver.cancel_step = self.row.cancel_step
        return self._driver

    def _drive(self, turn: Turn) -> None:
        driver = self._driver
        assert driver is not None
        self._advance(driver, turn)
        waiting = driver.waiting
        if turn.row.outcome or turn.stuck is not None or waiting is None:
            return
        if waiting.group is not None:
            host = self._service.host
            if self._watching != waiting.key:
                turn.open = (waiting, host.resolve_for_open(waiting.group))
            elif (stuck := host.group(waiting.key).stuck) is not None:
                turn.stuck = stuck
        elif self._step.number != waiting.number:
            recorded = driver.history.steps.get(waiting.number)
            self._step.decide(self.row.scope, waiting, recorded, turn)
            driver.history.steps |= turn.steps

    def _advance(self, driver: Driver, turn: Turn) -> None:
        if turn.row.outcome or turn.stuck is not None:
            return
        match driver.advance():
            case Ended(outcome):
                turn.row = replace(turn.row, outcome=encode_outcome(outcome, self._result))
            case Stuck(error):
                turn.stuck = error
            case Waiting():
                pass
        for step in driver.decided:
            self._decide_close(driver, step, turn)
        driver.decided.clear()
        if turn.row.outcome and not self._service.keep_groups:
            turn.unpassed = driver.history.unpassed()
        self._passed_by(driver, turn)

    def _decide_close(self, driver: Driver, step: Offer, turn: Turn) -> None:
        # The caller's interest ends with the answer; losers follow the declared word, or end by
        # the cancel that was seen here.
        assert step.group is not None
        if self._watching == step.key:
            self._service.unwatch(step.key, self._news)
            self._watching = ""
        history = driver.history
        if history.is_passed(step.number):
            return  # the close rode in the unit that said so, and the group may be gone
        cancelled = step.number == turn.row.cancel_step
        row = history.passed(step.number, cancelled=cancelled)
        if row is not None:
            turn.steps[step.number] = row
        host = self._service.host
        actor = host.group(step.key)
        asked = Disposition.CANCEL if cancelled else Disposition(actor.row.effective)
        past = row is not None and not self._service.keep_groups
        unread = {} if actor.row.closed else history.unread_signals(step)
        if unread:
            turn.unread.append((step.key, unread))
        if not actor.row.closed or asked != actor.row.effective or row is not None:
            turn.close.append((step.key, actor.row.closes, asked, past))
        else:
            host.forget_settled(actor)

    def _passed_by(self, driver: Driver, turn: Turn) -> None:
        # Once per life in memory: a crash may have come between the journaled cancel and its
        # delivery.
        row = driver.history.steps.get(turn.row.cancel_step)
        if self._passed or row is None or row.outcome or row.combinator != Combinator.ONE:
            return
        if driver.waiting is not None and driver.waiting.number == row.number:
            return
        self._passed = True
        turn.stop_step = row.number
        turn.cancel_child = row.key

    # -- what is durable ------------------------------------------------------------------------

    def _landed(self, turn: Turn, opened: Opened | None, closed: Sequence[GroupRow]) -> None:
        self._fresh = False
        if self._born is not None:
            self._born.set()
        self.row, self._head = turn.row, turn.head + 1
        host = self._service.host
        for row in turn.steps.values():
            if self._driver is not None:
                self._driver.history.steps.setdefault(row.number, row)
        for group in closed:
            host.closed(group)
            self._service.finish_losers(group)
        for _, waits in turn.unread:
            for name in waits.values():
                host.signalled(self.key, name)
        if not self._step.cancel(turn.stop_step) and turn.cancel_child:
            self._service.cancel(turn.cancel_child)
        if opened is not None and turn.open is not None:
            step, runners = turn.open
            self._watching = step.key
            host.adopt(opened, runners).watchers.append(self._news)
            self.post(Ranked())  # ranks may be there already
        if turn.start is not None:
            self._step.start(*turn.start)
        elif turn.wait is not None:
            self._step.wait(turn.wait)
        if turn.row.ended:
            self._finish(decode_outcome(turn.row.outcome))
        elif turn.stuck is not None:
            self._park(turn.stuck)

    def _news(self) -> None:
        self.post(Ranked())

    def _step_news(self, command: Command) -> None:
        if not self._gone:
            self.post_last(command)

    # -- the end --------------------------------------------------------------------------------

    def _finish(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._driver = None
        self._leave()

    def _park(self, error: Exception) -> None:
        self.stuck = error
        self._service.parked(self, error)
        self.evict()

    def dismiss(self) -> None:
        """Tell whoever waits that the system closes; turns go on while effects have their grace."""
        self._told.set()

    def evict(self) -> None:
        """Leave memory; what is journaled stays, and the next open resumes it."""
        if self._driver is not None:
            self._driver.evict()
            self._driver = None
        self._leave()

    def _leave(self) -> None:
        if self._watching:
            self._service.unwatch(self._watching, self._news)
            self._watching = ""
        self._gone = True
        if self._born is not None:
            self._born.set()
        self._step.leave()
        self._told.set()
        self._service.left(self)

"""A step that is one call: its attempts in the host, and the waits between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..groups import (
    Completed,
    EffectContext,
    EffectEnvelope,
    EffectHost,
    Outcome,
    Retry,
    Runner,
    SignalTake,
    TimerRunner,
    due_of,
    encode_outcome,
    no_executor,
    oldest,
)
from ._history import History, Offer
from ._rows import StepRow
from ._turn import Blocked, Command, SignalCame, StepDue, StepEnded, StepFailed, Turn


class SingleStep:
    """The step that an activation waits for, while it runs or waits here.

    A step that failed before waits until its next attempt is due: an attempt at nothing, which a
    closing system lets go of, and which a cancel ends.
    """

    __slots__ = ("_context", "_due", "_host", "_is_waiting", "_post", "number")

    def __init__(self, host: EffectHost, post: Callable[[Command], None]) -> None:
        self._host = host
        self._post = post
        self._context: EffectContext | None = None
        self._is_waiting = False
        self._due = -1  # the step whose wait is over
        self.number = -1  # the step that runs or waits here

    def decide(self, scope: str, offered: Offer, recorded: StepRow | None, turn: Turn) -> None:
        """Decide how the step goes on: with an attempt, with a wait, or not here."""
        envelope = offered.envelope
        assert envelope is not None
        if recorded is not None and recorded.failures and self._due != recorded.number:
            turn.wait = recorded
            return
        self._due = -1
        runner = self._host.resolve(envelope)
        if runner is None:
            turn.stuck = no_executor(envelope)
            return
        if recorded is None:
            row = new_row(scope, offered, envelope, due_of(envelope, self._host.now()))
        else:
            row = recorded.started()
        turn.steps[row.number] = row
        turn.start = (row, runner)

    def start(self, row: StepRow, runner: Runner) -> None:
        """Run an attempt that is journaled."""
        context = self._enter(row, waits=False)
        failed = partial(self._failed, row.number)
        self._host.attempt(runner, context, partial(self._over, row.number, context), failed)

    def wait(self, row: StepRow) -> None:
        """Wait until the next attempt is due."""
        context = self._enter(row, waits=True)
        waited = partial(self._waited, row.number, context)
        self._host.attempt(TimerRunner(self._host), context, waited)

    def is_due(self, number: int) -> None:
        """Take note that a wait is over."""
        if self.number == number:
            self.number, self._due = -1, number

    def ended(self, number: int) -> None:
        """Take note that an attempt of the step is over."""
        if self.number == number:
            self.number = -1

    def take_signal(self, take: SignalTake, history: History, number: int, turn: Turn) -> None:
        """Take the oldest signal for the step, in the unit of this turn.

        When another wait was faster, the step stays without an end, and goes on waiting.
        """
        found = oldest(self._host.store, take.address, take.name)
        if found is None:
            return
        row = history.steps[number].settled(found.outcome, self._host.now())
        history.steps[number] = turn.steps[number] = row
        turn.taken = found

    def cancel(self, number: int) -> bool:
        """Cancel the step, if it is this one."""
        if number < 0 or self.number != number or self._context is None:
            return False
        self._host.dispatcher.touch(self._context)
        self._context.cancel()
        self.number = -1
        return True

    def leave(self) -> None:
        """Let go of a wait; an attempt goes on, for its host to end."""
        if self._is_waiting and self._context is not None:
            self._host.dispatcher.touch(self._context)
            self._context.interrupt()

    def _enter(self, row: StepRow, *, waits: bool) -> EffectContext:
        self.number, self._is_waiting = row.number, waits
        self._context = EffectContext(row.key, row.attempt, row.due, row.failures)
        return self._context

    def _over(
        self, number: int, context: EffectContext, outcome: Outcome | SignalTake | None
    ) -> None:
        if isinstance(outcome, SignalTake):
            self._post(SignalCame(number, outcome))
        elif outcome is not None:
            self._post(StepEnded(number, encode_outcome(outcome)))
        elif context.stuck is not None:
            self._post(Blocked(context.stuck))

    def _failed(self, number: int, retry: Retry) -> None:
        self._post(StepFailed(number, self._host.now() + retry.after))

    def _waited(
        self, number: int, context: EffectContext, outcome: Outcome | SignalTake | None
    ) -> None:
        if isinstance(outcome, Completed):
            self._post(StepDue(number))
        else:
            self._over(number, context, outcome)


def new_row(scope: str, step: Offer, envelope: EffectEnvelope, due: float) -> StepRow:
    """Build the row of a step of one call, with the start of its first attempt."""
    return StepRow(
        scope=scope,
        number=step.number,
        combinator=step.combinator.value,
        key=step.key,
        fingerprint=step.fingerprint,
        envelope=envelope.encoded(),
        due=due,
        attempt=1,
        outcome=b"",
        settled_at=0.0,
    )

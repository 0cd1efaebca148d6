"""The children that run on a host: attempt after attempt, and the waits between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ._actor import GroupActor, RunningChild
from ._attempts import HostTasks
from ._claims import ClaimKeeper
from ._envelope import EffectEnvelope
from ._ledger import held
from ._outcome import Cancelled, Completed, Outcome, encode_outcome
from ._retries import Retry
from ._rows import ChildRow
from ._runner import EffectContext, Runner, RunnerResolver, no_executor
from ._signal_wait import SignalRunner
from ._signals import SignalTake
from ._timer import Clock, TimerRunner


class Children:
    """Runs claimed children until each has its terminal, its claim is lost, or the host closes.

    A child that failed before waits until its next attempt is due. The wait is an attempt at
    nothing: it holds the claim, a closing host lets go of it, and a cancel ends it as cancelled.
    """

    def __init__(
        self, tasks: HostTasks, claims: ClaimKeeper, clock: Clock, resolve: RunnerResolver
    ) -> None:
        self._tasks = tasks
        self._claims = claims
        self._clock = clock
        self._resolve = resolve

    def run(self, actor: GroupActor, row: ChildRow, runner: Runner) -> None:
        """Run a child that was claimed here."""
        is_wait = isinstance(runner, SignalRunner)
        child = RunningChild(row.position, held(row), _context(row), is_wait=is_wait)
        actor.running[row.position] = child
        self._claims.needed()
        if row.failures:  # the claim did not start an attempt, and another runner may be due then
            self._wait(actor, child, row)
        else:
            self._begin(actor, child, runner)

    def _attempt(
        self, actor: GroupActor, child: RunningChild, row: ChildRow, runner: Runner
    ) -> None:
        child.context = _context(row)
        self._begin(actor, child, runner)

    def _begin(self, actor: GroupActor, child: RunningChild, runner: Runner) -> None:
        over = partial(self._over, actor, child)
        self._tasks.attempt(runner, child.context, over, partial(self._failed, actor, child))

    def _over(
        self, actor: GroupActor, child: RunningChild, outcome: Outcome | SignalTake | None
    ) -> None:
        if outcome is None:
            actor.gave_up(child)
        elif isinstance(outcome, SignalTake):
            actor.signalled(child, outcome, partial(self._wait_again, actor, child))
        else:
            actor.arrived(child, encode_outcome(outcome))

    def _wait_again(self, actor: GroupActor, child: RunningChild) -> None:
        """Go on with a wait whose signal another one took."""
        row = actor.unsettled[child.position]
        runner = self._resolve(EffectEnvelope.decoded(row.envelope))
        if runner is None or self._tasks.closing:
            actor.gave_up(child)
        else:
            self._attempt(actor, child, row, runner)

    def _failed(self, actor: GroupActor, child: RunningChild, retry: Retry) -> None:
        actor.lapsed(child, self._clock.now() + retry.after, partial(self._wait, actor, child))

    def _wait(self, actor: GroupActor, child: RunningChild, row: ChildRow) -> None:
        if self._tasks.closing:
            actor.gave_up(child)
            return
        child.context = _context(row)
        due = partial(self._due, actor, child, row)
        self._tasks.attempt(TimerRunner(self._clock), child.context, due)
        if actor.is_cancelled:  # by a close that was on its way together with the failure
            child.context.cancel()

    def _due(
        self,
        actor: GroupActor,
        child: RunningChild,
        row: ChildRow,
        outcome: Outcome | SignalTake | None,
    ) -> None:
        if not isinstance(outcome, Completed):
            self._over(actor, child, outcome)
            return
        envelope = EffectEnvelope.decoded(row.envelope)
        runner = self._resolve(envelope)
        if runner is None:
            child.context.stuck = no_executor(envelope)
            actor.gave_up(child)
        else:
            actor.due(child, self._start(actor, child, runner))

    def _start(
        self, actor: GroupActor, child: RunningChild, runner: Runner
    ) -> Callable[[ChildRow], None]:
        def start(row: ChildRow) -> None:
            if actor.is_cancelled:
                self._over(actor, child, Cancelled())
            elif self._tasks.closing:
                actor.gave_up(child)
            else:
                self._attempt(actor, child, row, runner)

        return start


def _context(row: ChildRow) -> EffectContext:
    return EffectContext(row.replay_key, row.attempt, row.due, row.failures)

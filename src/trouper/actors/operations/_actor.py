"""The operation's actor: one per key, owner of the attempts, sole writer of the record."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

import trio

from ..._holds import run_in_thread
from ..._ids import Incarnation
from ...errors import FenceMoved, OperationForgotten, OutcomeUnknown
from ...mailbox import News
from ...store import Tx
from .._writer import Plan, SingleWriter
from ..groups import (
    INSIDE,
    Completed,
    EffectContext,
    EffectHost,
    ErrorRecord,
    Failed,
    Outcome,
    SignalTake,
    decode_outcome,
    encode_outcome,
    result_shape,
)
from ._lattice import OBSERVATIONS, Observation, OperationState, OperationStatus, refuse, settle
from ._rows import NOBODY, TABLE, OperationRow, operation_key

LOST_ANSWER: tuple[type[Exception], ...] = (
    OSError,
    TimeoutError,
    trio.TooSlowError,
    OutcomeUnknown,
)
"""Errors that say only that the answer was lost: the effect may have happened."""

AttemptFn: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask for an attempt, unless one runs or the operation is settled."""

    fn: AttemptFn
    args: tuple[Any, ...]
    unknown: tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class Observe:
    """Merge an observation; ``token`` is the attempt's claim, 0 for a caller's own observation."""

    token: int
    observation: Observation

    def is_late(self, row: OperationRow, owner: Incarnation) -> bool:
        """Tell whether it comes from an attempt whose claim was taken over."""
        return self.token > 0 and (row.owner, row.token) != (owner, self.token)


@dataclass(frozen=True, slots=True)
class Forget:
    """Take the record out of the journal, unless an attempt is live."""


Command: TypeAlias = Claim | Observe | Forget


class OperationActor(SingleWriter[Command]):
    """One operation in memory. An attempt belongs to it, never to a caller."""

    __slots__ = (
        "__weakref__",
        "_asked_at",
        "_expires",
        "_keep",
        "_live",
        "_news",
        "_now",
        "failure",
        "forgotten",
        "host",
        "key",
        "row",
    )

    def __init__(self, host: EffectHost, row: OperationRow, keep: int = OBSERVATIONS) -> None:
        super().__init__(host.dispatcher, host.store, host.fail)
        self.host = host
        self._keep = keep
        self._news = self.dispatcher.news(self)
        # Of the unit that is in flight: the store runs it, where no clock can be read.
        self._asked_at = self._expires = self._now = 0.0
        self._live = 0  # token of the attempt that runs here; 0 when none does
        self.key = row.key
        self.row = row
        self.failure: FenceMoved | None = None  # why the last claim was refused
        self.forgotten = False  # the journal holds the record no more: nothing is decided here
        host.close_behind(self)

    @property
    def name(self) -> str:
        """Return what schedules call it."""
        return self.host.called(f"operation {self.key}")

    @property
    def live(self) -> bool:
        """Tell whether an attempt runs, or is being claimed."""
        return bool(self._live) or self.pending

    @property
    def is_open(self) -> bool:
        """Tell whether the system that it lives in takes work."""
        return self.host.store.is_open and not self.host.is_dead(self.host.owner)

    def touch(self) -> None:
        """Say that somebody looks at it from outside."""
        self.dispatcher.touch(self)

    @property
    def record(self) -> OperationState:
        """Return the committed record."""
        return self.row.state()

    async def changed(self) -> None:
        """Wait for the next committed change."""
        await self._news.wait()

    def renewal(self, tx: Tx, expires: float) -> None:
        """Extend the claim of the attempt that runs here, if it still stands."""
        row = tx.get(TABLE, operation_key(self.key), OperationRow)
        if row is not None and self._live and row.is_held(self.host.owner, self._live):
            tx.put(TABLE, operation_key(self.key), replace(row, expires=expires))

    @property
    def attempts_here(self) -> bool:
        """Tell whether an attempt runs here."""
        return bool(self._live)

    @property
    def attempted_elsewhere(self) -> bool:
        """Tell whether another host attempts it, by the record that was committed last."""
        return _is_attempted(self.row, self.host, trio.current_time())

    async def ended_elsewhere(self, news: News) -> bool:
        """Wait for an attempt of another host; True when its claim is free, but for its end.

        False when it ended: with an answer, or having lost it. ``news`` is older than the look that
        found the attempt.
        """
        while True:
            with trio.move_on_at(self.row.expires):
                await news.wait()
            news = self.host.board.news("operation", self.key)
            row = self.host.store.get(TABLE, operation_key(self.key), OperationRow)
            if row is None:
                self.forgotten = True
                return False
            self.row = row
            if row.owner == NOBODY or row.state().status.terminal:
                return False
            if not self.attempted_elsewhere:
                return True

    def plan(self, inbox: deque[Command]) -> Plan | None:
        """Merge what was observed, and claim if somebody asks and nothing runs."""
        commands = list(inbox)
        inbox.clear()
        self._asked_at, self._now = trio.current_time(), self.host.now()
        if Forget() in commands and not self._live and not self.forgotten:
            # What was observed or asked for in this pass goes with the record, if that goes.
            others = [command for command in commands if not isinstance(command, Forget)]
            return Plan(self._forget, self._landed_forgotten, partial(self._kept, others))
        if self.forgotten:
            self._announce()
            return None
        observed = [command for command in commands if isinstance(command, Observe)]
        claims = [command for command in commands if isinstance(command, Claim)]
        claim = claims[0] if claims and not self._live else None
        if not observed and claim is None:
            self._announce()
            return None
        self._expires = 0.0 if claim is None else self.host.claim_until()
        return Plan(
            partial(self._unit, observed=observed, wants_claim=claim is not None),
            partial(self._landed, claim),
            self._refused,
        )

    def _unit(
        self, tx: Tx, *, observed: list[Observe], wants_claim: bool
    ) -> tuple[OperationRow, bool | FenceMoved]:
        row = tx.get(TABLE, operation_key(self.key), OperationRow)
        if row is None:
            raise OperationForgotten(
                f"operation {self.key!r} was forgotten by another system on this store",
                key=self.key,
            )
        state = row.state()
        for command in observed:
            late = command.is_late(row, self.host.owner)
            state = self._merged(state, command.observation, late=late)
            if command.token and not late:
                row = row.released()
        claimed: bool | FenceMoved = wants_claim and not state.status.terminal
        if claimed and _is_attempted(row, self.host, self._asked_at):
            claimed = self._fenced("retry when it ended")  # returned: what was observed counts
        elif claimed:
            state, row = self._claim(state, row)
        row = replace(row.with_state(state), changed_at=self._now)
        tx.put(TABLE, operation_key(self.key), row)
        return row, claimed

    def _merged(self, state: OperationState, seen: Observation, *, late: bool) -> OperationState:
        if not late:
            return settle(state, seen, keep=self._keep)
        return refuse(state, seen, keep=self._keep, why="late, its claim was taken over")

    def _claim(
        self, state: OperationState, row: OperationRow
    ) -> tuple[OperationState, OperationRow]:
        if row.owner != NOBODY:
            gone = Observation(row.token, OperationStatus.UNKNOWN, note="its owner is gone")
            state = settle(state, gone, keep=self._keep)
        row = row.claimed_by(self.host.owner, self._expires)
        running = Observation(row.token, OperationStatus.RUNNING, note="attempt started")
        return settle(state, running, keep=self._keep), row

    def _forget(self, tx: Tx) -> None:
        row = tx.get(TABLE, operation_key(self.key), OperationRow)
        if row is not None and _is_attempted(row, self.host, self._asked_at):
            raise self._fenced("forget it when that ended")
        tx.delete(TABLE, operation_key(self.key))

    def _kept(self, others: Sequence[Command], error: Exception) -> None:
        self._inbox.extendleft(reversed(others))
        self._refused(error)

    def _landed_forgotten(self, _: None) -> None:
        self.forgotten = True
        self.failure = None
        self._announce()

    def _landed(self, claim: Claim | None, result: tuple[OperationRow, bool | FenceMoved]) -> None:
        self.row, claimed = result
        self.failure = claimed if isinstance(claimed, FenceMoved) else None
        if claimed is True and claim is not None:
            self._live = self.row.token
            context = EffectContext(self.key, self.row.token)
            attempt = Attempt(claim, self.key)
            self.host.attempt(attempt, context, partial(self._over, self.row.token))
        self._announce()

    def _refused(self, error: Exception) -> None:
        if isinstance(error, OperationForgotten):
            self.forgotten = True
        elif isinstance(error, FenceMoved):
            self.failure = error
        else:
            self._fail(error)
        self._announce()

    def _over(self, token: int, outcome: Outcome | SignalTake | None) -> None:
        self._live = 0
        if outcome is None or isinstance(outcome, SignalTake):
            self._announce()  # the system closes: whoever comes next takes the claim over
            return
        encoded = encode_outcome(outcome)
        outcome = decode_outcome(encoded)  # a value that no journal carries is a failure now
        status = OperationStatus.COMPLETED
        if isinstance(outcome, Failed):
            status = OperationStatus.UNKNOWN if outcome.unknown else OperationStatus.FAILED
        note = outcome.error.message if isinstance(outcome, Failed) else ""
        encoded = encoded if status.terminal else b""
        self.post(Observe(token, Observation(token, status, encoded, note)))

    def _fenced(self, then: str) -> FenceMoved:
        return FenceMoved(
            f"operation {self.key!r} is attempted by another system on this store; {then}",
            key=self.key,
        )

    def _announce(self) -> None:
        self._news.set()
        self._news = self.dispatcher.news(self)
        self.host.board.tell("operation", self.key)


def _is_attempted(row: OperationRow, host: EffectHost, now: float) -> bool:
    """Tell whether another host on this store runs an attempt, as far as anybody knows.

    That it lets its lease run out permits a takeover; it proves nothing about the attempt.
    """
    if row.owner in (NOBODY, host.owner) or host.is_dead(row.owner):
        return False
    return row.expires > now


class Attempt:
    """Runs a caller's function once, under the operation's key."""

    __slots__ = ("_claim", "_key")
    releasable = False

    def __init__(self, claim: Claim, key: str) -> None:
        self._claim = claim
        self._key = key

    async def run(self, ctx: EffectContext) -> Outcome:
        """Run it. An error that only says that the answer was lost is unknown, no failure."""
        claim = self._claim
        INSIDE.set(f"operation {self._key}")
        try:
            if inspect.iscoroutinefunction(claim.fn):
                running: Awaitable[Any] = claim.fn(self._key, *claim.args)
                value = await running
            else:
                value = await run_in_thread(claim.fn, self._key, *claim.args)
            return Completed(result_shape(claim.fn).to_plain(value, "result"))
        except Exception as error:
            if not _has_lost(error, (*LOST_ANSWER, *claim.unknown)):
                raise
            return Failed(ErrorRecord.of(error), unknown=True)


def _has_lost(error: BaseException, lost: tuple[type[Exception], ...]) -> bool:
    """Tell whether an error says that an answer was lost, also from inside a nursery."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(_has_lost(inner, lost) for inner in group.exceptions)
    return isinstance(error, lost)

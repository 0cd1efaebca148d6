"""`Operation`: a caller's hold on one idempotency-keyed record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, cast, overload
from weakref import WeakValueDictionary

import trio

from ...errors import (
    OperationFailed,
    OperationForgotten,
    OperationMismatch,
    OutcomeUnknown,
    ScopeBusy,
    ShuttingDown,
)
from ...mailbox import Unborn
from ...store import Tx, encode, fingerprint
from .._key import require_key
from ..groups import (
    Completed,
    EffectHost,
    Failed,
    Renewal,
    decode_outcome,
    encode_outcome,
    result_shape,
)
from ._actor import Claim, Forget, Observe, OperationActor
from ._lattice import OBSERVATIONS, Observation, OperationState, OperationStatus
from ._rows import TABLE, OperationRow, operation_key

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def _require_timeout(timeout: object) -> None:
    if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
        raise ValueError(f"timeout must be 0 seconds or more, it is {timeout!r:.80}")


def _require_call(claim: Claim) -> None:
    """Raise TypeError for a call that cannot be: the caller's mistake, no answer of the key's."""
    if not callable(claim.fn):
        raise TypeError(f"an operation runs a function, not {claim.fn!r:.80}")
    try:
        signature = inspect.signature(claim.fn)
    except (TypeError, ValueError):  # a builtin that has none: the call itself will tell
        return
    try:
        signature.bind(None, *claim.args)
    except TypeError as error:
        name = getattr(claim.fn, "__qualname__", claim.fn.__class__.__qualname__)
        raise TypeError(f"{name}(key, ...): {error}") from None


class Operation:
    """A shared record under one key. Any number of callers may hold it at once."""

    def __init__(self, actor: OperationActor) -> None:
        self._actor = actor
        self.key = actor.key

    @property
    def record(self) -> OperationState:
        """Return the committed record: status, result and the log of observations."""
        self._actor.touch()
        return self._actor.record

    @property
    def status(self) -> OperationStatus:
        """Return the committed status."""
        return self.record.status

    @overload
    async def run(
        self,
        fn: Callable[[str, *Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        timeout: float | None = None,
        unknown: tuple[type[Exception], ...] = (),
    ) -> R: ...
    @overload
    async def run(
        self,
        fn: Callable[[str, *Ts], R],
        /,
        *args: *Ts,
        timeout: float | None = None,
        unknown: tuple[type[Exception], ...] = (),
    ) -> R: ...
    async def run(
        self,
        fn: Callable[[str, *Ts], Any],
        /,
        *args: *Ts,
        timeout: float | None = None,
        unknown: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Return the operation's result, running ``fn(key, *args)`` only if nobody has.

        Reads first: a completed record answers, a failed one raises, a live attempt is joined, be
        it that of another host on this store; one whose owner is dead, or let its lease run out, is
        taken over. The attempt belongs to the operation: a caller who goes away ends his waiting,
        never the attempt, which settles late and may still upgrade the record. An ``async def``
        runs on the loop, a plain ``def`` in a worker thread.

        Args:
            fn: Called with the operation's key, then ``args``.
            args: Further positional arguments.
            timeout: Seconds to wait. Out of time merges first and looks then: a record that is
                completed or failed answers, only otherwise the outcome is unknown.
            unknown: Error types that say only that the answer was lost.

        Raises:
            ValueRefused: the recorded result does not fit the annotation of ``fn``.
            OperationFailed: the record holds a committed failure; ``__cause__`` is what it was.
            OutcomeUnknown: the answer was lost. Calling again runs ``fn`` under the same key.
            ShuttingDown: the system has closed, and the record has no answer.
            AskCycle: this work is part of what it would wait for.
            TypeError: ``fn`` does not take these arguments; nothing was begun.
            ValueError: a timeout that is no number of seconds from 0.
        """
        _require_timeout(timeout)
        claim = Claim(fn, args, unknown)
        if timeout is None:
            return await self._run(claim)
        with trio.move_on_after(timeout):
            return await self._run(claim)
        seen = Observation(0, OperationStatus.UNKNOWN, note=f"a caller waited {timeout} s")
        await self._observe(seen)
        if self.status.terminal:
            return self._answer(claim)
        raise self._unknown(f"no answer within {timeout} s")

    async def confirm(self, value: Any, evidence: str) -> OperationState:
        """Merge durable evidence from elsewhere that the effect happened, and gave this value.

        For a webhook, or a reconciliation: it upgrades a record that is unknown, or failed, and a
        completed one keeps its result; another value is kept beside it as a conflict. Whoever waits
        for the operation gets the value.

        Args:
            value: The result; a plain value.
            evidence: Where it is from, for people.

        Raises:
            ValueRefused: a value or a text that the journal cannot carry.
            ShuttingDown: the system has closed.
        """
        encode(evidence)
        result = encode_outcome(Completed(value))
        outcome = decode_outcome(result)
        if isinstance(outcome, Failed):
            raise outcome.exception()
        await trio.lowlevel.checkpoint()
        self._require_known()
        self._require_open()
        note = f"confirmed: {evidence}"
        await self._observe(Observation(0, OperationStatus.COMPLETED, result, note))
        self._require_known()
        return self.record

    async def _observe(self, seen: Observation) -> None:
        actor = self._actor
        if not actor.is_open:
            return
        actor.post(Observe(0, seen))
        while actor.pending and actor.is_open:
            await actor.changed()

    async def _run(self, claim: Claim) -> Any:
        await trio.lowlevel.checkpoint()
        actor = self._actor
        actor.touch()
        self._require_known()
        if not self.status.terminal:
            self._require_open()
            _require_call(claim)
        with actor.host.waits.waiting(f"operation {self.key}"):
            is_open = True
            while is_open and not self.status.terminal:
                news = actor.host.board.news("operation", self.key)
                if not actor.attempts_here:
                    actor.post(claim)
                while actor.live and not self.status.terminal:
                    await actor.changed()
                self._require_known()
                is_open = actor.attempted_elsewhere and await actor.ended_elsewhere(news)
            self._require_known()
        if self.status.terminal:
            return self._answer(claim)
        seen = reversed(self.record.observations)
        why = next((o.note for o in seen if o.status is OperationStatus.UNKNOWN), "it was stopped")
        raise self._unknown(f"its last attempt lost the answer ({why})")

    def _require_known(self) -> None:
        if self._actor.forgotten:
            raise OperationForgotten(
                f"operation {self.key!r} was forgotten; open it again to start anew", key=self.key
            )

    def _require_open(self) -> None:
        if not self._actor.is_open:
            raise ShuttingDown(
                f"the system of operation {self.key!r} has closed; open its store again, and the "
                "operation from there",
                key=self.key,
            )

    def _answer(self, claim: Claim) -> Any:
        outcome = decode_outcome(self._actor.record.result)
        if isinstance(outcome, Completed):
            return result_shape(claim.fn).to_value(outcome.value, "result")
        failed = cast("Failed", outcome)
        raise OperationFailed(
            f"operation {self.key!r} is settled as failed: {failed.error.message}", key=self.key
        ) from failed.exception()

    def _unknown(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"operation {self.key!r}: {why}; outcome unknown - read it again, or run it again "
            "under this key, never under a new one",
            key=self.key,
        )


class Operations:
    """The operations of one system: one live actor per key.

    Args:
        host: Runs the attempts.
        observations: How many observations each record keeps, at least 1.
    """

    def __init__(self, host: EffectHost, *, observations: int = OBSERVATIONS) -> None:
        if observations < 1:
            raise ValueError(f"observations is at least 1, it is {observations!r}")
        self._host = host
        self._keep = observations
        # Lives as long as somebody holds the operation, or an attempt of it runs. Writer: `open`.
        self._actors: WeakValueDictionary[str, OperationActor] = WeakValueDictionary()
        host.renews(self._renewal)

    def _renewal(self) -> Renewal | None:
        attempted = [actor for actor in self._actors.values() if actor.attempts_here]
        if not attempted:
            return None

        def renew(tx: Tx, expires: float) -> None:
            for actor in attempted:
                actor.renewal(tx, expires)

        return renew

    async def open(self, key: str, request: Any) -> Operation:
        """Return the operation of that key, recording the request on first use.

        Raises:
            OperationMismatch: the key belongs to another request.
            ValueRefused: a key that is none, or a request that the journal cannot carry.
        """
        require_key(key, "an operation")
        asked = fingerprint("request/1", request)
        actor = self._in_memory(key)
        while actor is None or actor.forgotten:
            self._actors.pop(key, None)
            row = await self._host.store.commit(
                partial(_create, key=key, request=asked, now=self._host.now())
            )
            if self._host.store.get(TABLE, operation_key(key), OperationRow) is None:
                continue  # forgotten right behind it
            made = OperationActor(self._host, row, self._keep)
            actor = self._actors.setdefault(key, made)  # somebody may have been faster
            actor.touch()
        if actor.row.request != asked or actor.row.key != key:
            raise OperationMismatch(
                f"operation {key!r} was recorded for another request; a new one needs its own key",
                key=key,
                field="request",
                recorded=actor.row.request.hex(),
                offered=asked.hex(),
            )
        return Operation(actor)

    def _in_memory(self, key: str) -> OperationActor | None:
        actor, host = self._actors.get(key), self._host
        host.dispatcher.touch(actor or Unborn(host.called(f"operation {key}")))
        return actor

    def require_idle(self, key: str) -> None:
        """Refuse a key whose operation has a live attempt here.

        Raises:
            ScopeBusy: it has.
        """
        actor = self._in_memory(key)
        if actor is not None and actor.live and not actor.forgotten:
            raise _busy(key, "an attempt is live; wait for it")

    async def forget(self, key: str) -> None:
        """Take an operation out of the journal; whoever holds it is told at his next call.

        Raises:
            ScopeBusy: an attempt is live, here or in another system on this store.
        """
        self.require_idle(key)
        actor = self._in_memory(key)
        if actor is None or actor.forgotten:
            row = self._host.store.get(TABLE, operation_key(key), OperationRow)
            if row is None:
                return
            actor = self._actors[key] = OperationActor(self._host, row, self._keep)
        actor.post(Forget())
        while actor.pending:
            await actor.changed()
        if not actor.forgotten:
            raise _busy(key, actor.failure or "an attempt began; wait for it")
        if self._actors.get(key) is actor:
            del self._actors[key]


def _busy(key: str, why: object) -> ScopeBusy:
    return ScopeBusy(f"operation {key!r} cannot be forgotten: {why}", key=key)


def _create(tx: Tx, key: str, request: bytes, now: float) -> OperationRow:
    row = tx.get(TABLE, operation_key(key), OperationRow)
    if row is None:
        row = OperationRow.new(key, request, now)
        tx.put(TABLE, operation_key(key), row)
    return row

"""What a system does with durable work: activations, operations, signals, the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast

from ..errors import ShuttingDown
from .activations import Activation, ActivationHandle, Durable, send_signal
from .operations import Operation

if TYPE_CHECKING:
    from ..store import Store
    from ._durable import DurableSide
    from .groups import EffectHost

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class DurableVerbs:
    """The verbs of an `ActorSystem` that end in its journal."""

    _durable: DurableSide | None

    async def run(
        self,
        activity: Callable[[Activation, Unpack[Ts]], Awaitable[R]],
        /,
        *args: *Ts,
        key: str | None = None,
    ) -> R:
        """Start an activation, or join the one that has this key, and wait for its result.

        Ending the wait changes nothing but the waiting. A finished key returns its stored result.

        Args:
            activity: A function marked `durable`.
            args: Its arguments, after ``act``; values that the journal carries.
            key: Its identity, also across restarts; a fresh one by default.

        Raises:
            ActivationMismatch: The key belongs to another activity, or to other arguments.
            ActivationCancelled: It was cancelled.
            ShuttingDown: The system closed first; it resumes at the next open.
            TrouperError: What the activity raised, rebuilt from the journal.
        """
        return await self.start(activity, *args, key=key).result()

    def start(
        self,
        activity: Callable[[Activation, Unpack[Ts]], Awaitable[R]],
        /,
        *args: *Ts,
        key: str | None = None,
    ) -> ActivationHandle[R]:
        """Start or join an activation, like `run`, and return without waiting for it."""
        if not isinstance(activity, Durable):
            raise TypeError(f"{activity!r} is not durable; mark it with @durable")
        known = cast("Durable[..., R]", activity)
        return self._require_durable().activations.start(known, args, key)

    def cancel(self, key: str) -> None:
        """Ask an activation to end; its own turn decides, and journals it."""
        self._require_durable().activations.cancel(key)

    def status(self, key: str) -> str:
        """Return an activation's state in one word; ``unknown`` when the journal has none."""
        return self._require_durable().activations.status(key)

    async def signal(
        self,
        key: str,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of whoever sends
    ) -> None:
        """Send a signal to an activation, or to a scope of the host in which a group is open.

        Returns when it is in the journal, behind those of its name that came before, whether
        somebody waits for it yet or not. Each is taken by one wait, the oldest first. What nobody
        takes stays visible until the key is forgotten.

        Args:
            key: Of the activation, or the scope: the key that a combinator of the host was given.
            name: What the wait names.
            payload: What the wait gives; a plain value.
            id: Makes a repeat harmless: a second signal under one id is not kept.

        Raises:
            SignalRefused: Nobody could ever take it: the key is unknown or has ended; or the id
                belongs to another signal.
            SignalsFull: As many of its name as ``signal_limit`` allows wait there.
            ValueRefused, TooLarge: A name or a payload that the journal does not carry.
        """
        await send_signal(self._require_durable().activations, key, name, payload, id)

    async def forget(self, key: str) -> None:
        """Take the ended activation, the operation, or both, of this key out of the journal.

        With an activation goes all that belongs to it: its history, its groups and their
        tombstones, the children below it. The mark is atomic, the rest is swept beside other work;
        returns when no row is left, or when the system closes: the next one goes on. Then the key
        is new, and starting it is refused before. Nothing is ever forgotten by time. A key that
        the journal does not hold is fine.

        Raises:
            ScopeBusy: The activation or something below it has not ended, or its caller has not;
                or an attempt of the operation is live. Nothing was changed.
        """
        durable = self._require_durable()
        durable.activations.require_open(key)
        durable.operations.require_idle(key)
        await durable.activations.forget(key)
        await durable.operations.forget(key)

    async def operation(self, key: str, request: object) -> Operation:
        """Return the operation under an idempotency key, recording ``request`` on first use.

        Raises:
            OperationMismatch: The key belongs to another request.
        """
        return await self._require_durable().operations.open(key, request)

    @property
    def host(self) -> EffectHost:
        """The effect host: groups without a durable function around them."""
        return self._require_durable().host

    @property
    def store(self) -> Store:
        """The journal."""
        return self._require_durable().store

    def _require_durable(self) -> DurableSide:
        if self._durable is None:
            raise ShuttingDown("this system was opened without its durable side")
        return self._durable

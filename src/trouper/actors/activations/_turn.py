"""What one pass of an activation decided, and the unit that makes it durable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from ...errors import FenceMoved, TooLarge, ValueRefused
from ...store import SealedRow, SealedUnit, Store, Tx
from ..groups import (
    Disposition,
    EffectHost,
    GroupRow,
    Opened,
    Runner,
    SignalRow,
    SignalTake,
    close_group,
    give_back,
    remove,
)
from ._history import Offer
from ._rows import TABLE, ActivationRow, FenceRow, StepRow, activation_key, fence_key, step_key
from ._scope import begin, end


@dataclass(frozen=True, slots=True)
class Begin:
    """Start, or resume."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A single step came to its end."""

    number: int
    outcome: bytes


@dataclass(frozen=True, slots=True)
class SignalCame:
    """A signal is there that a single step waits for."""

    number: int
    take: SignalTake


@dataclass(frozen=True, slots=True)
class StepFailed:
    """An attempt of a single step failed, and the next one is due at an instant (UTC)."""

    number: int
    due: float


@dataclass(frozen=True, slots=True)
class StepDue:
    """The next attempt of a single step is due."""

    number: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """A group that is waited for has news."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody asks for the end."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """What is waited for cannot go on in this deployment."""

    reason: Exception


Command: TypeAlias = (
    Begin | StepEnded | SignalCame | StepFailed | StepDue | Ranked | Cancel | Blocked
)


SIMPLE: frozenset[type[Any]] = frozenset((Begin, StepEnded, StepFailed, StepDue))
"""Commands of which nothing but rows of steps may come, or else a turn that is not simple."""


class Turn:
    """What one pass decided: rows to write, groups to open and close, and the row after it."""

    def __init__(self, row: ActivationRow, head: int, *, fresh: bool) -> None:
        self.before = row
        self.row = row
        self.head = head  # units of the run before this one
        self.fresh = fresh  # the journal does not hold the run yet
        self.steps: dict[int, StepRow] = {}
        self.start: tuple[StepRow, Runner] | None = None
        self.wait: StepRow | None = None
        self.open: tuple[Offer, Mapping[int, Runner]] | None = None
        self.close: list[tuple[str, int, Disposition, bool]] = []
        self.taken: SignalRow | None = None  # by the single step
        self.unread: list[tuple[str, dict[int, str]]] = []  # waits for signals that lost, by group
        self.unpassed: list[str] = []  # groups whose answer nobody reads again, at the end
        self.stop_step = -1  # a running single step that a cancel passed by
        self.cancel_child = ""  # a child activation that a cancel passed by
        self.stuck: Exception | None = None

    @property
    def is_simple(self) -> bool:
        """Tell whether it has nothing to write but steps."""
        return self.row is self.before and not (self.fresh or self.open or self.close)

    def unit(
        self, host: EffectHost, recorded: Collection[int]
    ) -> Callable[[Tx], tuple[Opened | None, list[GroupRow]]]:
        """Return the unit: fence, steps, groups closed and opened, the row and its scope."""
        opening = None
        if self.open is not None:
            step, runners = self.open
            assert step.group is not None
            opening = host.opening(step.group, runners)
            if step.number not in recorded:
                self.steps[step.number] = group_step(self.row.scope, step)
        after, head, fresh = self.row, self.head, self.fresh

        def unit(tx: Tx) -> tuple[Opened | None, list[GroupRow]]:
            if fresh:
                begin(tx, after)
            _require_head(tx, after, head, fresh=fresh)
            for row in self.steps.values():
                tx.put(TABLE, step_key(row.scope, row.number), row)
            if self.taken is not None:
                remove(tx, self.taken)
            for key, positions in self.unread:
                give_back(tx, key, positions)
            closed = [
                group
                for key, seen, asked, past in self.close
                if (group := close_group(tx, key, seen, asked, past=past)) is not None
            ]
            opened = None if opening is None else opening(tx)
            if after.ended:
                closed += end(tx, after, self.unpassed)
            if fresh or after is not self.before:
                tx.put(TABLE, activation_key(after.key), after)
            tx.put(TABLE, fence_key(after.scope), FenceRow(after.scope, head + 1))
            return opened, closed

        return unit

    def seal(
        self, store: Store, fence: SealedRow | None, whole: Callable[[Tx], object]
    ) -> StepsUnit | None:
        """Return the unit of a simple turn with its rows encoded, or None if they cannot be."""
        scope, head = self.row.scope, self.head
        place = fence_key(scope)
        try:
            rows = [store.seal(step_key(scope, row.number), row) for row in self.steps.values()]
            after = store.seal(place, FenceRow(scope, head + 1))
            before = fence or store.seal(place, FenceRow(scope, head))
            return StepsUnit(before, rows, after, whole)
        except (TooLarge, ValueRefused):  # met by the whole unit, and told to whom it concerns
            return None


@final
class StepsUnit(SealedUnit):
    """A simple turn: rows of steps, and behind them the fence of the run.

    The store writes them without decoding anything, while the fence lies as it was left. Else
    ``whole`` runs, and says why not.
    """

    __slots__ = ("_whole", "after")

    def __init__(
        self,
        fence: SealedRow,
        steps: list[SealedRow],
        after: SealedRow,
        whole: Callable[[Tx], object],
    ) -> None:
        super().__init__(TABLE)
        self.fence = fence
        self.rows = [*steps, after]
        self.after = after
        self._whole = whole

    def __call__(self, tx: Tx) -> None:
        """Write it by the general way."""
        self._whole(tx)


def _require_head(tx: Tx, row: ActivationRow, expected: int, *, fresh: bool) -> None:
    """Refuse to write where somebody else did: an activation has one driver (ruling 6)."""
    found = tx.get(TABLE, fence_key(row.scope), FenceRow)
    head = 0 if found is None else found.head
    if head != expected or (found is not None and found.scope != row.scope):
        raise _moved(row.key, head, expected)
    if fresh and tx.get(TABLE, activation_key(row.key), ActivationRow) is not None:
        raise _moved(row.key, head, expected)


def head_of_run(store: Store, row: ActivationRow) -> int:
    """Return how many units a run has, as the journal says it.

    Read before anything else of the run: what is written later does not pass this head.

    Raises:
        FenceMoved: the activation is not as it was read a moment ago.
    """
    fence = store.get(TABLE, fence_key(row.scope), FenceRow)
    head = 0 if fence is None else fence.head
    if store.get(TABLE, activation_key(row.key), ActivationRow) != row:
        raise _moved(row.key, head, head)
    return head


def _moved(key: str, head: int, expected: int) -> FenceMoved:
    """Build the refusal of a second driver."""
    return FenceMoved(
        f"activation {key!r} is driven by somebody else (unit {head}, expected {expected}); "
        "wait for it in the system that drives it, or here once that one has closed",
        key=key,
    )


def group_step(scope: str, step: Offer) -> StepRow:
    """Build the row of a group step: its answer is derived from the group's ranks."""
    return StepRow(
        scope=scope,
        number=step.number,
        combinator=str(step.combinator),
        key=step.key,
        fingerprint=step.fingerprint,
        envelope=b"",
        due=0.0,
        attempt=0,
        outcome=b"",
        settled_at=0.0,
    )

"""What the journal holds of one run: the steps, and the answers that replay hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ReplayMismatch
from ...store import Shape, decode, encode, fingerprint
from ..groups import (
    ChildRow,
    Combinator,
    EffectEnvelope,
    EffectGroup,
    GroupActor,
    Rank,
    Verdict,
    decode_outcome,
    may_decide,
    rebuilt,
    require_same,
    verdict,
)
from ._call import Step
from ._rows import StepRow

ANSWER_BYTES = 64 << 10
"""Largest answer that a step carries, and with which its group may go before its scope does."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A step as the code offers it now, with its identity in the run."""

    number: int
    combinator: Combinator
    key: str
    fingerprint: bytes
    envelope: EffectEnvelope | None
    group: EffectGroup | None
    results: tuple[Shape[Any], ...]

    @property
    def title(self) -> str:
        """Return what people call it."""
        if self.envelope is not None:
            return f"{self.envelope.kind} {self.envelope.name}"
        return f"{self.combinator} #{self.number}"


def offer(scope: str, number: int, step: Step) -> Offer:
    """Give a step its identity.

    A single step's replay key is ``{scope}/{number}``. A group's key carries a content hash of its
    calls and the step number, so two textually equal races differ, also across a restart.
    """
    if step.combinator is Combinator.ONE:
        child = step.children[0]
        envelope = EffectEnvelope(
            child.kind, child.name, child.arguments, scope, f"{scope}/{number}"
        )
        digest = envelope.fingerprint()
        return Offer(
            number, step.combinator, envelope.replay_key, digest, envelope, None, (child.result,)
        )
    content: list[Any] = [[child.kind, child.name, child.arguments] for child in step.children]
    digest = fingerprint("batch/1", [str(step.combinator), str(step.disposition), content])
    key = f"{scope}:group:{digest.hex()[:16]}:{number}"
    group = EffectGroup.of(
        key,
        [
            EffectEnvelope(child.kind, child.name, child.arguments, scope, f"{key}/{position}")
            for position, child in enumerate(step.children)
        ],
        wake=step.combinator.wake,
        disposition=step.disposition,
    )
    results = tuple(child.result for child in step.children)
    return Offer(number, step.combinator, key, digest, None, group, results)


class History:
    """The recorded steps of one run, and the ranks of its groups.

    Writer: the activation's actor. Answers are monotone: more ranks never change one.
    """

    def __init__(self, rows: Iterable[StepRow], group: Callable[[str], GroupActor]) -> None:
        self.steps = {row.number: row for row in rows}
        self._passed = {
            n for n, row in self.steps.items() if row.combinator != "one" and row.outcome
        }
        self._group = group
        self._ranks: dict[int, list[Rank]] = {}
        self._consumed: dict[int, frozenset[int]] = {}  # positions, of groups with signals

    def require_recorded(self, offered: Offer) -> bool:
        """Compare an offered step with the record at its place; False when there is none.

        Raises:
            ReplayMismatch: the code offers another step than the journal holds.
        """
        row = self.steps.get(offered.number)
        if row is None:
            return False
        if row.fingerprint == offered.fingerprint and row.combinator == offered.combinator:
            return True
        where = f"step {offered.number} of {row.scope}"
        if row.envelope and offered.envelope is not None:
            require_same(EffectEnvelope.decoded(row.envelope), offered.envelope, where)
        raise ReplayMismatch(
            f"{where}: the journal holds {row.combinator} {row.key!r}, the code now offers "
            f"{offered.combinator} {offered.key!r}; restore the recorded code, or start under a "
            "new key",
            step=where,
            field="step",
            recorded=row.key,
            offered=offered.key,
        )

    def answer(self, offered: Offer) -> tuple[Verdict, float] | None:
        """Return a recorded step's answer and its time, or None while it has none.

        Values are rebuilt afresh each time: live equals replay (ruling 13).

        Raises:
            ReplayMismatch: a result does not fit what the code now expects of it.
        """
        if offered.group is None:
            row = self.steps[offered.number]
            if not row.outcome:
                return None
            outcome = rebuilt(decode_outcome(row.outcome), offered.results[0], row.key)
            found = verdict(offered.combinator, 1, [(0, outcome)])
            return None if found is None else (found, row.settled_at)
        children = len(offered.group.children)
        if offered.number in self._passed:
            row = self.steps[offered.number]
            consumed = [self._rank(offered, *rank) for rank in decode(row.outcome)]
            found = verdict(offered.combinator, children, consumed)
            return None if found is None else (found, row.settled_at)
        settled = self._group(offered.key).settled
        # Ranks are only ever appended above those that exist: what is decoded stays decoded, and
        # what did not decide needs no second look.
        ranks = self._ranks.setdefault(offered.number, [])
        known = len(ranks)
        ranks += [self._rank(offered, row.position, row.outcome) for row in settled[known:]]
        if not may_decide(offered.combinator, children, ranks, known):
            return None
        found = verdict(offered.combinator, children, ranks)
        if found is None:
            return None
        del self._ranks[offered.number]
        consumed_rows = settled[: found.consumed]
        if any(child.kind == "signal" for child in offered.group.children):
            self._consumed[offered.number] = frozenset(row.position for row in consumed_rows)
        self._record(offered.number, consumed_rows)
        return found, consumed_rows[-1].settled_at

    def _rank(self, offered: Offer, position: int, outcome: bytes) -> Rank:
        where = f"{offered.key}/{position}"
        return position, rebuilt(decode_outcome(outcome), offered.results[position], where)

    def _record(self, number: int, consumed: Sequence[ChildRow]) -> None:
        answer = encode([[child.position, child.outcome] for child in consumed])
        if len(answer) <= ANSWER_BYTES:
            self.steps[number] = replace(
                self.steps[number], outcome=answer, settled_at=consumed[-1].settled_at
            )

    def unread_signals(self, step: Offer) -> dict[int, str]:
        """Return position and name of the waits for signals that a group step's answer left out."""
        assert step.group is not None
        consumed = self._consumed.get(step.number, frozenset())
        children = enumerate(step.group.children)
        waits = {p: child.name for p, child in children if child.kind == "signal"}
        return {p: name for p, name in waits.items() if p not in consumed}

    def is_passed(self, number: int) -> bool:
        """Tell whether the journal holds that the run went past a group step."""
        return number in self._passed

    def passed(self, number: int, *, cancelled: bool) -> StepRow | None:
        """Return the row that says that the run went past a group step, or None.

        It carries the ranks that its answer took, so that nothing reads the group again; a step
        that saw a cancel took none. An answer over the limit stays in the group.
        """
        if cancelled:
            self.steps[number] = replace(self.steps[number], outcome=encode([]))
        row = self.steps[number]
        return row if row.outcome else None

    def unpassed(self) -> list[str]:
        """Return the keys of groups whose answers no step carries."""
        rows = self.steps.values()
        return [row.key for row in rows if row.is_group and not row.outcome]

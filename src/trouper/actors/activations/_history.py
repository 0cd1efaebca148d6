"""What the journal holds of one run: the steps, and the answers that replay hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ReplayMismatch
from ...store import Shape, fingerprint
from ..groups import (
    ChildRow,
    Combinator,
    EffectEnvelope,
    EffectGroup,
    GroupActor,
    Rank,
    Verdict,
    decode_outcome,
    rebuilt,
    require_same,
    verdict,
)
from ._call import Step
from ._rows import StepRow


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
        self._group = group
        self._ranks: dict[int, list[Rank]] = {}

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
        settled = self._group(offered.key).settled
        ranks = self._decoded(offered, settled)
        found = verdict(offered.combinator, len(offered.group.children), ranks)
        if found is None:
            return None
        del self._ranks[offered.number]
        return found, settled[found.consumed - 1].settled_at

    def _decoded(self, offered: Offer, settled: Sequence[ChildRow]) -> list[Rank]:
        # Ranks are only ever appended above those that exist, so what is decoded stays decoded.
        ranks = self._ranks.setdefault(offered.number, [])
        for child in settled[len(ranks) :]:
            shape = offered.results[child.position]
            outcome = rebuilt(decode_outcome(child.outcome), shape, child.replay_key)
            ranks.append((child.position, outcome))
        return ranks

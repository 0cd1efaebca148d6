"""The order constraints that make a schedule fail, and the run that obeys them.

A constraint names two events and says which comes first. It says nothing about the rest, and that
is why it survives edits of the code: what is not named happens in the ordinary order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ._event import Event, spell
from ._strategies import usual
from ._trace import Step, Trace


@dataclass(frozen=True, slots=True, order=True)
class Constraint:
    """``first`` comes before ``then``. ``over`` says what both touch, where that is not plain."""

    first: Event
    then: Event
    over: str = field(default="", compare=False)

    def __str__(self) -> str:
        first, then = self.first, self.then
        if then.kind == "crash":
            return f"{then} right after {first}"
        if first.kind == "crash" or first.actor != then.actor:
            both = f" (both touch {self.over})" if self.over else ""
            return f"{first} before {then}{both}"
        after = f" (after crash {first.life})" if first.life else ""
        return f"at `{first.target}`: {first.phrase()} before {then.phrase()}{after}"

    def is_broken(self, trace: Trace) -> bool:
        """Tell whether a schedule went against it, or did not get to it."""
        for step in trace.steps:
            if step.event == self.first:
                return False
            if step.event == self.then:
                return True
        return True


def constraints_of(trace: Trace) -> list[Constraint]:
    """Return what decides a schedule: each race in it, as it was decided.

    Together they determine the schedule up to the order of steps that commute.
    """
    found: dict[Constraint, None] = {}
    for step in [*trace.steps, *trace.blocked()]:
        for head in trace.races(step):
            _add(head, step, found)
    for step, head in trace.withdrawn():  # it came too late to take place at all
        _add(head, step, found)
    return list(found)


def _add(head: Step, step: Step, found: dict[Constraint, None]) -> None:
    over = spell(head.accesses.conflicts(step.accesses))
    found[Constraint(head.event, step.event, over)] = None


class Guided:
    """The ordinary run, except that it obeys constraints as long as anything else can happen.

    A crash that is named comes as soon as all that is named before it has taken place; one that
    is not named does not come.
    """

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        self._before: dict[Event, list[Event]] = {}
        for constraint in constraints:
            self._before.setdefault(constraint.then, []).append(constraint.first)
            self._before.setdefault(constraint.first, [])

    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        """See `Chooser.choose`."""
        free = [o for o in options if all(map(trace.is_done, self._before.get(o, ())))]
        for option in free:
            if option.kind == "crash" and option in self._before:
                return option
        free = [option for option in free if option.kind not in ("crash", "rest")]
        return usual(free or options)

"""A failing schedule, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ._event import Event
from ._frames import own_frames
from ._order import Constraint
from ._trace import Step

_SHOWN: Final = 12  # sentences where none of them is known to matter


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule that failed, in its smallest form.

    Args:
        error: What was raised.
        constraints: What has to come before what for it to fail.
        steps: The schedule.
        token: What replays it; empty if it would be too long to be read back.
        rerun: The command that does so.
        played: How far exploration got.
        needs_tape: The constraints alone do not lead to it.
    """

    error: Exception
    constraints: tuple[Constraint, ...]
    steps: tuple[Step, ...]
    token: str
    rerun: str | None
    played: str
    needs_tape: bool

    def order(self) -> dict[str, list[str]]:
        """Return, for each actor that a constraint is about, what it did, in order."""
        contested = {
            event.target: None
            for constraint in self.constraints
            for event in (constraint.first, constraint.then)
            if event.kind != "crash"
        }
        return {
            actor: [_short(s.event) for s in self.steps if actor == s.event.target or _is_cut(s)]
            for actor in contested
        }

    def text(self) -> str:
        """Tell it: what was raised, and its `story`."""
        error = f"{type(self.error).__name__}: {self.error}".rstrip(": ")
        return f"{error}\n\n{self.story()}"

    def story(self) -> str:
        """Tell why it failed, in which order, how to see it again, and how far exploration got."""
        lines = [*self._reasons(), ""]
        orders = self.order()
        width = max(map(len, orders), default=0)
        lines += [f"  {actor:<{width}}  {', '.join(steps)}" for actor, steps in orders.items()]
        lines += [""] if orders else []
        lines += [line for line in (self.token, self.rerun) if line]
        return "\n".join([*lines, self.played])

    def reraised(self) -> Exception:
        """Return the error as a test shows it: only the frames of those who wrote the test."""
        return own_frames(self.error)

    def _reasons(self) -> list[str]:
        if self.needs_tape and not self.constraints:
            shown = [str(step.event) for step in self.steps[:_SHOWN]]
            more = len(self.steps) - len(shown)
            shown += [f"and {more} more"] if more else []
            return ["It takes the whole schedule, in which nothing raced:", *shown]
        if self.needs_tape:
            shown = [str(constraint) for constraint in self.constraints[:_SHOWN]]
            more = len(self.constraints) - len(shown)
            shown += [f"and {more} more"] if more else []
            return ["It takes the whole schedule; what raced in it:", *shown]
        if not self.constraints:
            return ["It fails in the ordinary order, too."]
        return [str(constraint) for constraint in self.constraints]


def _short(event: Event) -> str:
    return "CRASH" if event.kind == "crash" else event.phrase()


def _is_cut(step: Step) -> bool:
    return step.event.kind == "crash"

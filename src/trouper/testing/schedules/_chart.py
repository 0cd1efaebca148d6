"""What a message-sequence chart shows: who, in which rows, and from where to where.

Only what leads to the failure: the actors that a constraint is about, those that wait for ever,
and everything that happened before on account of which they did what they did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...errors import Deadlock
from ._event import Event, Kind
from ._failure import Failure
from ._trace import Step


@dataclass(frozen=True, slots=True)
class Row:
    """One step in a chart. Columns and rows count from 0.

    Args:
        number: Its place in the schedule, from 1.
        kind: What kind of event it is.
        label: What it is.
        column: The actor that takes the step; -1 for a crash.
        source: The column of the sender; None if that is not in the chart.
        sent: The row in which it was sent; None if the scenario sent it.
        outside: The sender, if it is not in the chart.
        marks: The numbers, from 1, of the constraints that name it.
        starts: The row in which the turn that it belongs to began.
        is_busy: The actor still waited for something after it, in a row below or for ever.
    """

    number: int
    kind: Kind
    label: str
    column: int
    source: int | None
    sent: int | None
    outside: str
    marks: tuple[int, ...]
    starts: int
    is_busy: bool

    @property
    def is_sign(self) -> bool:
        """It is no arrow between two columns."""
        return self.kind in ("commit", "timer") or self.source in (None, self.column)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing before it is drawn.

    Args:
        title: The failure, in a line.
        columns: The actors, in the order in which they first did something.
        rows: The steps.
        reasons: A sentence for each constraint.
        waits: A sentence for each of those that wait for ever.
        left_out: How many steps of the schedule are not shown.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]
    waits: tuple[str, ...]
    left_out: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what the rows do not show: who waits at the end, and what is left out."""
        if not self.left_out:
            return self.waits
        steps = "step that has" if self.left_out == 1 else "steps that have"
        return *self.waits, f"{self.left_out} {steps} no part in it left out"


@dataclass(frozen=True, slots=True)
class Room:
    """What must fit between two columns, beside one of them.

    Args:
        left, right: Columns; -1 and the number of columns are the edges of the chart.
        near: The one of the two that it is beside.
        width: What it takes.
    """

    left: int
    right: int
    near: int
    width: float


def positions(columns: int, least: Sequence[float], rooms: Iterable[Room]) -> list[float]:
    """Return where the columns are, and where the chart ends: no wider than what must fit.

    Args:
        columns: How many there are.
        least: The least gap before each column, and after the last.
        rooms: What else must fit.
    """
    gaps = list(least)
    for room in sorted(rooms, key=lambda room: room.right - room.left):
        lack = room.width - sum(gaps[room.left + 1 : room.right + 1])
        if lack > 0:
            gaps[room.right if room.near == room.right else room.left + 1] += lack
    assert len(gaps) == columns + 1
    return list(accumulate(gaps))


def chart(failure: Failure) -> Chart:
    """Return what a chart of the failing schedule shows."""
    steps = _shown(failure)
    columns = tuple({s.event.target: None for s in steps if s.event.kind != "crash"})
    at = {name: column for column, name in enumerate(columns)}
    row_of = {step.node: row for row, step in enumerate(steps)}
    last = {step.turn: step for step in steps}
    ends = {step.turn: step.footprint.busy for step in failure.steps}
    open_turns = {turn for turn, is_busy in ends.items() if is_busy}
    marks: dict[Event, list[int]] = {}
    for number, constraint in enumerate(failure.constraints, 1):
        marks.setdefault(constraint.first, []).append(number)
        marks.setdefault(constraint.then, []).append(number)
    rows = [
        Row(
            number=step.place + 1,
            kind=step.event.kind,
            label=step.event.label if step.event.kind != "crash" else step.event.phrase(),
            column=at.get(step.event.target, -1),
            source=at.get(step.event.sender),
            sent=row_of.get(step.creator),
            outside="" if step.event.sender in at else step.event.sender,
            marks=tuple(marks.get(step.event, ())),
            starts=row_of.get(step.turn, row),
            is_busy=step.footprint.busy
            and (step is not last[step.turn] or step.turn in open_turns),
        )
        for row, step in enumerate(steps)
    ]
    error = failure.error
    title = printable(f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": "))
    reasons = tuple(printable(str(constraint)) for constraint in failure.constraints)
    found = error.waits if isinstance(error, Deadlock) else ()
    waits = tuple(printable(f"{who} waits for {whom} ({what})") for who, whom, what in found)
    return Chart(title, columns, tuple(rows), reasons, waits, len(failure.steps) - len(steps))


def printable(text: str, width: int | None = None) -> str:
    """Return text that a terminal and XML bear, cut to ``width`` letters."""
    safe = "".join(letter if letter.isprintable() else "�" for letter in text)
    return safe if width is None or len(safe) <= width else safe[: max(width - 1, 0)] + "…"


def shortened(name: str, width: int) -> str:
    """Return a printable name, without its middle if it is longer: paths differ at their ends."""
    safe = printable(name)
    if len(safe) <= width:
        return safe
    end = width * 2 // 3
    return f"{safe[: width - end - 1]}…{safe[-end:]}"


def _shown(failure: Failure) -> list[Step]:
    actors = set(failure.order())
    if isinstance(failure.error, Deadlock):
        actors |= {name for waiter, target, _ in failure.error.waits for name in (waiter, target)}
    by_node = {step.node: step for step in failure.steps}
    todo = [
        s.node
        for s in failure.steps
        if not actors or s.event.target in actors or s.event.kind == "crash"
    ]
    shown: set[int] = set()
    while todo:
        node = todo.pop()
        if node in shown or node not in by_node:
            continue
        shown.add(node)
        step = by_node[node]
        todo += [step.creator, step.turn]
        if step.event.kind != "crash":  # whatever was written before is not why it came
            todo += step.conflicts
    return [step for step in failure.steps if step.node in shown]

"""Ways to choose one schedule: the ordinary one, and random ones.

None is best at everything (measured, research dst-trio): a random walk needs exponentially many
tries for a message that must overtake a long chain, PCT with one change never times a crash, POS
is never bad. Hence the portfolio.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from ...errors import UnknownStrategy
from ._course import Chooser, diverged
from ._event import REST, Event
from ._trace import Trace

NAMES: Final = ("portfolio", "dfs", "sleep", "naive", "fifo", "walk", "pos", "pct:N")
_ROTATION: Final = ("pos", "walk", "pct:2", "pct:3")
FIRST_LENGTH: Final = 40  # steps that PCT counts on before it saw a schedule


def usual(options: Sequence[Event]) -> Event:
    """Return what happens in an ordinary run: the oldest, timers when idle, no crash if it may."""
    for option in options:
        if option.kind not in ("timer", "crash", "rest"):
            return option
    return next((option for option in options if option.kind != "crash"), options[0])


class Fifo:
    """The ordinary run."""

    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        """See `Chooser.choose`."""
        return usual(options)


class Walk:
    """Every event that can be next is so with the same probability."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        """See `Chooser.choose`."""
        return self._random.choice(options)


class Pos:
    """Partial order sampling: a priority per event, drawn anew when it loses a race."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._priority: dict[Event, float] = {}

    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        """See `Chooser.choose`."""
        priority, draw = self._priority, self._random.random
        if trace.steps and trace.steps[-1].footprint.writes:
            # the crash lost against a write; its rival at rest starts anew with it
            self._forget([option for option in options if option.kind in ("crash", "rest")])
        for option in options:
            if option not in priority:
                priority[option] = draw()
        best = max(options, key=priority.__getitem__)
        target, life, is_timer = best.target, best.life, best.kind == "timer"
        self._forget(
            [
                option
                for option in options
                if (option.target == target and option.life == life)
                or (is_timer and option.kind == "timer")
            ]
        )
        return best

    def _forget(self, events: Sequence[Event]) -> None:
        for event in events:
            self._priority.pop(event, None)


class Pct:
    """Actors have priorities, and ``depth - 1`` times the one that runs becomes the last.

    Which of an actor's own events is next is the ordinary order.
    """

    def __init__(self, random: Random, depth: int, length: int) -> None:
        self._random = random
        self._changes = sorted(random.sample(range(1, max(length, depth) + 1), depth - 1))
        self._priority: dict[tuple[str, int], float] = {}

    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        """See `Chooser.choose`."""
        priority = self._priority
        oldest: dict[tuple[str, int], Event] = {}  # of each actor
        for option in options:
            oldest.setdefault(option.actor, option)
        for actor in oldest:
            if actor not in priority:
                priority[actor] = self._random.random()
        best = max(oldest, key=priority.__getitem__)
        while self._changes and self._changes[0] <= len(trace.steps):
            priority[best] = -float(self._changes.pop(0))
            best = max(oldest, key=priority.__getitem__)
        return oldest[best]


class Scripted:
    """A recorded schedule, event by event, then the ordinary run; any divergence is named."""

    def __init__(self, tape: Sequence[Event]) -> None:
        self._tape = tape

    def choose(self, options: Sequence[Event], trace: Trace) -> Event:
        """See `Chooser.choose`."""
        place = len(trace.steps)
        if place == len(self._tape) and REST in options:
            return REST
        if place >= len(self._tape):
            return usual(options)
        if self._tape[place] not in options:
            raise diverged(place, self._tape[place], options)
        return self._tape[place]


def depth_of(strategy: str) -> int | None:
    """Return N of ``pct:N``; None for every other name.

    Raises:
        UnknownStrategy: There is no such strategy.
    """
    name, colon, depth = strategy.partition(":")
    if name == "pct" and colon and depth.isdecimal() and 1 <= int(depth) <= 9:
        return int(depth)
    if strategy in NAMES[:-1]:
        return None
    raise UnknownStrategy(
        f"no strategy is called {strategy!r}; there are {', '.join(NAMES)} with N from 1 to 9",
        strategy=strategy,
    )


def sampler(strategy: str, seed: int, index: int, length: int = FIRST_LENGTH) -> Chooser:
    """Return what chooses the schedule number ``index``, from 0, of a random strategy.

    Args:
        strategy: One of ``fifo``, ``walk``, ``pos``, ``pct:N``, ``portfolio``.
        seed: Schedules of one seed are always the same.
        index: Number 0 of the portfolio is FIFO, then POS, walk, PCT 2 and PCT 3 take turns.
        length: About how many steps a schedule has; PCT puts its changes among them.
    """
    if strategy == "portfolio":
        strategy = "fifo" if index == 0 else _ROTATION[(index - 1) % len(_ROTATION)]
    random = Random(f"{seed}/{index}")
    depth = depth_of(strategy)
    if depth is not None:
        return Pct(random, depth, length)
    match strategy:
        case "fifo":
            return Fifo()
        case "walk":
            return Walk(random)
        case "pos":
            return Pos(random)
        case _:
            raise ValueError(f"{strategy} is exhaustive: it takes no samples")

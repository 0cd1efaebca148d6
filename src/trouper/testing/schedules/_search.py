"""Playing schedules until one fails, none is left, or the budget is spent."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import TokenStale
from ._course import Chooser, Course, Play
from ._exhaustive import DEPTHS, Exhaustive
from ._failure import Failure
from ._order import Guided
from ._shrink import Shrunk, run, shrink
from ._strategies import FIRST_LENGTH, Scripted, depth_of, sampler
from ._token import Token, decode_token, encode_token, model_digest
from ._trace import Rules


@dataclass(frozen=True, slots=True)
class Report:
    """How far exploration got. A spent budget is a result like another.

    Args:
        exhausted: Every schedule there is was played, or an equivalent one.
        schedules: How many were played, redundant ones included; what shrinking played is not.
        redundant: How many of them ended early, since they went on like one played before.
        traces: How many kinds of schedules were seen: those of one kind differ only in the order
            of steps that commute. The honest figure for coverage.
        failures: How many failed.
        first_failure: The first of those, shrunk.
        strategy, seed, budget: What was asked for.
        signatures: A digest for each of the kinds.
    """

    exhausted: bool
    schedules: int
    redundant: int
    traces: int
    failures: int
    first_failure: Failure | None
    strategy: str
    seed: int
    budget: int
    signatures: frozenset[bytes]

    def check(self) -> None:
        """Raise what the first failure raised, with its story as a note; do nothing without one."""
        __tracebackhide__ = True
        if self.first_failure is not None:
            error = self.first_failure.reraised()
            error.add_note(self.first_failure.story())
            raise error

    def __str__(self) -> str:
        found = "no failure" if self.first_failure is None else f"{self.failures} failed"
        ends = "exhausted" if self.exhausted else "not exhausted"
        return f"{self.schedules} explored, {ends}; {self.traces} different ones; {found}"


def search(
    play: Play,
    *,
    strategy: str = "portfolio",
    budget: int = 1000,
    seed: int = 0,
    rules: Rules | None = None,
    scenario: str = "scenario",
    rerun: str | None = None,
    keep_going: bool = False,
    tries: int = 200,
) -> Report:
    """Play schedules and report what came of them; the first failure is shrunk.

    Args:
        play: Plays one schedule from scratch; `player` makes it from a model.
        strategy: ``portfolio``, ``dfs`` (all kinds of schedules), ``sleep``, ``naive`` (all
            schedules), ``fifo``, ``walk``, ``pos``, ``pct:N``.
        budget: At most so many schedules.
        seed: Which random schedules; the exhaustive strategies take none.
        rules: What may happen when.
        scenario: The name under which tokens know what is played.
        rerun: The command that replays a token, for the failure's text, with ``{token}`` in it.
        keep_going: Play on after a failure.
        tries: How many schedules shrinking may cost.

    Raises:
        UnknownStrategy: There is no such strategy.
        ScheduleDiverged: The same events in the same order did something else than before.
    """
    depth_of(strategy)
    if budget < 1 or tries < 1:
        raise ValueError(f"a budget is 1 or more, not {budget} schedules and {tries} tries")
    source = _Source(strategy, seed)
    rules = rules or Rules()
    seen: set[bytes] = set()
    redundant = failures = index = 0
    first: tuple[int, Course] | None = None
    more, is_complete = True, True
    while more and index < budget:
        course = Course(source.chooser(index), rules)
        play(course)
        index += 1
        more = source.end(course)
        is_complete &= not (course.is_unfair or course.is_blind)
        redundant += course.is_cut
        if not course.is_cut:
            seen.add(course.trace.canonical())
        if course.failure is not None:
            failures += 1
            first = first or (index, course)
            if not keep_going:
                break
    exhausted = not more and is_complete and source.is_exhaustive
    failure = None
    if first is not None:
        played = f"schedule {first[0]} of {index if exhausted else budget}"
        played += ", exhausted" if exhausted else ""
        failure = failure_of(shrink(play, first[1], tries=tries), scenario, rerun, played)
    return Report(
        exhausted, index, redundant, len(seen), failures, failure, strategy, seed, budget,
        frozenset(seen),
    )  # fmt: skip


class _Source:
    """Where the choosers of a strategy's schedules come from."""

    def __init__(self, strategy: str, seed: int) -> None:
        self._strategy, self._seed, self._length = strategy, seed, 0
        depth = DEPTHS.get(strategy)
        self._exhaustive = None if depth is None else Exhaustive(depth)
        self.is_exhaustive = depth is not None

    def chooser(self, index: int) -> Chooser:
        if self._exhaustive is not None:
            return self._exhaustive
        return sampler(self._strategy, self._seed, index, self._length or FIRST_LENGTH)

    def end(self, course: Course) -> bool:
        """Return whether there is another schedule."""
        if self._exhaustive is not None:
            return self._exhaustive.end(course)
        self._length = max(self._length, len(course.trace.steps))
        return self._strategy != "fifo"


def replay(
    play: Play, token: str, *, rules: Rules | None = None, scenario: str = "scenario"
) -> Failure | None:
    """Play the schedule of a token; return how it failed, or None: it does so no longer.

    Args:
        play: Plays one schedule from scratch.
        token: What a failure printed.
        rules: Limits; delivery and time are the token's.
        scenario: The name under which it was found.

    Raises:
        TokenGarbled: It is no token.
        TokenForeign: It is of another scenario or version.
        TokenStale: Nothing failed, and events that it puts in order do not exist any more.
        ScheduleDiverged: It holds a whole schedule, and another one took place.
    """
    found = decode_token(token, model=model_digest(scenario))
    limits = rules or Rules()
    rules = Rules(found.delivery, found.time, limits.fair_after, limits.max_steps)
    chooser = Scripted(found.tape) if found.tape else Guided(found.constraints)
    course = run(play, chooser, rules)
    if course.failure is not None:
        return failure_of(
            Shrunk(course, found.constraints, found.tape, 1), scenario, None, "replayed"
        )
    named = {event: None for c in found.constraints for event in (c.first, c.then)}
    missing = tuple(str(event) for event in named if not course.trace.is_known(event))
    if missing:
        raise TokenStale(
            f"the scenario ended well, but what the token puts in order is not there any more: "
            f"{'; '.join(missing)}. If the code was changed on purpose, drop the token and explore "
            "anew.",
            missing=missing,
        )
    return None


def failure_of(shrunk: Shrunk, scenario: str, rerun: str | None, played: str) -> Failure:
    """Tell of a failing schedule that was shrunk; ``played`` says how it was come by."""
    course = shrunk.course
    rules = course.rules
    token = Token(
        model_digest(scenario), shrunk.constraints, shrunk.tape, rules.delivery, rules.time
    )
    try:
        text = encode_token(token)
    except ValueError as exc:
        text, rerun, played = "", None, f"{played}; {exc}"
    line = None if rerun is None else rerun.replace("{token}", text)
    assert course.failure is not None, "only what failed is described"
    steps = tuple(course.trace.steps)
    return Failure(course.failure, shrunk.constraints, steps, text, line, played, bool(shrunk.tape))

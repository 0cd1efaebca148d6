"""Schedules as something that Hypothesis draws: it owns the data of a test, we own the order.

Hypothesis alone plays a trio program in one order, however many examples it tries: it seeds trio
with the same number each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from ..errors import ExtraMissing, OptionRefused, TokenRefused
from ._explore import AnyScenario, again, searched
from ._plan import Plan
from ._scenario import complete, refuse_inside_a_run
from ._setting import SETTING, told
from .schedules import Course, Failure, Options, Play, Rules, Scenario, scenario_play
from .schedules._frames import own_frames
from .schedules._strategies import sampler

try:
    import hypothesis.strategies as st
    from hypothesis import currently_in_test_context, reject
    from hypothesis.control import current_build_context
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "hypothesis":
        raise
    raise ExtraMissing(
        "trouper.testing.hypothesis needs hypothesis: pip install 'trouper[testing]'",
        name="hypothesis",
        extra="testing",
    ) from None

__all__ = ("Schedule", "schedules")

_STRATEGIES: Final = ("fifo", "pos", "walk", "pct:2", "pct:3")
_SEEDS: Final = 2**64


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """One order in which a scenario may be played.

    Write it down in an ``@example``, with the token that a failure printed, and the order is the
    same however the code around changes.

    Args:
        strategy: How the order is chosen.
        seed: Which one of the many.
        token: The order itself; then the other two mean nothing.
    """

    strategy: str = "fifo"
    seed: int = 0
    token: str | None = None

    def __repr__(self) -> str:
        if self.token is not None:
            return f"Schedule(token={self.token!r})"
        return f"Schedule({self.strategy!r}, seed={self.seed})"

    def check(
        self,
        scenario: AnyScenario,
        *,
        tries: int = 200,
        rules: Rules | None = None,
        options: Options | None = None,
    ) -> None:
        """Play a scenario in this order and raise what fails.

        While Hypothesis looks for the smallest data, the order stays as drawn; the last time, with
        the data that it reports, the order is shrunk and told as `schedule_test` does.

        Args:
            scenario: See `explore`; a function inside the test, which sees the data.
            tries, rules, options: See `explore`.

        Raises:
            ScenarioRefused, OptionRefused, UnknownStrategy, TokenRefused, ScheduleDiverged,
                RuntimeError: As `explore` does.
        """
        __tracebackhide__ = True
        refuse_inside_a_run("Schedule.check")
        setting = SETTING.get()
        plan = Plan(
            complete(scenario),
            schedules=1,
            strategy=self.strategy,
            seed=self.seed,
            tries=tries,
            rules=rules or Rules(),
            options=options or Options(),
        )
        play = scenario_play(cast("Scenario", scenario), plan.options)
        found = self._played(plan, play, None if setting is None else setting.token)
        if found is not None:
            # one line for both: Hypothesis tells failures by the lines that raise them
            raise told(found) if isinstance(found, Failure) else own_frames(found)

    def _played(self, plan: Plan, play: Play, asked: str | None) -> Failure | Exception | None:
        setting = SETTING.get()
        rerun = None if setting is None else setting.rerun
        token = asked or self.token
        if token is not None:
            try:
                return again(plan, play, token, rerun=rerun)
            except TokenRefused:
                if asked is not None and currently_in_test_context():
                    reject()  # it is for other data than these
                raise
        if _is_last():
            failure = searched(plan, play, rerun=rerun).first_failure
            return failure and replace(failure, played=f"drawn by Hypothesis as {self!r}")
        course = Course(sampler(self.strategy, self.seed, 0), plan.rules)
        play(course)
        return course.failure


def schedules(strategies: Sequence[str] = _STRATEGIES) -> st.SearchStrategy[Schedule]:
    """Return a strategy that draws schedules: a strategy's name and one number of 64 bits each.

    So few choices shrink at once. The first strategy is the one to shrink to: the ordinary order
    says that the data alone are to blame.

    Args:
        strategies: Which to draw from; none of the exhaustive ones, which have no seed.

    Raises:
        UnknownStrategy: There is no such strategy.
        OptionRefused: There are none, or an exhaustive one is among them.
    """
    for name in strategies:
        Plan(Schedule, strategy=name)
        if name in ("dfs", "sleep", "naive"):
            raise OptionRefused(
                f"{name} plays all schedules, one after the other: draw from others"
            )
    if not strategies:
        raise OptionRefused("draw from one strategy or more")

    def seeded(name: str) -> st.SearchStrategy[Schedule]:
        seeds = st.just(0) if name == "fifo" else st.integers(0, _SEEDS - 1)
        return st.builds(Schedule, st.just(name), seeds)

    return st.sampled_from(list(strategies)).flatmap(seeded)


def _is_last() -> bool:
    """Tell whether this run is the one that is reported."""
    context: Callable[[], Any] = current_build_context
    return not currently_in_test_context() or bool(context().is_final)

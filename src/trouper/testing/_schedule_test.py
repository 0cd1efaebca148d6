"""Tests that play schedules: `schedule_test` explores, `replay` keeps what was found."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast, overload

from ..errors import OptionRefused
from ._conduct import conduct
from ._plan import Plan
from ._scenario import checked, simulation_place
from .schedules import Options, Rules, Simulation

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
S = TypeVar("S")

_PLAN: Final = "__trouper_plan__"  # where a test keeps what it is made of


class _Decorator(Protocol):
    """Makes a test of a scenario: the simulation is no longer among its parameters."""

    @overload
    def __call__(
        self, scenario: Callable[Concatenate[Simulation, P], AsyncIterator[None]], /
    ) -> Callable[P, None]: ...
    @overload
    def __call__(
        self, scenario: Callable[Concatenate[S, Simulation, P], AsyncIterator[None]], /
    ) -> Callable[Concatenate[S, P], None]: ...


@overload
def schedule_test(
    scenario: Callable[Concatenate[Simulation, P], AsyncIterator[None]], /
) -> Callable[P, None]: ...
@overload
def schedule_test(
    scenario: Callable[Concatenate[S, Simulation, P], AsyncIterator[None]], /
) -> Callable[Concatenate[S, P], None]: ...
@overload
def schedule_test(
    *,
    schedules: int = ...,
    strategy: str = ...,
    seed: int = ...,
    tries: int = ...,
    rules: Rules | None = ...,
    options: Options | None = ...,
) -> _Decorator: ...
def schedule_test(
    scenario: Callable[..., Any] | None = None,
    /,
    *,
    schedules: int = 200,
    strategy: str = "portfolio",
    seed: int = 0,
    tries: int = 200,
    rules: Rules | None = None,
    options: Options | None = None,
) -> Any:
    """Make a test of a scenario: it explores schedules and fails as the first one that fails.

    Write ``@schedule_test``, or ``@schedule_test(schedules=1000)``. The test is a plain function of
    whatever parameters the scenario has beside the simulation, which is the first one: fixtures and
    parametrised values pass through. They are made once per test, not once per schedule. With
    pytest, ``--schedules`` and its like go before what is said here, and a failure ends with the
    line that replays it.

    Args:
        scenario: What is decorated.
        schedules: Explore at most so many.
        strategy, seed, tries, rules, options: See `explore`.

    Raises:
        ScenarioRefused: What is decorated is no async generator function.
        OptionRefused: A number is out of range.
        UnknownStrategy: There is no such strategy.
    """
    __tracebackhide__ = True
    asked = Plan(
        _nothing,
        schedules=schedules,
        strategy=strategy,
        seed=seed,
        tries=tries,
        rules=rules or Rules(),
        options=options or Options(),
    )

    def decorate(scenario: Callable[..., Any]) -> Callable[..., None]:
        __tracebackhide__ = True
        kept = plan_of(scenario)
        if kept is None:
            return _test(replace(asked, scenario=checked(scenario)))
        return _test(replace(asked, scenario=kept.scenario, tokens=kept.tokens))

    return decorate if scenario is None else decorate(scenario)


def replay(token: str) -> Callable[[F], F]:
    """Let a test replay this schedule first, each time: a failure that shall not come back.

    Goes above or below `schedule_test`, as often as there are tokens. Alone it makes a test that
    plays its tokens and explores nothing. `TokenStale` says that the code has moved on so far that
    the schedule means nothing any more.

    Args:
        token: What a failure printed, from ``T1.`` to its end.

    Raises:
        OptionRefused: It is no text.
        ScenarioRefused: What is decorated is neither a scenario nor a test of one.
    """
    __tracebackhide__ = True
    if not isinstance(cast("object", token), str):
        raise OptionRefused(f"write @replay('T1...'), with the token of a failure, not {token!r}")

    def decorate(scenario: F) -> F:
        __tracebackhide__ = True
        plan = plan_of(scenario) or Plan(checked(scenario))
        return cast("F", _test(replace(plan, tokens=(token, *plan.tokens))))

    return decorate


def plan_of(test: object) -> Plan | None:
    """Return what a test plays; None if it is none that plays schedules."""
    return getattr(test, _PLAN, None)


async def _nothing(sim: Simulation) -> AsyncIterator[None]:
    yield


def _test(plan: Plan) -> Callable[..., None]:
    scenario = plan.scenario
    place = simulation_place(scenario) or 0

    @functools.wraps(scenario)
    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        names = [parameter.name for parameter in parameters]
        named = dict(zip(names[place:], args[place:], strict=False)) | kwargs
        conduct(plan, functools.partial(scenario, *args[:place], **named))

    parameters = list(inspect.signature(scenario).parameters.values())
    del parameters[place]
    shown: Any = test
    shown.__signature__ = inspect.Signature(parameters, return_annotation=None)
    setattr(test, _PLAN, plan)
    return test

"""Scenarios: what shape they have, and under which name tokens know them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import trio

from ..errors import ScenarioRefused
from ..errors._base import durable_name

F = TypeVar("F", bound=Callable[..., Any])

_SHAPE: Final = (
    "write `async def scenario(sim):` with one `yield` in it. What is before it sends the first "
    "messages, at the `yield` the schedule runs until all is at rest, what is after it checks"
)


def checked(scenario: F) -> F:
    """Return a scenario as it is.

    Raises:
        ScenarioRefused: It is no async generator function, or cannot be given a simulation.
    """
    __tracebackhide__ = True
    given: object = scenario
    if not callable(given):
        raise ScenarioRefused(f"a scenario is a function, not {scenario!r}: {_SHAPE}")
    name = called(scenario)
    if inspect.iscoroutinefunction(given):
        raise ScenarioRefused(f"{name} has no `yield`: {_SHAPE}")
    if not inspect.isasyncgenfunction(given):
        raise ScenarioRefused(f"{name} is no async generator function: {_SHAPE}")
    if simulation_place(scenario) is None:
        raise ScenarioRefused(f"{name} has no parameter for the simulation: {_SHAPE}")
    return scenario


def complete(scenario: F) -> F:
    """Return a scenario that needs nothing but the simulation, as it is.

    Raises:
        ScenarioRefused: It is none, or it needs more.
    """
    __tracebackhide__ = True
    signature = inspect.signature(checked(scenario))
    try:
        signature.bind(None)
    except TypeError as exc:
        raise ScenarioRefused(
            f"{called(scenario)}{signature} is called with the simulation and nothing else ({exc}):"
            " give it the rest by functools.partial, or fixtures by schedule_test"
        ) from None
    return scenario


def simulation_place(scenario: Callable[..., Any]) -> int | None:
    """Return the place of the parameter for the simulation: the first one that is not ``self``."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for place, parameter in enumerate(inspect.signature(scenario).parameters.values()):
        if parameter.kind not in positional:
            return None
        if place or parameter.name not in ("self", "cls"):
            return place
    return None


def called(scenario: Any) -> str:
    """Return the name of a scenario, for people."""
    name: str = getattr(_named(scenario), "__qualname__", repr(scenario))
    return name.replace("<locals>.", "")


def model_name(scenario: Any) -> str:
    """Return under which name tokens know a scenario: its own, and that of its file.

    Not the folder: test runners and options of theirs disagree on what a module is called.
    """
    named = _named(scenario)
    full = durable_name(named)
    own: str = named.__qualname__
    return f"{full.removesuffix(f'.{own}').rpartition('.')[2]}.{own}"


def _named(scenario: Any) -> Any:
    while isinstance(scenario, partial):
        scenario = scenario.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return scenario  # pyright: ignore[reportUnknownVariableType]


def refuse_inside_a_run(what: str) -> None:
    """Refuse to be called from async code.

    Raises:
        RuntimeError: A trio run is under way in this thread.
    """
    __tracebackhide__ = True
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(
            f"{what} makes a trio run for every schedule, so it cannot be called inside of one: "
            "call it from a plain function"
        )

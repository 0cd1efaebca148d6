"""What shall be played of a scenario, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import OptionRefused
from .schedules import Options, Rules
from .schedules._strategies import depth_of


@dataclass(frozen=True, slots=True)
class Plan:
    """All that `explore` and `schedule_test` were told; see `explore`.

    Args:
        tokens: Schedules that are replayed first.
        schedules: How many to explore at most; None: none, the tokens are all.
    """

    scenario: Callable[..., Any]
    tokens: tuple[str, ...] = ()
    schedules: int | None = None
    strategy: str = "portfolio"
    seed: int = 0
    tries: int = 200
    rules: Rules = field(default_factory=Rules)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        __tracebackhide__ = True
        for what, value in (("explore", self.schedules), ("shrink with", self.tries)):
            if value is not None and (not is_whole(value) or value < 1):
                raise OptionRefused(f"{what} 1 schedule or more, a whole number, not {value!r}")
        if not is_whole(self.seed):
            raise OptionRefused(f"a seed is a whole number, not {self.seed!r}")
        given: tuple[object, object] = (self.rules, self.options)
        if [type(each) for each in given] != [Rules, Options]:
            raise OptionRefused(
                "rules= takes trouper.testing.Rules(...) and options= trouper.testing.Options(...)"
            )
        depth_of(self.strategy)


def is_whole(value: object) -> bool:
    """Tell whether it is an integer and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)

"""What to do when a child ended: pure rules on plain data.

No clock, no tasks: who calls gives the time and the random number, and keeps the `History` that
comes back. That is what makes every rule here a property test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, get_args

Restart: TypeAlias = Literal["permanent", "transient", "never"]
RESTARTS: Final[tuple[str, ...]] = get_args(Restart)
StrategyKind: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
AutoShutdown: TypeAlias = Literal["never", "any", "all"]
AUTO_SHUTDOWNS: Final[tuple[str, ...]] = get_args(AutoShutdown)


@dataclass(frozen=True, slots=True)
class Intensity:
    """At most ``limit`` restarts within any ``period`` seconds; one more is too many.

    Failed restart attempts count, exits of a shutdown do not. ``limit=0`` allows no restart.
    """

    limit: int = 3
    period: float = 5.0

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError(f"Intensity: limit must be 0 or more, not {self.limit}")
        if not self.period > 0:
            raise ValueError(f"Intensity: period must be more than 0 seconds, not {self.period}")

    def add(self, times: tuple[float, ...], now: float) -> tuple[float, ...] | None:
        """Return the window with one more restart in it, or None when that is one too many."""
        recent = tuple(t for t in times if now - t < self.period)
        return None if len(recent) >= self.limit else (*recent, now)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait longer after each failure in a row: ``first * factor**n``, at most ``cap`` seconds.

    ``jitter=0.1`` takes away up to a tenth of the wait at random, so that many children that failed
    together do not come back together. A child that lived ``reset`` seconds begins anew.
    """

    first: float = 0.1
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.1
    reset: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.cap < math.inf:
            raise ValueError(f"Backoff: need 0 < first <= cap, not {self.first} and {self.cap}")
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"Backoff: factor must be 1 or more, not {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Backoff: jitter is a share from 0 to 1, not {self.jitter}")
        if not self.reset > 0:
            raise ValueError(f"Backoff: reset must be more than 0 seconds, not {self.reset}")

    def delay(self, attempt: int, chance: float) -> float:
        """Return the wait before attempt ``attempt`` (0-based); ``chance`` is random in [0, 1)."""
        room = math.log(self.cap / self.first)
        # compared as logarithms: factor**attempt leaves the floats after a long row of failures
        full = self.cap if attempt * math.log(self.factor) >= room else None
        if full is None:
            full = self.first * self.factor**attempt
        return full * (1 - self.jitter * chance)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a parent treats its children. Made by `one_for_one`, `one_for_all`, `rest_for_one`."""

    kind: StrategyKind
    intensity: Intensity
    backoff: Backoff | None
    auto_shutdown: AutoShutdown = "never"

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.intensity), Intensity):
            raise TypeError(f"intensity takes Intensity(limit, period), not {self.intensity!r}")
        if not isinstance(cast("object", self.backoff), Backoff | None):
            raise TypeError(f"backoff takes Backoff(...), not {self.backoff!r}")
        if self.auto_shutdown not in AUTO_SHUTDOWNS:
            raise ValueError(
                f"auto_shutdown must be one of {', '.join(AUTO_SHUTDOWNS)}, "
                f"not {self.auto_shutdown!r}"
            )

    @property
    def is_shared(self) -> bool:
        """Whether the children share one window and one back-off, since they restart together."""
        return self.kind != "one_for_one"


def one_for_one(
    *,
    intensity: Intensity | None = None,
    backoff: Backoff | None = None,
    auto_shutdown: AutoShutdown = "never",
) -> Strategy:
    """Restart only the child that failed; each child has its own window and its own back-off.

    Args:
        intensity: How many restarts of one child are too many; 3 in 5 seconds by default.
        backoff: Waits between restarts; none by default, a child restarts at once.
        auto_shutdown: Whether the parent ends with *any* significant child that ends by itself,
            once *all* of them have, or *never*.
    """
    return Strategy("one_for_one", intensity or Intensity(), backoff, auto_shutdown)


def one_for_all(
    *,
    intensity: Intensity | None = None,
    backoff: Backoff | None = None,
    auto_shutdown: AutoShutdown = "never",
) -> Strategy:
    """Restart all children when one failed: stop them in reverse start order, start them in order.

    They share one window and one back-off. For children that are of no use without each other.

    Args:
        intensity: How many restarts together are too many; 3 in 5 seconds by default.
        backoff: Waits between stopping and starting; none by default.
        auto_shutdown: As for `one_for_one`.
    """
    return Strategy("one_for_all", intensity or Intensity(), backoff, auto_shutdown)


def rest_for_one(
    *,
    intensity: Intensity | None = None,
    backoff: Backoff | None = None,
    auto_shutdown: AutoShutdown = "never",
) -> Strategy:
    """Restart the child that failed and those started after it; the earlier ones are untouched.

    They share one window and one back-off. For children that each rest on the ones before.

    Args:
        intensity: How many restarts together are too many; 3 in 5 seconds by default.
        backoff: Waits between stopping and starting; none by default.
        auto_shutdown: As for `one_for_one`.
    """
    return Strategy("rest_for_one", intensity or Intensity(), backoff, auto_shutdown)


@dataclass(frozen=True, slots=True)
class History:
    """What a supervisor remembers: of one child, or of all when they restart together."""

    window: tuple[float, ...] = ()
    streak: int = 0  # restarts in a row, for the back-off
    last: float = -math.inf  # when its present life began, at the earliest


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start it again after ``delay`` seconds, and remember ``history``."""

    delay: float
    history: History


@dataclass(frozen=True, slots=True)
class Escalate:
    """This level does not handle it: stop the child, and fail its parent.

    ``is_limit`` tells a child that failed too often from one that must not be restarted.
    """

    is_limit: bool


@dataclass(frozen=True, slots=True)
class Forget:
    """It ended as it should: take it out of the books."""


Verdict: TypeAlias = RestartAfter | Escalate | Forget


def comes_back(restart: Restart, *, failed: bool) -> bool:
    """Tell whether a child of this policy that ended by itself is started again."""
    return restart == "permanent" or (restart == "transient" and failed)


def decide(
    strategy: Strategy,
    restart: Restart,
    history: History,
    *,
    failed: bool,
    now: float,
    chance: float = 0.0,
) -> Verdict:
    """Decide what happens to a child that ended by itself.

    Args:
        strategy: The parent's.
        restart: The child's policy: *permanent* always comes back, *transient* after a failure,
            *never* does not.
        history: What the previous verdict gave back, or a fresh one.
        failed: False when the child's code returned.
        now: Seconds on any clock that does not go back.
        chance: Random in [0, 1), for the jitter.
    """
    if not comes_back(restart, failed=failed):
        return Escalate(is_limit=False) if failed else Forget()
    window = strategy.intensity.add(history.window, now)
    if window is None:
        return Escalate(is_limit=True)
    backoff = strategy.backoff
    if backoff is None:
        return RestartAfter(0.0, History(window, history.streak + 1, now))
    streak = 0 if now - history.last >= backoff.reset else history.streak
    delay = backoff.delay(streak, chance)
    return RestartAfter(delay, History(window, streak + 1, now + delay))


def check_restart(restart: str) -> None:
    """Refuse a policy that is none.

    Raises:
        ValueError: Naming the three that are.
    """
    if restart not in RESTARTS:
        raise ValueError(f"restart must be one of {', '.join(RESTARTS)}, not {restart!r}")

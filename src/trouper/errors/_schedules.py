"""What exploring and replaying schedules refuses, or finds."""

from __future__ import annotations

from ._base import TrouperError
from ._store import StoreError


class ScheduleError(TrouperError):
    """Root of what the explorer of schedules raises."""


class UnknownStrategy(ScheduleError, ValueError):
    """No strategy has this name. The message lists the names there are."""

    strategy: str


class ScenarioRefused(ScheduleError, TypeError):
    """A scenario is an async generator function with one ``yield``, and this is something else."""


class OptionRefused(ScheduleError, ValueError):
    """An option of exploring is out of range, or does not go with another one."""


class NotPending(ScheduleError, LookupError):
    """A schedule that is driven by hand was told to do what cannot happen now.

    ``pending`` is what can.
    """

    pending: tuple[str, ...]


class ScheduleDiverged(ScheduleError):
    """A replayed schedule went another way than it was recorded, at ``step`` for the first time.

    The code under test depends on something that nobody controls: a clock, a random number, the
    order of a set. Or the recording is older than the code.
    """

    step: int
    expected: str
    found: tuple[str, ...]


class NeverQuiesced(ScheduleError):
    """A schedule had not come to rest after ``steps`` steps: something goes on for ever."""

    steps: int


class Deadlock(ScheduleError):
    """Everything waits, nothing is pending, and asks are open.

    ``waits`` is the wait-for graph, an edge each: (who waits, for whom, for what).
    """

    waits: tuple[tuple[str, str, str], ...]


class UncontrolledWait(ScheduleError):
    """The task ``task`` waits for what no schedule controls: a thread, or a socket.

    Such a schedule could not be played again. Call threads by ``ctx.to_thread`` or by an effect;
    or give ``Options(uncontrolled="serialize")``, and the explorer waits for it.
    """

    task: str


class SimulatedCrash(ScheduleError, StoreError):
    """This life of the system has crashed: the journal takes nothing from it, and shows it nothing.

    What still runs of it - a ``finally`` block, say - would not run if its process had died. Leave
    it alone: do not catch this.
    """

    life: int


class TokenRefused(ScheduleError, ValueError):
    """Root of the ways in which the token of a schedule is refused."""


class TokenGarbled(TokenRefused):
    """This is no token of a schedule, or a damaged one. Copy it again, whole."""


class TokenForeign(TokenRefused):
    """The token belongs to another scenario, or to another version of the format."""


class TokenStale(TokenRefused):
    """The scenario no longer does what the token puts in order; ``missing`` names it."""

    missing: tuple[str, ...]

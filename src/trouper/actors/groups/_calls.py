"""Work as described for a group: which code, with which arguments. Nothing starts by describing."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...store import PLAIN, Shape
from .._key import require_name
from ._envelope import EffectEnvelope, encode_arguments

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class EffectCall(Generic[R_co]):
    """One piece of work and its arguments, which are encoded already; good for many uses."""

    kind: str
    name: str
    arguments: bytes
    result: Shape[Any] = field(default=PLAIN, compare=False)

    def envelope(self, scope: str, replay_key: str) -> EffectEnvelope:
        """Return it as an envelope in a scope, not yet member of a group."""
        return EffectEnvelope(self.kind, self.name, self.arguments, scope, replay_key)


def timer(seconds: float, /) -> EffectCall[None]:
    """Describe a timer. Its due instant is journaled when it opens and survives restarts.

    Raises:
        TypeError: no number.
        ValueError: not a finite number of seconds, 0 or more.
    """
    if not isinstance(seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a timer takes a number of seconds, it got {seconds!r:.80}")
    if not 0 <= seconds <= sys.float_info.max:
        raise ValueError(f"a timer takes a finite number of seconds >= 0, it got {seconds!r:.80}")
    return EffectCall("timer", "sleep", encode_arguments([float(seconds)], {}))


def signal(name: str, /) -> EffectCall[Any]:
    """Describe a wait for a signal: it gives the payload of the oldest one that nobody has taken.

    Signals come to the key of the activation, or to the scope of the group on a host, by
    `ActorSystem.signal` or `EffectHost.signal`. The wait ends with the interest in its group,
    whatever is to become of other losers, and then takes none.

    Raises:
        ValueRefused: a name that is none.
    """
    return EffectCall(
        "signal", require_name(name, "the name of a signal"), encode_arguments([], {})
    )

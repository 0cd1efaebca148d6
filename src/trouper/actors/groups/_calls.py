"""Work as described for a group: which code, with which arguments. Nothing starts by describing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...store import PLAIN, Shape
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
        ValueError: not a finite number of seconds, 0 or more.
    """
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a timer takes a finite number of seconds >= 0, it got {seconds!r}")
    return EffectCall("timer", "sleep", encode_arguments([float(seconds)], {}))

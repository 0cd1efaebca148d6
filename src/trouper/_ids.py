"""Names of the identities that cross package borders."""

from __future__ import annotations

from typing import NamedTuple, NewType

ActivationKey = NewType("ActivationKey", str)
GroupKey = NewType("GroupKey", str)
ReplayKey = NewType("ReplayKey", str)


class Incarnation(NamedTuple):
    """Who owned something, told apart from the same name after a restart (ruling 6).

    ``epoch`` is bumped each time the store opens, ``number`` counts owners within it.
    """

    epoch: int
    number: int

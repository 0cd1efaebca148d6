"""What the runtime throws into a durable function.

All are `BaseException`, so that ``except Exception`` in user code cannot mistake them for an
outcome; swallowing one changes nothing, since the verdict is taken before it is thrown. Callers get
the `TrouperError` of the same name.
"""

from __future__ import annotations


class Signal(BaseException):
    """Root of what is thrown into durable functions."""


class ActivationCancelled(Signal):
    """The activation was cancelled; seen once, at one step. Clean-up steps may follow."""


class Leaving(Signal):
    """The function leaves memory; it comes back whole by replay."""


class Refused(Signal):
    """The function did what a durable function may not do; it will not go on."""


__all__ = ("ActivationCancelled", "Leaving", "Refused", "Signal")

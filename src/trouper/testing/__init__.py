"""What tests of trouper, and of programs built on it, have in common.

`Probe`, `TestKit` and `ManualClock` need nothing but trio. The conformance suites are in
`trouper.testing.conformance`; they need the ``testing`` extra.
"""

from ._clock import ManualClock as ManualClock
from ._kit import TestKit as TestKit
from ._probe import Probe as Probe

__all__ = ("ManualClock", "Probe", "TestKit")

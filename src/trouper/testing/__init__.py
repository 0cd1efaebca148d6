"""What tests of trouper, and of programs built on it, have in common.

`Probe`, `TestKit`, `ManualClock` and `FaultyStore` need nothing but trio. `explore`,
`schedule_test`, `replay` and `simulate` play schedules of a scenario, and load the explorer when
they are first asked for; the pytest plugin gives them ``--schedules`` and its like. The
conformance suites are in `trouper.testing.conformance`, Hypothesis's side of schedules is in
`trouper.testing.hypothesis`; both need the ``testing`` extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ._clock import ManualClock as ManualClock
from ._faulty_store import FaultyStore as FaultyStore
from ._kit import TestKit as TestKit
from ._probe import Probe as Probe

__all__ = (
    "Failure",
    "FaultyStore",
    "ManualClock",
    "Options",
    "Probe",
    "Report",
    "Rules",
    "Scenario",
    "Simulation",
    "Steering",
    "TestKit",
    "explore",
    "replay",
    "schedule_test",
    "simulate",
)

if TYPE_CHECKING:
    from ._explore import explore as explore
    from ._schedule_test import replay as replay
    from ._schedule_test import schedule_test as schedule_test
    from ._steering import Steering as Steering
    from ._steering import simulate as simulate
    from .schedules import Failure as Failure
    from .schedules import Options as Options
    from .schedules import Report as Report
    from .schedules import Rules as Rules
    from .schedules import Scenario as Scenario
    from .schedules import Simulation as Simulation
else:
    _HOMES: Final = {
        "explore": "._explore",
        "replay": "._schedule_test",
        "Steering": "._steering",
        "schedule_test": "._schedule_test",
        "simulate": "._steering",
    }

    def __getattr__(name):
        # On first use: who wants a probe does not pay for the explorer.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES.get(name, ".schedules"), __name__), name)

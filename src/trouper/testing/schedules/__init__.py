"""Exploring schedules: every order in which actors can be served, one after the other.

The core is pure, without clock, tasks or store: a driver offers events and lets the chosen one take
place (`Course`); a model in plain Python does the same as a `World`. `search` plays schedules,
`replay` one from its token; `text_chart` and `svg_chart` draw one that fails. `scenario_play` is
the driver of real actors: it plays an async function with one ``yield`` on a system of its own.
"""

from ._course import Chooser as Chooser
from ._course import Course as Course
from ._course import Play as Play
from ._course import Wait as Wait
from ._course import World as World
from ._course import player as player
from ._driver import scenario_play as scenario_play
from ._event import Event as Event
from ._event import Footprint as Footprint
from ._event import dependent as dependent
from ._failure import Failure as Failure
from ._order import Constraint as Constraint
from ._search import Report as Report
from ._search import replay as replay
from ._search import search as search
from ._shrink import ddmin as ddmin
from ._shrink import shrink as shrink
from ._simulation import Options as Options
from ._simulation import Scenario as Scenario
from ._simulation import Simulation as Simulation
from ._svg import svg_chart as svg_chart
from ._text import text_chart as text_chart
from ._token import Token as Token
from ._token import decode_token as decode_token
from ._token import encode_token as encode_token
from ._token import model_digest as model_digest
from ._trace import Rules as Rules
from ._trace import Step as Step
from ._trace import Trace as Trace

__all__ = (
    "Chooser",
    "Constraint",
    "Course",
    "Event",
    "Failure",
    "Footprint",
    "Options",
    "Play",
    "Report",
    "Rules",
    "Scenario",
    "Simulation",
    "Step",
    "Token",
    "Trace",
    "Wait",
    "World",
    "ddmin",
    "decode_token",
    "dependent",
    "encode_token",
    "model_digest",
    "player",
    "replay",
    "scenario_play",
    "search",
    "shrink",
    "svg_chart",
    "text_chart",
)

"""Supervision of any trio child: restart rules, ordered shutdown, and the tree they make."""

from ._child import ChildSpec as ChildSpec
from ._exit import Exit as Exit
from ._exit import ExitKind as ExitKind
from ._failures import join_failures as join_failures
from ._failures import unwrap as unwrap
from ._plan import Plan as Plan
from ._plan import check_significant as check_significant
from ._plan import ends_parent as ends_parent
from ._plan import plan_restart as plan_restart
from ._rules import AutoShutdown as AutoShutdown
from ._rules import Backoff as Backoff
from ._rules import Escalate as Escalate
from ._rules import Forget as Forget
from ._rules import History as History
from ._rules import Intensity as Intensity
from ._rules import Restart as Restart
from ._rules import RestartAfter as RestartAfter
from ._rules import Strategy as Strategy
from ._rules import Verdict as Verdict
from ._rules import check_restart as check_restart
from ._rules import decide as decide
from ._rules import one_for_all as one_for_all
from ._rules import one_for_one as one_for_one
from ._rules import rest_for_one as rest_for_one
from ._supervisor import Supervisor as Supervisor
from ._tree import TreeNode as TreeNode
from ._tree import render_text as render_text

__all__ = (
    "AutoShutdown",
    "Backoff",
    "ChildSpec",
    "Escalate",
    "Exit",
    "ExitKind",
    "Forget",
    "History",
    "Intensity",
    "Plan",
    "Restart",
    "RestartAfter",
    "Strategy",
    "Supervisor",
    "TreeNode",
    "Verdict",
    "check_restart",
    "check_significant",
    "decide",
    "ends_parent",
    "join_failures",
    "one_for_all",
    "one_for_one",
    "plan_restart",
    "render_text",
    "rest_for_one",
    "unwrap",
)

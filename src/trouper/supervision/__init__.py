"""Supervision of any trio child: restart rules, ordered shutdown, and the tree they make."""

from ._exit import Exit as Exit
from ._exit import ExitKind as ExitKind
from ._failures import join_failures as join_failures
from ._failures import unwrap as unwrap
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
from ._rules import one_for_one as one_for_one
from ._supervisor import ChildSpec as ChildSpec
from ._supervisor import Supervisor as Supervisor
from ._tree import TreeNode as TreeNode
from ._tree import render_text as render_text

__all__ = (
    "Backoff",
    "ChildSpec",
    "Escalate",
    "Exit",
    "ExitKind",
    "Forget",
    "History",
    "Intensity",
    "Restart",
    "RestartAfter",
    "Strategy",
    "Supervisor",
    "TreeNode",
    "Verdict",
    "check_restart",
    "decide",
    "join_failures",
    "one_for_one",
    "render_text",
    "unwrap",
)

"""Supervision of any trio child: restarts, ordered shutdown, budgets, and who ends with whom."""

from ..errors import BudgetExhausted as BudgetExhausted
from ..errors import OwnershipError as OwnershipError
from ._admission import Admission as Admission
from ._admission import admit as admit
from ._budget import Budget as Budget
from ._budget import Grant as Grant
from ._budget import Usage as Usage
from ._cancellation import CancelFact as CancelFact
from ._cancellation import CancellationTree as CancellationTree
from ._cancellation import CancelNode as CancelNode
from ._cancellation import NodeAdded as NodeAdded
from ._cancellation import NodeCancelled as NodeCancelled
from ._cancellation import NodeClosed as NodeClosed
from ._cancellation import NodeRetired as NodeRetired
from ._child import ChildSpec as ChildSpec
from ._entries import Accepted as Accepted
from ._entries import Carried as Carried
from ._entries import Entry as Entry
from ._entries import LedgerClosed as LedgerClosed
from ._entries import LedgerEnded as LedgerEnded
from ._entries import Reserved as Reserved
from ._entries import Settled as Settled
from ._entries import Spent as Spent
from ._exit import Exit as Exit
from ._exit import ExitKind as ExitKind
from ._failures import join_failures as join_failures
from ._failures import text_of as text_of
from ._failures import unwrap as unwrap
from ._ledger import Ledger as Ledger
from ._plan import Plan as Plan
from ._plan import check_significant as check_significant
from ._plan import ends_parent as ends_parent
from ._plan import plan_restart as plan_restart
from ._reservation import Reservation as Reservation
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
from ._tree import TREE_CHILDREN as TREE_CHILDREN
from ._tree import TREE_DEPTH as TREE_DEPTH
from ._tree import TreeNode as TreeNode
from ._tree import node_parts as node_parts
from ._tree import outline as outline
from ._tree import render_text as render_text

__all__ = (
    "TREE_CHILDREN",
    "TREE_DEPTH",
    "Accepted",
    "Admission",
    "AutoShutdown",
    "Backoff",
    "Budget",
    "BudgetExhausted",
    "CancelFact",
    "CancelNode",
    "CancellationTree",
    "Carried",
    "ChildSpec",
    "Entry",
    "Escalate",
    "Exit",
    "ExitKind",
    "Forget",
    "Grant",
    "History",
    "Intensity",
    "Ledger",
    "LedgerClosed",
    "LedgerEnded",
    "NodeAdded",
    "NodeCancelled",
    "NodeClosed",
    "NodeRetired",
    "OwnershipError",
    "Plan",
    "Reservation",
    "Reserved",
    "Restart",
    "RestartAfter",
    "Settled",
    "Spent",
    "Strategy",
    "Supervisor",
    "TreeNode",
    "Usage",
    "Verdict",
    "admit",
    "check_restart",
    "check_significant",
    "decide",
    "ends_parent",
    "join_failures",
    "node_parts",
    "one_for_all",
    "one_for_one",
    "outline",
    "plan_restart",
    "render_text",
    "rest_for_one",
    "text_of",
    "unwrap",
)

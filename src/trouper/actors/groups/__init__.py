"""Durable effect groups: settlement order as a journaled fact.

A group's children are opened together; each one's rank is allocated by the group's single writer at
the moment it settles, in the transaction that records its outcome. A caller who comes late, or
after a crash, reads the same order.
"""

from ..._gathered import Gathered as Gathered
from ..._gathered import GatheredTuple as GatheredTuple
from ._activity import Activity as Activity
from ._activity import ActivityRegistry as ActivityRegistry
from ._activity import require_activity as require_activity
from ._activity import source_of as source_of
from ._actor import GroupActor as GroupActor
from ._calls import EffectCall as EffectCall
from ._calls import signal as signal
from ._calls import timer as timer
from ._carried import rebuilt as rebuilt
from ._carried import result_shape as result_shape
from ._carriers import Tasks as Tasks
from ._claims import Renewal as Renewal
from ._combinators import Combinator as Combinator
from ._combinators import Rank as Rank
from ._combinators import Verdict as Verdict
from ._combinators import Won as Won
from ._combinators import in_time as in_time
from ._combinators import may_decide as may_decide
from ._combinators import verdict as verdict
from ._contract import EffectHostBase as EffectHostBase
from ._direct import Losers as Losers
from ._direct import OpenGroup as OpenGroup
from ._direct import all_of as all_of
from ._direct import all_settled as all_settled
from ._direct import any_of as any_of
from ._direct import move_on_after as move_on_after
from ._direct import open_group as open_group
from ._direct import race as race
from ._drain import ChildReport as ChildReport
from ._drain import ChildState as ChildState
from ._drain import DrainReport as DrainReport
from ._drain import GroupDrain as GroupDrain
from ._effect import Effect as Effect
from ._effect import EffectRunner as EffectRunner
from ._effect import effect as effect
from ._envelope import EffectEnvelope as EffectEnvelope
from ._envelope import GroupMembership as GroupMembership
from ._envelope import encode_arguments as encode_arguments
from ._envelope import require_same as require_same
from ._group import EffectGroup as EffectGroup
from ._handle import GroupHandle as GroupHandle
from ._handle import Settlement as Settlement
from ._host import EffectHost as EffectHost
from ._invariants import doomed_prefixes as doomed_prefixes
from ._invariants import group_invariants as group_invariants
from ._invariants import signal_invariants as signal_invariants
from ._ledger import Opened as Opened
from ._ledger import close_group as close_group
from ._ledger import pass_group as pass_group
from ._open import open_host as open_host
from ._outcome import Cancelled as Cancelled
from ._outcome import Completed as Completed
from ._outcome import ErrorRecord as ErrorRecord
from ._outcome import Failed as Failed
from ._outcome import Outcome as Outcome
from ._outcome import decode_outcome as decode_outcome
from ._outcome import encode_outcome as encode_outcome
from ._policy import Disposition as Disposition
from ._policy import WakePolicy as WakePolicy
from ._retries import Retries as Retries
from ._retries import Retry as Retry
from ._rows import GROUP_TABLE as GROUP_TABLE
from ._rows import ChildRow as ChildRow
from ._rows import GroupRow as GroupRow
from ._rows import children_prefix as children_prefix
from ._rows import group_key as group_key
from ._rows import report_damage as report_damage
from ._runner import EffectContext as EffectContext
from ._runner import Runner as Runner
from ._runner import RunnerResolver as RunnerResolver
from ._runner import Stuck as Stuck
from ._runner import attempt as attempt
from ._runner import no_executor as no_executor
from ._scopes import FINISHED as FINISHED
from ._scopes import UNFINISHED as UNFINISHED
from ._scopes import MemberRow as MemberRow
from ._scopes import all_unfinished as all_unfinished
from ._scopes import begin_run as begin_run
from ._scopes import end_run as end_run
from ._scopes import is_live as is_live
from ._scopes import member_key as member_key
from ._scopes import require_finished as require_finished
from ._scopes import take_off as take_off
from ._scopes import unfinished as unfinished
from ._signal_wait import SignalRunner as SignalRunner
from ._signals import QUEUE as QUEUE
from ._signals import SIGNAL_TABLE as SIGNAL_TABLE
from ._signals import SIGNALS_KEPT as SIGNALS_KEPT
from ._signals import Signal as Signal
from ._signals import SignalRow as SignalRow
from ._signals import SignalTake as SignalTake
from ._signals import give_back as give_back
from ._signals import is_open as is_open
from ._signals import oldest as oldest
from ._signals import refused as refused
from ._signals import remove as remove
from ._signals import require_open_scope as require_open_scope
from ._signals import signal_remains as signal_remains
from ._sweep import SCOPES as SCOPES
from ._sweep import Doomed as Doomed
from ._sweep import SweepRow as SweepRow
from ._sweep import begin_sweep as begin_sweep
from ._sweep import being_swept as being_swept
from ._sweep import everything_in as everything_in
from ._sweep import extent as extent
from ._tiers import EmbeddedHost as EmbeddedHost
from ._tiers import LmdbHost as LmdbHost
from ._tiers import MemoryHost as MemoryHost
from ._timer import Clock as Clock
from ._timer import TimerRunner as TimerRunner
from ._timer import WallClock as WallClock
from ._timer import due_of as due_of
from ._waiting import INSIDE as INSIDE

__all__ = (
    "FINISHED",
    "GROUP_TABLE",
    "INSIDE",
    "QUEUE",
    "SCOPES",
    "SIGNALS_KEPT",
    "SIGNAL_TABLE",
    "UNFINISHED",
    "Activity",
    "ActivityRegistry",
    "Cancelled",
    "ChildReport",
    "ChildRow",
    "ChildState",
    "Clock",
    "Combinator",
    "Completed",
    "Disposition",
    "Doomed",
    "DrainReport",
    "Effect",
    "EffectCall",
    "EffectContext",
    "EffectEnvelope",
    "EffectGroup",
    "EffectHost",
    "EffectHostBase",
    "EffectRunner",
    "EmbeddedHost",
    "ErrorRecord",
    "Failed",
    "Gathered",
    "GatheredTuple",
    "GroupActor",
    "GroupDrain",
    "GroupHandle",
    "GroupMembership",
    "GroupRow",
    "LmdbHost",
    "Losers",
    "MemberRow",
    "MemoryHost",
    "OpenGroup",
    "Opened",
    "Outcome",
    "Rank",
    "Renewal",
    "Retries",
    "Retry",
    "Runner",
    "RunnerResolver",
    "Settlement",
    "Signal",
    "SignalRow",
    "SignalRunner",
    "SignalTake",
    "Stuck",
    "SweepRow",
    "Tasks",
    "TimerRunner",
    "Verdict",
    "WakePolicy",
    "WallClock",
    "Won",
    "all_of",
    "all_settled",
    "all_unfinished",
    "any_of",
    "attempt",
    "begin_run",
    "begin_sweep",
    "being_swept",
    "children_prefix",
    "close_group",
    "decode_outcome",
    "doomed_prefixes",
    "due_of",
    "effect",
    "encode_arguments",
    "encode_outcome",
    "end_run",
    "everything_in",
    "extent",
    "give_back",
    "group_invariants",
    "group_key",
    "in_time",
    "is_live",
    "is_open",
    "may_decide",
    "member_key",
    "move_on_after",
    "no_executor",
    "oldest",
    "open_group",
    "open_host",
    "pass_group",
    "race",
    "rebuilt",
    "refused",
    "remove",
    "report_damage",
    "require_activity",
    "require_finished",
    "require_open_scope",
    "require_same",
    "result_shape",
    "signal",
    "signal_invariants",
    "signal_remains",
    "source_of",
    "take_off",
    "timer",
    "unfinished",
    "verdict",
)

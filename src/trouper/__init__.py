"""A durable actor runtime for trio.

A troupe of actors runs in one process under supervision; the ones that matter keep an embedded
journal and survive ``kill -9``. Start at `open_system`.
"""

# The layers, outermost first. Imports point down only (`make layers`); this facade is the one
# place that knows every package, and it loads none that costs an extra or an engine.
#
#   cli   testing                      what people hold in their hands
#   cells                              WebAssembly guests: a kind of runner that actors can be given
#   actors                             the core, then groups, operations, activations
#   mailbox | store | supervision      three ground floors that never import each other
#   _trio                              the door to trio's private parts
#   errors, _holds, _ids, _version     import nothing of ours

from ._version import __version__ as __version__
from .actors import Activation as Activation
from .actors import ActivationHandle as ActivationHandle
from .actors import Actor as Actor
from .actors import ActorSystem as ActorSystem
from .actors import Context as Context
from .actors import Decision as Decision
from .actors import DurableActor as DurableActor
from .actors import EffectContext as EffectContext
from .actors import Operation as Operation
from .actors import Ref as Ref
from .actors import Request as Request
from .actors import Tell as Tell
from .actors import Won as Won
from .actors import all_of as all_of
from .actors import all_settled as all_settled
from .actors import any_of as any_of
from .actors import applies as applies
from .actors import decides as decides
from .actors import durable as durable
from .actors import effect as effect
from .actors import handles as handles
from .actors import open_system as open_system
from .actors import race as race
from .cells import CellPool as CellPool
from .cells import GuestLimits as GuestLimits
from .cells import guest as guest
from .errors import ActivationCancelled as ActivationCancelled
from .errors import ActivationError as ActivationError
from .errors import ActivationMismatch as ActivationMismatch
from .errors import ActorCrashed as ActorCrashed
from .errors import ActorMismatch as ActorMismatch
from .errors import ActorStopped as ActorStopped
from .errors import AskCycle as AskCycle
from .errors import AskUnknown as AskUnknown
from .errors import BudgetExhausted as BudgetExhausted
from .errors import CellError as CellError
from .errors import CellsExhausted as CellsExhausted
from .errors import CorruptGroup as CorruptGroup
from .errors import CorruptRecord as CorruptRecord
from .errors import CursorOutOfRange as CursorOutOfRange
from .errors import DrainDeferred as DrainDeferred
from .errors import DrainFirst as DrainFirst
from .errors import EffectFailed as EffectFailed
from .errors import EffectGroupsUnsupported as EffectGroupsUnsupported
from .errors import EmptyGroup as EmptyGroup
from .errors import ExtraMissing as ExtraMissing
from .errors import FenceMoved as FenceMoved
from .errors import ForeignFork as ForeignFork
from .errors import FormatTooNew as FormatTooNew
from .errors import GroupError as GroupError
from .errors import GroupRetired as GroupRetired
from .errors import GroupShapeError as GroupShapeError
from .errors import GuestDeadline as GuestDeadline
from .errors import GuestRefused as GuestRefused
from .errors import GuestTrapped as GuestTrapped
from .errors import HandleBusy as HandleBusy
from .errors import HandleClosed as HandleClosed
from .errors import HistoryLimit as HistoryLimit
from .errors import InboxClosed as InboxClosed
from .errors import InvariantError as InvariantError
from .errors import LeaseError as LeaseError
from .errors import LinkBroken as LinkBroken
from .errors import MailboxFull as MailboxFull
from .errors import MembershipDropped as MembershipDropped
from .errors import MessageMismatch as MessageMismatch
from .errors import NameTaken as NameTaken
from .errors import NoExecutor as NoExecutor
from .errors import NondeterministicAwait as NondeterministicAwait
from .errors import NotHandled as NotHandled
from .errors import OperationFailed as OperationFailed
from .errors import OperationMismatch as OperationMismatch
from .errors import OutcomeUnknown as OutcomeUnknown
from .errors import OutOfFuel as OutOfFuel
from .errors import OwnershipError as OwnershipError
from .errors import PathRefused as PathRefused
from .errors import PipesFull as PipesFull
from .errors import Reject as Reject
from .errors import ReplayMismatch as ReplayMismatch
from .errors import RestartLimitReached as RestartLimitReached
from .errors import ScopeLeak as ScopeLeak
from .errors import ShuttingDown as ShuttingDown
from .errors import SignalRefused as SignalRefused
from .errors import SignalsFull as SignalsFull
from .errors import StartFailed as StartFailed
from .errors import StashFull as StashFull
from .errors import StoreClosed as StoreClosed
from .errors import StoreDamaged as StoreDamaged
from .errors import StoreError as StoreError
from .errors import StoreFull as StoreFull
from .errors import StoreLost as StoreLost
from .errors import StoreOwned as StoreOwned
from .errors import TimersFull as TimersFull
from .errors import TooLarge as TooLarge
from .errors import TopicFull as TopicFull
from .errors import TrouperError as TrouperError
from .errors import UnknownActivity as UnknownActivity
from .errors import UpcastFailed as UpcastFailed
from .errors import ValueRefused as ValueRefused
from .errors import WrongEngine as WrongEngine
from .errors import WrongTask as WrongTask
from .store import LmdbStore as LmdbStore
from .store import MemoryStore as MemoryStore
from .supervision import Backoff as Backoff

__all__ = (
    "Activation",
    "ActivationCancelled",
    "ActivationError",
    "ActivationHandle",
    "ActivationMismatch",
    "Actor",
    "ActorCrashed",
    "ActorMismatch",
    "ActorStopped",
    "ActorSystem",
    "AskCycle",
    "AskUnknown",
    "Backoff",
    "BudgetExhausted",
    "CellError",
    "CellPool",
    "CellsExhausted",
    "Context",
    "CorruptGroup",
    "CorruptRecord",
    "CursorOutOfRange",
    "Decision",
    "DrainDeferred",
    "DrainFirst",
    "DurableActor",
    "EffectContext",
    "EffectFailed",
    "EffectGroupsUnsupported",
    "EmptyGroup",
    "ExtraMissing",
    "FenceMoved",
    "ForeignFork",
    "FormatTooNew",
    "GroupError",
    "GroupRetired",
    "GroupShapeError",
    "GuestDeadline",
    "GuestLimits",
    "GuestRefused",
    "GuestTrapped",
    "HandleBusy",
    "HandleClosed",
    "HistoryLimit",
    "InboxClosed",
    "InvariantError",
    "LeaseError",
    "LinkBroken",
    "LmdbStore",
    "MailboxFull",
    "MembershipDropped",
    "MemoryStore",
    "MessageMismatch",
    "NameTaken",
    "NoExecutor",
    "NondeterministicAwait",
    "NotHandled",
    "Operation",
    "OperationFailed",
    "OperationMismatch",
    "OutOfFuel",
    "OutcomeUnknown",
    "OwnershipError",
    "PathRefused",
    "PipesFull",
    "Ref",
    "Reject",
    "ReplayMismatch",
    "Request",
    "RestartLimitReached",
    "ScopeLeak",
    "ShuttingDown",
    "SignalRefused",
    "SignalsFull",
    "StartFailed",
    "StashFull",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLost",
    "StoreOwned",
    "Tell",
    "TimersFull",
    "TooLarge",
    "TopicFull",
    "TrouperError",
    "UnknownActivity",
    "UpcastFailed",
    "ValueRefused",
    "Won",
    "WrongEngine",
    "WrongTask",
    "__version__",
    "all_of",
    "all_settled",
    "any_of",
    "applies",
    "decides",
    "durable",
    "effect",
    "guest",
    "handles",
    "open_system",
    "race",
)

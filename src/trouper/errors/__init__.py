"""Every error a caller can do something about, in one place.

One root, one class per thing a caller can do. A message says what was wrong, where, and what to do
next; the same facts are attributes, so that a program never parses a message. Errors are data: an
error that a durable step raised is journaled as (name, message, facts) and comes back as itself,
equal in type and content, on the first run and on every replay (spec README, ruling 13).
"""

from ._activations import ActivationCancelled as ActivationCancelled
from ._activations import ActivationError as ActivationError
from ._activations import ActivationMismatch as ActivationMismatch
from ._activations import BudgetExhausted as BudgetExhausted
from ._activations import HistoryLimit as HistoryLimit
from ._activations import NondeterministicAwait as NondeterministicAwait
from ._activations import OwnershipError as OwnershipError
from ._activations import SignalRefused as SignalRefused
from ._activations import SignalsFull as SignalsFull
from ._activations import UnknownActivity as UnknownActivity
from ._actors import ActorCrashed as ActorCrashed
from ._actors import ActorMismatch as ActorMismatch
from ._actors import ActorStopped as ActorStopped
from ._actors import AskCycle as AskCycle
from ._actors import AskUnknown as AskUnknown
from ._actors import InboxClosed as InboxClosed
from ._actors import LinkBroken as LinkBroken
from ._actors import MailboxFull as MailboxFull
from ._actors import MessageMismatch as MessageMismatch
from ._actors import NameTaken as NameTaken
from ._actors import NotHandled as NotHandled
from ._actors import PipesFull as PipesFull
from ._actors import RestartLimitReached as RestartLimitReached
from ._actors import ScopeLeak as ScopeLeak
from ._actors import ShuttingDown as ShuttingDown
from ._actors import StartFailed as StartFailed
from ._actors import StashFull as StashFull
from ._actors import TimersFull as TimersFull
from ._actors import TopicFull as TopicFull
from ._actors import WrongTask as WrongTask
from ._base import ExtraMissing as ExtraMissing
from ._base import InvariantError as InvariantError
from ._base import Reject as Reject
from ._base import TrouperError as TrouperError
from ._base import durable_name as durable_name
from ._cells import CellError as CellError
from ._cells import CellsExhausted as CellsExhausted
from ._cells import GuestDeadline as GuestDeadline
from ._cells import GuestRefused as GuestRefused
from ._cells import GuestTrapped as GuestTrapped
from ._cells import LeaseError as LeaseError
from ._cells import OutOfFuel as OutOfFuel
from ._groups import CorruptGroup as CorruptGroup
from ._groups import CursorOutOfRange as CursorOutOfRange
from ._groups import DrainDeferred as DrainDeferred
from ._groups import DrainFirst as DrainFirst
from ._groups import EffectFailed as EffectFailed
from ._groups import EffectGroupsUnsupported as EffectGroupsUnsupported
from ._groups import EmptyGroup as EmptyGroup
from ._groups import GroupError as GroupError
from ._groups import GroupRetired as GroupRetired
from ._groups import GroupShapeError as GroupShapeError
from ._groups import HandleBusy as HandleBusy
from ._groups import HandleClosed as HandleClosed
from ._groups import MembershipDropped as MembershipDropped
from ._groups import NoExecutor as NoExecutor
from ._groups import OperationFailed as OperationFailed
from ._groups import OperationForgotten as OperationForgotten
from ._groups import OperationMismatch as OperationMismatch
from ._groups import OutcomeUnknown as OutcomeUnknown
from ._groups import ReplayMismatch as ReplayMismatch
from ._groups import ScopeBusy as ScopeBusy
from ._schedules import Deadlock as Deadlock
from ._schedules import NeverQuiesced as NeverQuiesced
from ._schedules import NotPending as NotPending
from ._schedules import OptionRefused as OptionRefused
from ._schedules import ScenarioRefused as ScenarioRefused
from ._schedules import ScheduleDiverged as ScheduleDiverged
from ._schedules import ScheduleError as ScheduleError
from ._schedules import SimulatedCrash as SimulatedCrash
from ._schedules import TokenForeign as TokenForeign
from ._schedules import TokenGarbled as TokenGarbled
from ._schedules import TokenRefused as TokenRefused
from ._schedules import TokenStale as TokenStale
from ._schedules import UncontrolledWait as UncontrolledWait
from ._schedules import UnknownStrategy as UnknownStrategy
from ._store import CorruptRecord as CorruptRecord
from ._store import FenceMoved as FenceMoved
from ._store import ForeignFork as ForeignFork
from ._store import FormatTooNew as FormatTooNew
from ._store import PathRefused as PathRefused
from ._store import StoreClosed as StoreClosed
from ._store import StoreDamaged as StoreDamaged
from ._store import StoreError as StoreError
from ._store import StoreFull as StoreFull
from ._store import StoreLost as StoreLost
from ._store import StoreOwned as StoreOwned
from ._store import TooLarge as TooLarge
from ._store import UpcastFailed as UpcastFailed
from ._store import ValueRefused as ValueRefused
from ._store import WrongEngine as WrongEngine

__all__ = (
    "ActivationCancelled",
    "ActivationError",
    "ActivationMismatch",
    "ActorCrashed",
    "ActorMismatch",
    "ActorStopped",
    "AskCycle",
    "AskUnknown",
    "BudgetExhausted",
    "CellError",
    "CellsExhausted",
    "CorruptGroup",
    "CorruptRecord",
    "CursorOutOfRange",
    "Deadlock",
    "DrainDeferred",
    "DrainFirst",
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
    "GuestRefused",
    "GuestTrapped",
    "HandleBusy",
    "HandleClosed",
    "HistoryLimit",
    "InboxClosed",
    "InvariantError",
    "LeaseError",
    "LinkBroken",
    "MailboxFull",
    "MembershipDropped",
    "MessageMismatch",
    "NameTaken",
    "NeverQuiesced",
    "NoExecutor",
    "NondeterministicAwait",
    "NotHandled",
    "NotPending",
    "OperationFailed",
    "OperationForgotten",
    "OperationMismatch",
    "OptionRefused",
    "OutOfFuel",
    "OutcomeUnknown",
    "OwnershipError",
    "PathRefused",
    "PipesFull",
    "Reject",
    "ReplayMismatch",
    "RestartLimitReached",
    "ScenarioRefused",
    "ScheduleDiverged",
    "ScheduleError",
    "ScopeBusy",
    "ScopeLeak",
    "ShuttingDown",
    "SignalRefused",
    "SignalsFull",
    "SimulatedCrash",
    "StartFailed",
    "StashFull",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLost",
    "StoreOwned",
    "TimersFull",
    "TokenForeign",
    "TokenGarbled",
    "TokenRefused",
    "TokenStale",
    "TooLarge",
    "TopicFull",
    "TrouperError",
    "UncontrolledWait",
    "UnknownActivity",
    "UnknownStrategy",
    "UpcastFailed",
    "ValueRefused",
    "WrongEngine",
    "WrongTask",
    "durable_name",
)

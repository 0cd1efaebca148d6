"""Queues and the order in which they are served: mailboxes, the ready queue, its workers.

Knows nothing of actors: a `Mailbox` is handed a table of handlers and asks its subclass what a
failure means.
"""

from ._age import note_taken as note_taken
from ._ask import Ask as Ask
from ._control import CONTROL_BURST as CONTROL_BURST
from ._control import Control as Control
from ._control import Owed as Owed
from ._control import messages_of as messages_of
from ._control import order as order
from ._control import put_back as put_back
from ._control import run_control as run_control
from ._dispatcher import Dispatcher as Dispatcher
from ._dispatcher import ReadyQueue as ReadyQueue
from ._intake import REJECT as REJECT
from ._intake import Intake as Intake
from ._intake import Overflow as Overflow
from ._intake import Priority as Priority
from ._intake import check_overflow as check_overflow
from ._intake import make_intake as make_intake
from ._jobs import Job as Job
from ._jobs import Named as Named
from ._jobs import News as News
from ._jobs import Stepper as Stepper
from ._jobs import Unborn as Unborn
from ._mailbox import Mailbox as Mailbox
from ._room import move_in as move_in
from ._room import send_away as send_away
from ._states import DRAINING as DRAINING
from ._states import FAILED as FAILED
from ._states import RUNNING as RUNNING
from ._states import STARTING as STARTING
from ._states import STATE_NAMES as STATE_NAMES
from ._states import STOPPED as STOPPED
from ._states import STOPPING as STOPPING
from ._statistics import DispatcherStatistics as DispatcherStatistics
from ._statistics import MailboxStatistics as MailboxStatistics
from ._suspension import suspend as suspend
from ._table import CLOSED as CLOSED
from ._table import Handler as Handler
from ._table import Table as Table
from ._traced import Traced as Traced
from ._traced import bare as bare
from ._waiting import wait_in as wait_in

__all__ = (
    "CLOSED",
    "CONTROL_BURST",
    "DRAINING",
    "FAILED",
    "REJECT",
    "RUNNING",
    "STARTING",
    "STATE_NAMES",
    "STOPPED",
    "STOPPING",
    "Ask",
    "Control",
    "Dispatcher",
    "DispatcherStatistics",
    "Handler",
    "Intake",
    "Job",
    "Mailbox",
    "MailboxStatistics",
    "Named",
    "News",
    "Overflow",
    "Owed",
    "Priority",
    "ReadyQueue",
    "Stepper",
    "Table",
    "Traced",
    "Unborn",
    "bare",
    "check_overflow",
    "make_intake",
    "messages_of",
    "move_in",
    "note_taken",
    "order",
    "put_back",
    "run_control",
    "send_away",
    "suspend",
    "wait_in",
)

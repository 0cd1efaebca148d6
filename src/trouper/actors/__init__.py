"""The actor core: actors, refs, the system they live in."""

from ..mailbox import MailboxStatistics as MailboxStatistics
from ._actor import Actor as Actor
from ._context import Context as Context
from ._dead_letters import DeadLetter as DeadLetter
from ._dead_letters import DeadLetters as DeadLetters
from ._handlers import handles as handles
from ._messages import Asked as Asked
from ._messages import Request as Request
from ._messages import Takes as Takes
from ._ref import Ref as Ref
from ._system import ActorSystem as ActorSystem
from ._system import Service as Service
from ._system import SystemStatistics as SystemStatistics
from ._system import open_system as open_system

__all__ = (
    "Actor",
    "ActorSystem",
    "Asked",
    "Context",
    "DeadLetter",
    "DeadLetters",
    "MailboxStatistics",
    "Ref",
    "Request",
    "Service",
    "SystemStatistics",
    "Takes",
    "handles",
    "open_system",
)

"""Actors: the messaging core, and the durable actors built on it.

The core (this package's own modules) is refs, mailboxes, turns, supervision and the system. On it
stand `groups` (durable effect groups), `operations` (idempotency-keyed records), `activations`
(durable functions) and `durable_actors` (their base class), all single writers of what they
journal.
"""

from ..mailbox import MailboxStatistics as MailboxStatistics
from ..mailbox import Overflow as Overflow
from ._actor import Actor as Actor
from ._context import Context as Context
from ._dead_letters import DeadLetter as DeadLetter
from ._dead_letters import DeadLetters as DeadLetters
from ._dead_letters import LetterStream as LetterStream
from ._handlers import handles as handles
from ._inbox import Asking as Asking
from ._inbox import Inbox as Inbox
from ._instruments import Instrument as Instrument
from ._instruments import Journey as Journey
from ._instruments import Turn as Turn
from ._messages import Asked as Asked
from ._messages import Request as Request
from ._messages import Takes as Takes
from ._open import open_system as open_system
from ._otel import OpenTelemetry as OpenTelemetry
from ._ref import Ref as Ref
from ._registry import Registry as Registry
from ._services import Service as Service
from ._system import ActorSystem as ActorSystem
from ._system import SystemStatistics as SystemStatistics
from ._topics import Topics as Topics
from ._watches import Terminated as Terminated
from .activations import Activation as Activation
from .activations import ActivationHandle as ActivationHandle
from .activations import durable as durable
from .durable_actors import Decision as Decision
from .durable_actors import DurableActor as DurableActor
from .durable_actors import Tell as Tell
from .durable_actors import applies as applies
from .durable_actors import decides as decides
from .groups import EffectContext as EffectContext
from .groups import Won as Won
from .groups import all_of as all_of
from .groups import all_settled as all_settled
from .groups import any_of as any_of
from .groups import effect as effect
from .groups import race as race
from .operations import Operation as Operation

__all__ = (
    "Activation",
    "ActivationHandle",
    "Actor",
    "ActorSystem",
    "Asked",
    "Asking",
    "Context",
    "DeadLetter",
    "DeadLetters",
    "Decision",
    "DurableActor",
    "EffectContext",
    "Inbox",
    "Instrument",
    "Journey",
    "LetterStream",
    "MailboxStatistics",
    "OpenTelemetry",
    "Operation",
    "Overflow",
    "Ref",
    "Registry",
    "Request",
    "Service",
    "SystemStatistics",
    "Takes",
    "Tell",
    "Terminated",
    "Topics",
    "Turn",
    "Won",
    "all_of",
    "all_settled",
    "any_of",
    "applies",
    "decides",
    "durable",
    "effect",
    "handles",
    "open_system",
    "race",
)

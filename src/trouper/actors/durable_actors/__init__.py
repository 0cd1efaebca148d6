"""Durable actors: single writers of a history, each under its key.

`DurableActor` is the base class; `decides` and `applies` mark its pure rules; `ActorSystem.actor`
spawns or finds one. What they decide is in the journal before anybody hears of it.
"""

from ._actor import DurableActor as DurableActor
from ._decision import Decision as Decision
from ._decision import Tell as Tell
from ._declare import applies as applies
from ._declare import decides as decides
from ._home import Home as Home
from ._invariants import history_invariants as history_invariants

__all__ = ("Decision", "DurableActor", "Home", "Tell", "applies", "decides", "history_invariants")

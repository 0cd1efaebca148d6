"""Activations: durable functions, replayed deterministically and resumed by themselves."""

from . import signals as signals
from ._activation import Activation as Activation
from ._call import Call as Call
from ._driver import Driver as Driver
from ._durable import Durable as Durable
from ._durable import durable as durable
from ._handle import ActivationHandle as ActivationHandle
from ._invariants import activation_invariants as activation_invariants
from ._rows import ActivationRow as ActivationRow
from ._rows import FenceRow as FenceRow
from ._rows import StepRow as StepRow
from ._rows import activation_key as activation_key
from ._rows import fence_key as fence_key
from ._rows import steps_prefix as steps_prefix
from ._service import HISTORY_LIMIT as HISTORY_LIMIT
from ._service import ActivationRunner as ActivationRunner
from ._service import Activations as Activations
from ._signalling import send_signal as send_signal

__all__ = (
    "HISTORY_LIMIT",
    "Activation",
    "ActivationHandle",
    "ActivationRow",
    "ActivationRunner",
    "Activations",
    "Call",
    "Driver",
    "Durable",
    "FenceRow",
    "StepRow",
    "activation_invariants",
    "activation_key",
    "durable",
    "fence_key",
    "send_signal",
    "signals",
    "steps_prefix",
)

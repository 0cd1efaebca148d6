"""WebAssembly execution cells: a fixed number of places where untrusted code runs, one at a time.

A guest is described with `guest` and run by a `CellPool`. What bounds it, kills it and proves its
cell clean afterwards is written down in ``docs/guest-abi.md`` and in the modules here:
``_cell`` (the rules), ``_slot`` and ``_pool`` (who applies them), ``_thread``, ``_wasm`` and
``_shim`` (where the guest runs), ``_admission`` (what may run at all), ``_provider``.
"""

from ..errors import CellError as CellError
from ..errors import CellsExhausted as CellsExhausted
from ..errors import GuestDeadline as GuestDeadline
from ..errors import GuestRefused as GuestRefused
from ..errors import GuestTrapped as GuestTrapped
from ..errors import LeaseError as LeaseError
from ..errors import OutOfFuel as OutOfFuel
from ._cell import CellState as CellState
from ._guest import Guest as Guest
from ._guest import Provider as Provider
from ._guest import ProviderContext as ProviderContext
from ._guest import guest as guest
from ._limits import AdmissionLimits as AdmissionLimits
from ._limits import GuestLimits as GuestLimits
from ._pool import CellPool as CellPool
from ._quarantine import CellView as CellView
from ._quarantine import PoolStatistics as PoolStatistics
from ._quarantine import Quarantine as Quarantine

__all__ = (
    "AdmissionLimits",
    "CellError",
    "CellPool",
    "CellState",
    "CellView",
    "CellsExhausted",
    "Guest",
    "GuestDeadline",
    "GuestLimits",
    "GuestRefused",
    "GuestTrapped",
    "LeaseError",
    "OutOfFuel",
    "PoolStatistics",
    "Provider",
    "ProviderContext",
    "Quarantine",
    "guest",
)

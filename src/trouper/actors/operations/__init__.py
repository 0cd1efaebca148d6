"""Operations: shared records under an idempotency key, settled monotonically."""

from ._invariants import operation_invariants as operation_invariants
from ._lattice import OBSERVATIONS as OBSERVATIONS
from ._lattice import Observation as Observation
from ._lattice import OperationState as OperationState
from ._lattice import OperationStatus as OperationStatus
from ._lattice import refuse as refuse
from ._lattice import settle as settle
from ._operation import Operation as Operation
from ._operation import Operations as Operations
from ._rows import OperationRow as OperationRow

__all__ = (
    "OBSERVATIONS",
    "Observation",
    "Operation",
    "OperationRow",
    "OperationState",
    "OperationStatus",
    "Operations",
    "operation_invariants",
    "refuse",
    "settle",
)

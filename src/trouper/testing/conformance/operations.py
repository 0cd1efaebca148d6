"""What every implementation of operations must do: one law per rule of monotonic settlement.

    @pytest.mark.parametrize("law", operations.LAWS, ids=lambda law: law.__name__)
    async def test_law(law, mock_clock):
        subject = MemoryHost()
        await law(operations.EmbeddedOperations(lambda: subject, mock_clock))

A law gets an `OperationBench` on a journal of its own and drives attempts of its own through gates;
time passes only where a law moves the clock. For a tier that is not embedded, implement
`OperationBench`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ._host_bench import Ending
from ._operation_attempts import ATTEMPT_LAWS
from ._operation_bench import (
    Attempts,
    EmbeddedOperations,
    OperationBench,
    OperationOwner,
    OperationRuntime,
)
from ._operation_laws import RECORD_LAWS

Law = Callable[[OperationBench], Awaitable[None]]

LAWS: Final[tuple[Law, ...]] = (*RECORD_LAWS, *ATTEMPT_LAWS)

__all__ = (
    "LAWS",
    "Attempts",
    "EmbeddedOperations",
    "Ending",
    "Law",
    "OperationBench",
    "OperationOwner",
    "OperationRuntime",
)

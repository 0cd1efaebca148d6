"""What every effect host must do: one law per rule of effect groups; the drain is `drain`.

    @pytest.mark.parametrize("law", host.LAWS, ids=lambda law: law.__name__)
    async def test_law(law, mock_clock):
        subject = MemoryHost()
        await law(host.EmbeddedBench(lambda: subject, mock_clock))

A law gets a `HostBench` on a journal of its own and drives children of its own through gates; no
law looks at a clock, and none has to wait for time to pass. Beside the laws,
`a_history_is_that_of_the_model` compares a random history with a model that knows no store: run it
for as many seeds as you have time for. For a tier that is not embedded,
implement `HostBench`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ._host_bench import EmbeddedBench, Ending, HostBench, Runtime
from ._host_cast import Cast, Part, refused
from ._host_close import CLOSE_LAWS
from ._host_fence import FENCE_LAWS
from ._host_open import OPEN_LAWS
from ._host_rank import RANK_LAWS
from ._host_retire import RETIRE_LAWS
from ._host_retry import RETRY_LAWS
from ._host_signals import SIGNAL_LAWS
from ._host_story import a_history_is_that_of_the_model

Law = Callable[[HostBench], Awaitable[None]]

LAWS: Final[tuple[Law, ...]] = (
    *OPEN_LAWS,
    *RANK_LAWS,
    *CLOSE_LAWS,
    *FENCE_LAWS,
    *RETIRE_LAWS,
    *RETRY_LAWS,
    *SIGNAL_LAWS,
)

__all__ = (
    "LAWS",
    "Cast",
    "EmbeddedBench",
    "Ending",
    "HostBench",
    "Law",
    "Part",
    "Runtime",
    "a_history_is_that_of_the_model",
    "refused",
)

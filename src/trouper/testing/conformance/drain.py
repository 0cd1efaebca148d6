"""What the drain of every effect host must do: one law per rule of finishing groups.

    @pytest.mark.parametrize("law", drain.LAWS, ids=lambda law: law.__name__)
    async def test_law(law, mock_clock):
        subject = MemoryHost()
        await law(drain.EmbeddedBench(lambda: subject, mock_clock))

The subject and its bench are those of the `host` suite: one fixture serves both. A damaged row,
which a drain reports as *corrupt*, is left to each host's own tests: nothing portable makes one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ._host_bench import EmbeddedBench, Ending, HostBench, Runtime
from ._host_cast import Cast, Part, refused
from ._host_drain import DRAIN_LAWS

Law = Callable[[HostBench], Awaitable[None]]

LAWS: Final[tuple[Law, ...]] = DRAIN_LAWS

__all__ = (
    "LAWS",
    "Cast",
    "EmbeddedBench",
    "Ending",
    "HostBench",
    "Law",
    "Part",
    "Runtime",
    "refused",
)

"""What the tests of planted faults in a host share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio.testing
from tests.conformance.planting import Catches, assert_caught

from trouper.store import MemoryStore
from trouper.testing.conformance import drain, host


@pytest.fixture
def catches() -> Catches:
    """Assert that a law of the host suite objects to a fault, and to nothing without it."""

    async def catch(law: str, plant: Callable[[], None], clock: trio.testing.MockClock) -> None:
        def bench() -> host.EmbeddedBench:
            store = MemoryStore()
            return host.EmbeddedBench(lambda: store, clock)

        await assert_caught(law, [*host.LAWS, *drain.LAWS], bench, plant)

    return catch

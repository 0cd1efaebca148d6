"""Operations on both stores pass the suite that we ship."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing
from tests.conformance.test_host import MAKERS, bounded

from trouper.testing.conformance import operations


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("law", operations.LAWS, ids=lambda law: law.__name__)
async def test_law(
    law: operations.Law, kind: str, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with bounded(20):
        await law(operations.EmbeddedOperations(MAKERS[kind](tmp_path / "state"), mock_clock))

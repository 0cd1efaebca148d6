"""What all schedule tests of the runtime share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out the log: failures are what these scenarios are made of."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)

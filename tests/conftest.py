"""What every test shares: budgets of time, and suites that explain their asserts."""

from __future__ import annotations

import math
import signal
import time

import pytest
from hypothesis import HealthCheck, settings

_STARTED = time.monotonic()

# The conformance suites are plain modules of the package. Told before any test imports them.
pytest.register_assert_rewrite("trouper.testing.conformance")

# Hypothesis measures examples by the wall clock, and a busy machine is no failure of ours.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# A shell lets what it starts in the background ignore Ctrl-C, which would leave the tests of
# interrupts waiting for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak-seconds",
        type=float,
        metavar="S",
        help="start no test later than S seconds into the run; what is left is skipped, visibly",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    budget: float | None = item.config.getoption("--soak-seconds")
    if budget is not None and time.monotonic() - _STARTED > budget:
        pytest.skip(f"the soak's {budget:g} s are used up")


@pytest.fixture
def soak_left(request: pytest.FixtureRequest) -> float:
    """Seconds that are left of ``--soak-seconds``; infinite without it."""
    budget: float | None = request.config.getoption("--soak-seconds")
    return math.inf if budget is None else budget - (time.monotonic() - _STARTED)

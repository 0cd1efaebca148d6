"""The options of schedule tests, as a pytest plugin that costs nothing until one is used.

It lies beside the package, not in it: pytest loads its plugins at every start, and importing
anything below ``trouper`` imports trio, lmdb and the rest first. What does the work is
``trouper.testing._plugin``, loaded with the first test that plays schedules.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

import pytest

OPTIONS: Final = (
    "schedules",
    "schedule_seed",
    "schedule_strategy",
    "schedule_replay",
    "schedule_check_determinism",
    "schedule_real_crash",
    "schedule_chart",
    "schedule_job",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("schedules", "deterministic schedules (trouper)")
    group.addoption(
        "--schedules", type=int, metavar="N", help="explore at most N schedules in each test"
    )
    group.addoption("--schedule-seed", type=int, metavar="S", help="which random schedules")
    group.addoption(
        "--schedule-strategy",
        metavar="NAME",
        help="portfolio, dfs, sleep, naive, fifo, walk, pos or pct:N",
    )
    group.addoption(
        "--schedule-replay",
        metavar="TOKEN",
        help="replay the one schedule that a failure printed, instead of exploring",
    )
    group.addoption(
        "--schedule-check-determinism",
        action="store_true",
        help="play schedules again in a second process with another hash seed, and compare",
    )
    group.addoption(
        "--schedule-real-crash",
        action="store_true",
        help="play a failure that has a crash in it again, with kill -9 on a real store",
    )
    group.addoption(
        "--schedule-chart",
        metavar="DIR",
        help="draw failing schedules, as SVG and text, into this folder",
    )
    # what the second process of a check is to do
    group.addoption("--schedule-job", metavar="FILE", help=argparse.SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, if there are any."""
    if any(config.getoption(name) not in (None, False) for name in OPTIONS):
        _load(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Load what does the work, if a test module has loaded what plays schedules."""
    if "trouper.testing.schedules" in sys.modules:
        _load(config)


def _load(config: pytest.Config) -> None:
    from trouper.testing import _plugin

    if not config.pluginmanager.is_registered(_plugin):
        _plugin.check(config)
        config.pluginmanager.register(_plugin, "trouper-schedules")
